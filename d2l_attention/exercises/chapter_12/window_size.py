"""12.11: a window that is one key too wide."""

import torch

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values, window):
    n, D = queries.shape[1:]
    back = torch.arange(n)[:, None] - torch.arange(n)  # (n, n): how far key j lies before query i
    visible = (back >= 0) & (back < window)
    scores = (queries @ keys.mT / D**0.5).masked_fill(~visible, -torch.inf)
    return scores.softmax(dim=-1) @ values  # (B, n, V)


def query_by_query(queries, keys, values, window):
    rows = []
    for i in range(queries.shape[1]):
        near = slice(max(i + 1 - window, 0), i + 1)
        scores = queries[:, i : i + 1] @ keys[:, near].mT / queries.shape[-1] ** 0.5
        rows.append(scores.softmax(dim=-1) @ values[:, near])
    return torch.cat(rows, dim=1)


def test_window_size(attend):
    """Pass where each token sees `window` tokens, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, window)` takes tensors (B, n, D), (B, n, D), (B, n, V) and a
    number from 1 on, and returns (B, n, V). Each token sees itself and the window - 1 tokens
    before it, as far as there are any.
    """
    ...


def test_window_size_solution(attend):
    n, window = 7, 3
    queries, keys = torch.randn(1, n, 5), torch.randn(1, n, 5)
    weights = attend(queries, keys, torch.eye(n)[None], window)[0]  # the values show the weights
    for i in range(n):
        seen = [j for j in range(n) if weights[i, j] > 0]
        assert seen == list(range(max(i + 1 - window, 0), i + 1)), (i, seen)


LONG = "Your window is as long as the sentence, or longer: it hides nothing. Take a shorter one."

# Seen, too, at https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/2656
window_size = exhibit(
    **heading("12.11", "Two kernels, two texts", "medium", minutes=8),
    section="Six more exhibits",
    right=attend,
    bug={"back < window": "back <= window"},
    what="shows each token one token more than the window holds",
    also_right=[query_by_query],
    blind=[
        (lambda window, queries: window >= queries.shape[1], LONG),
        (
            lambda values: (values == values[:, :1]).all(),
            "All your values are alike, and their average is the same whoever sees whom. With "
            "`torch.eye(n)` as values you see the weights.",
        ),
    ],
    more=[
        Suspect(
            {"back < window": "back < max(window - 1, 1)"},
            "shows each token one token less than the window holds",
            [(lambda window: window == 1, "Your window is always 1. Try a wider one, too.")],
        ),
        Suspect({"(back >= 0) & (back < window)": "back.abs() < window"},
                "shows each token the future, too, as far as the window reaches"),
    ],
    stub=test_window_size,
    solution=test_window_size_solution,
    explanation="'A window of 4' is four tokens with oneself in one library, and four tokens *and* "
    "oneself in another. Handed over without a change, it is one too many. Each kernel is right by "
    "its own words, so only a test at the border finds it: the last key that is seen, and the "
    "first that is not. A sentence shorter than the window shows nothing.",
    hints=[
        "With the values `torch.eye(n)` the output is the weights. Which of them must be 0?",
        "Look at both borders of a late token: the farthest key that it sees, and the next one.",
        "And at the keys after it.",
    ],
    test_options=noise(attend)
    | dict(
        notice="For one late token, work out which keys it sees: the farthest one, the one "
        "beyond it, and those to come."
    ),
)  # fmt: skip
