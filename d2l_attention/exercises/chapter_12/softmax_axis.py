"""12.1: a softmax over the queries."""

import torch

from d2l_attention.exercises.authoring import heading
from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5  # (B, Q, K)
    weights = scores.softmax(dim=-1)
    return weights @ values  # (B, Q, V)


def by_exponentials(queries, keys, values):
    scores = torch.einsum("bqd,bkd->bqk", queries, keys) / queries.shape[-1] ** 0.5
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials @ values / exponentials.sum(dim=-1, keepdim=True)


def test_softmax_axis(attend):
    """Pass where each query spends a weight of 1, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and returns the
    output (B, Q, V). It returns no weights. Which values would show you their sum?
    """
    ...


def test_softmax_axis_solution(attend):
    queries, keys = torch.randn(2, 3, 7), torch.randn(2, 5, 7)
    output = attend(queries, keys, torch.ones(2, 5, 1))
    torch.testing.assert_close(output, torch.ones(2, 3, 1))


# Seen, too, at https://github.com/PetrochukM/PyTorch-NLP/issues/2
softmax_axis = exhibit(
    **heading("12.1", "As good as without the bug", "easy", minutes=5),
    section="12.1 · As good as without the bug",
    right=attend,
    bug={"dim=-1": "dim=-2"},
    what="lets the queries compete for each key, by a softmax over axis -2",
    also_right=[by_exponentials],
    blind=[
        (
            lambda queries, keys: (
                (queries == queries[:, :1]).all() and queries.shape[1] == keys.shape[1]
            ),
            "All your queries are alike, and there are as many keys: each weight is 1/n over "
            "either axis. Draw the queries at random.",
        )
    ],
    stub=test_softmax_axis,
    solution=test_softmax_axis_solution,
    explanation="An average of ones is 1, whatever the weights are, as long as they sum to one "
    "over the keys. So values of one number, 1, turn the output into the sum of the weights. "
    "Different numbers of queries and keys are not needed, but random scores are.",
    hints=[
        "The weights are not returned, but you choose the values. What does an average of ones "
        "give, whatever the weights are?",
        "Give each key the value 1: `torch.ones(B, K, 1)`. The output is then the sum of each "
        "query's weights.",
    ],
    test_options=noise(attend)
    | dict(notice="Let all values be 1: what must each query get, and what does it get?"),
)
