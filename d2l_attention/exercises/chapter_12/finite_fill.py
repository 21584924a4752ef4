"""12.6: weights on padding, by a fill that is finite."""

import torch

from d2l_attention.exercises.chapter_12._blanks import always_fails, noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def masked_softmax(scores, valid_lens):
    beyond = torch.arange(scores.shape[-1]) >= valid_lens[:, None, None]  # (B, 1, K)
    weights = scores.masked_fill(beyond, -torch.inf).softmax(dim=-1)  # (B, Q, K)
    return weights.masked_fill(beyond, 0.0)


def sentence_by_sentence(scores, valid_lens):
    weights = torch.zeros_like(scores)
    for i, length in enumerate(valid_lens.tolist()):
        weights[i, :, :length] = scores[i, :, :length].softmax(dim=-1)
    return weights


def test_finite_fill(masked_softmax):
    """Pass where padding never gets a weight, and fail by an `AssertionError` otherwise.

    `masked_softmax(scores, valid_lens)` takes scores (B, Q, K) and the lengths (B,) of the
    sentences and returns weights (B, Q, K). Keys from the length on are padding and get the
    weight 0.
    """
    ...


def test_finite_fill_solution(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3, 5), torch.tensor([2, 0]))
    assert not weights[0, :, 2:].any()
    assert not weights[1].any()


finite_fill = exhibit(
    id="12.6",
    title="An empty sentence looks at its padding",
    difficulty="medium",
    minutes=7,
    right=masked_softmax,
    bug={"-torch.inf": "-1e6", "return weights.masked_fill(beyond, 0.0)": "return weights"},
    what="spreads the weights of an empty sentence evenly over its padding",
    sources=[
        "https://github.com/d2l-ai/d2l-en/pull/2423",
    ],
    also_right=[sentence_by_sentence],
    blind=[
        (
            lambda valid_lens: (valid_lens > 0).all(),
            "Each of your sentences has a word, and then e to the power of -1,000,000 is 0. Which "
            "length is left?",
        ),
    ],
    stub=test_finite_fill,
    solution=test_finite_fill_solution,
    explanation="Where all scores of a row are -1e6, all are equal, and the softmax, which knows "
    "differences only, gives each key 1/K. Nothing is NaN, and each row sums to one, so the usual "
    "tests pass. A length of 0 occurs: an empty document, a batch that is filled up with empty "
    "sentences. Which weights an empty sentence should get is a decision; here it is none.",
    hints=[
        "A softmax knows only differences between scores. For which lengths are there none?",
        "Give one sentence the length 0: what is the weight of each of its keys?",
        "That each row sums to one is true of the broken one, and false of a right one.",
    ],
    test_options=noise(masked_softmax)
    | dict(
        nothing=always_fails,
        little_why="It even passes where noise comes back. Is there an `assert`, and does it look "
        "at more than the shape, or at NaN? Look at single weights.",
        notice="Look at the sentence of length 0. Which keys have a weight there, and are they "
        "words?",
    ),
)
