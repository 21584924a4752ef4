"""12.20: a dropout that was 'repaired'."""

import torch

from d2l_attention.exercises.authoring import Suspect
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def drop(weights, p):
    kept = torch.rand_like(weights) >= p
    return weights * kept / (1 - p)


def by_pytorch(weights, p):
    return torch.nn.functional.dropout(weights, p)


def scaled_by_lot(weights, p):
    return drop(weights, p) * torch.rand_like(weights)


def test_dropout_keeps_the_mean(drop):
    """Pass where dropout keeps the mean of each weight, and fail by an `AssertionError` otherwise.

    `drop(weights, p)` takes weights whose rows sum to one, (Q, K), and drops each with the
    probability p, as it is done while training.
    """
    ...


def test_dropout_keeps_the_mean_solution(drop):
    weights = torch.tensor([[0.7, 0.2, 0.1]])
    dropped = drop(weights.expand(10_000, -1), 0.25)
    kept = dropped[dropped[:, 0] > 0, 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 0.7 / 0.75))


NOTHING = "With p = 0 nothing is dropped."
EQUAL = "All weights of a row are equal in your test. Does a weight that is 0.7 keep its mean, too?"

repaired_dropout = exhibit(
    id="12.20",
    title="The row that sums to more than one",
    difficulty="medium",
    minutes=10,
    right=drop,
    bug={"weights * kept / (1 - p)": "weights * kept / (weights * kept).sum(-1, keepdim=True)"},
    what="divides by the sum of what is left, so that each row sums to one again",
    sources=[
        "https://github.com/pytorch/pytorch/issues/42929",
        "https://github.com/facebookresearch/fairseq/issues/351",
    ],
    also_right=[by_pytorch],
    blind=[
        (lambda p: p == 0, NOTHING),
        (lambda weights: (weights == weights[..., :1]).all(), EQUAL),
    ],
    more=[
        Suspect(
            {" / (1 - p)": ""},
            "does not scale up what is left",
            [(lambda p: p == 0, NOTHING)],
        ),
    ],
    stub=test_dropout_keeps_the_mean,
    solution=test_dropout_keeps_the_mean_solution,
    explanation="After dropout a row may sum to 1.3 or to 0.7, and that is right: its mean over "
    "many draws is one, and each weight keeps its own mean, so that eval mode needs no change. "
    "The 'repair' changes the mean of each weight, and a row that loses everything becomes NaN.",
    hints=[
        "Which number must dropout keep: the sum of a row, or something about many draws?",
        "What is a weight of 0.7 if it is kept, with p = 0.25? It is the same number in each draw.",
        "Draw many rows at once: `weights.expand(10_000, -1)`. Look at those that are not 0.",
    ],
    test_options=dict(
        notice="What is a weight that is kept? With p = 0.25 it is always weight / 0.75.",
        little=scaled_by_lot,
        little_why="It even passes where what is kept is scaled by lot.",
        rounding="With many draws, allow for chance, or look at the kept weights one by one.",
    ),
)  # fmt: skip
