"""12.5: a mask that overwrites the caller's scores."""

import torch

from d2l_attention.exercises.chapter_12._blanks import always_fails
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def masked_softmax(scores, valid_lens):
    beyond = torch.arange(scores.shape[-1]) >= valid_lens[:, None, None]  # (B, 1, K)
    scores = scores.masked_fill(beyond, -torch.inf)  # (B, Q, K)
    return scores.softmax(dim=-1)


def on_a_copy(scores, valid_lens):
    copy = scores.clone()
    for i, length in enumerate(valid_lens.tolist()):
        copy[i, :, length:] = -torch.inf
    return copy.softmax(dim=-1)


def wipes_the_scores(scores, valid_lens):
    return scores.zero_()


def test_fill_in_place(masked_softmax):
    """Pass where the caller's scores stay as they were, and fail by an `AssertionError` if not.

    `masked_softmax(scores, valid_lens)` takes scores (B, Q, K) and the lengths (B,) of the
    sentences, 1 or more, and returns weights (B, Q, K). The weights of both implementations are
    right.
    """
    ...


def test_fill_in_place_solution(masked_softmax):
    scores = torch.randn(2, 3, 5)
    before = scores.clone()
    masked_softmax(scores, torch.tensor([5, 2]))
    assert torch.equal(scores, before)


fill_in_place = exhibit(
    id="12.5",
    title="The mask that overwrites the scores",
    difficulty="easy",
    minutes=6,
    right=masked_softmax,
    bug={"masked_fill(": "masked_fill_("},
    what="fills the caller's scores in place",
    sources=[
        "https://github.com/d2l-ai/d2l-en/blob/c3fb91b02a8ea24e15134326872983d773c494cf/d2l/torch.py",
        "https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/16",
    ],
    also_right=[on_a_copy],
    blind=[
        (
            lambda valid_lens, scores: (valid_lens >= scores.shape[-1]).all(),
            "All your sentences are full, so there is nothing to fill. Give one a shorter length.",
        ),
        (
            lambda: True,
            "Its weights are right, and its fault is elsewhere. What else can a function change? "
            "Keep a copy of the scores before the call.",
        ),
    ],
    stub=test_fill_in_place,
    solution=test_fill_in_place_solution,
    explanation="A method that ends in an underscore works on the tensor itself, and so does "
    "`X[hidden] = ...`. The weights are right, and so is every test that looks at them; wrong is "
    "what comes later: a heat map of the scores, or another mask on the same scores. "
    "`before = scores` is one more name for the same tensor, and compares it with itself.",
    hints=[
        "The weights are right. What else does the caller still have in hand after the call?",
        "Compare the scores after the call with a copy of them: `scores.clone()`.",
    ],
    test_options=dict(
        nothing=always_fails,
        little=wipes_the_scores,
        little_why="It even passes where all scores are overwritten with 0. Is there an `assert`? "
        "And do you compare with a copy, `scores.clone()`? `before = scores` is one more name for "
        "the same tensor.",
    ),
)
