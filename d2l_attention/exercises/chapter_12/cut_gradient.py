"""12.5: weights that are cut off from learning."""

import torch

from d2l_attention.exercises.authoring import heading
from d2l_attention.exercises.chapter_12._exhibit import exhibit
from d2l_attention.exercises.chapter_12.softmax_axis import attend, by_exponentials


def test_scores_can_learn(attend):
    """Pass where queries and keys can learn, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` is that of 12.1.
    """
    ...


def test_scores_can_learn_solution(attend):
    queries, keys, values = (torch.randn(2, 4, 5, requires_grad=True) for _ in range(3))
    attend(queries, keys, values).pow(2).sum().backward()
    for inputs in (queries, keys, values):
        assert inputs.grad is not None and inputs.grad.abs().sum() > 0


cut_gradient = exhibit(
    **heading("12.5", "It learns anyway", "hard", minutes=10),
    section="12.5 · It learns anyway",
    right=attend,
    bug={"scores.softmax(dim=-1)": "scores.softmax(dim=-1).detach()"},
    what="lets no gradient through to queries and keys",
    also_right=[by_exponentials],
    blind=[
        (
            lambda queries: not queries.requires_grad,
            "Your queries ask for no gradient: `requires_grad=True`.",
        ),
        (lambda: True, "Ask for the gradients of queries and keys: is there one, and is it not 0?"),
    ],
    stub=test_scores_can_learn,
    solution=test_scores_can_learn_solution,
    explanation="The output is right to the last digit, and the loss falls, because values, output "
    "matrix and networks learn around queries and keys that stay as they were drawn. Only the "
    "gradients show it. Mind the loss of the test: the sum of an average of ones has no gradient "
    "either.",
    hints=[
        "The outputs are right. What else passes through a layer while it trains?",
        "Inputs with `requires_grad=True`, a loss of the output, `.backward()`. Which of the three "
        "inputs must have a gradient that is not 0?",
        "If no gradient arrives at all, `.grad` is None: let an `assert` say so.",
    ],
)
