"""12.16: a causal mask that shows the next token."""

import torch

from d2l_attention.exercises.authoring import Suspect
from d2l_attention.exercises.chapter_12._exhibit import exhibit, fails


def attend_to_the_past(X):
    n, D = X.shape[1:]
    past = torch.ones(n, n, dtype=torch.bool).tril()
    scores = (X @ X.mT / D**0.5).masked_fill(~past, -torch.inf)  # (B, n, n)
    return scores.softmax(dim=-1) @ X


def by_pytorch(X):
    return torch.nn.functional.scaled_dot_product_attention(X, X, X, is_causal=True)


def test_no_future(attend_to_the_past):
    """Pass where no token sees a later one, and fail by an `AssertionError` otherwise.

    `attend_to_the_past(X)` is causal self-attention without matrices: (B, n, D) -> (B, n, D).
    """
    ...


def test_no_future_solution(attend_to_the_past):
    X = torch.randn(2, 5, 7)
    before = attend_to_the_past(X)
    for t in range(1, 5):
        other = X.clone()
        other[:, t:] = torch.randn(2, 5 - t, 7)
        torch.testing.assert_close(attend_to_the_past(other)[:, :t], before[:, :t])


def noise(X):
    return torch.randn(X.shape)


BY_LOT = (
    "It even passes where all outputs are drawn by lot. Is there an `assert` that compares the "
    "outputs of two calls?"
)
SHORT = "Your sentences have two tokens or fewer: behind the next token nothing is left to see."

causal_leak = exhibit(
    id="12.16",
    title="98 percent right",
    difficulty="medium",
    minutes=8,
    right=attend_to_the_past,
    bug={".tril()": ".tril(1)"},
    what="shows each token the one that comes next",
    sources=["https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/19"],
    also_right=[by_pytorch],
    more=[
        Suspect({".tril()": ".triu()"}, "shows each token its future instead of its past"),
        Suspect(
            {"past = torch.ones(n, n, dtype=torch.bool).tril()":
             "past = torch.arange(n) - torch.arange(n)[:, None] != 1"},
            "hides only the next token, and shows all behind it",
            [(lambda X: X.shape[1] <= 2, SHORT)],
        ),
    ],
    stub=test_no_future,
    solution=test_no_future_solution,
    explanation="The token that comes next is what a language model has to predict. A model that "
    "may look at it copies it, and its training loss is as good as its validation loss, because "
    "the same mask is used for both. Only writing a sentence, where there is no next token yet, "
    "shows the damage. Another future, the same past: that test needs no training.",
    hints=[
        "Two sentences that begin alike: which rows of their outputs must be equal?",
        "Change everything from position t on, and compare the rows before t. Which t would show a "
        "mask that is one off?",
    ],
    test_options=dict(
        nothing=fails,
        little=noise,
        little_why=BY_LOT,
        blind=[
            (lambda X: X.shape[1] == 1, "Your sentences have a single token: it has no future.")
        ],
        notice="Change the tokens from position t on: do the rows before t stay the same?",
    ),
)  # fmt: skip
