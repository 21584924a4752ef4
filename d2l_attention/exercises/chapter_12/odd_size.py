"""12.14: sines and cosines for an odd size."""

import torch

from d2l_attention.exercises.authoring import Suspect
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def sinusoids(n, D):
    speeds = 1e-4 ** (torch.arange(0, D, 2) / D)  # one for each sine
    angles = torch.arange(n)[:, None] * speeds
    P = torch.zeros(n, D)
    P[:, 0::2] = angles.sin()
    P[:, 1::2] = angles[:, : D // 2].cos()
    return P


def cut_at_the_end(n, D):
    angles = torch.arange(n)[:, None] / 1e4 ** (torch.arange(0, D, 2) / D)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :D]


def test_odd_size(sinusoids):
    """Pass where sizes of both kinds work; fail, by an error or an assert, otherwise.

    `sinusoids(n, D)` returns the encoding of n positions, (n, D): sines in the columns 0, 2, ...,
    cosines in 1, 3, ..., and column 2j and column 2j + 1 turn at the speed 10000^(-2j/D).
    """
    ...


def test_odd_size_solution(sinusoids):
    P = sinusoids(5, 7)
    assert P.shape == (5, 7)
    torch.testing.assert_close(P[1, 6], torch.tensor(10_000 ** (-6 / 7)).sin())


odd_size = exhibit(
    id="12.14",
    title="One column too many",
    difficulty="easy",
    minutes=5,
    right=sinusoids,
    bug={"angles[:, : D // 2].cos()": "angles.cos()"},
    what="stops at every odd size",
    crashes=True,
    sources=["https://github.com/codertimo/BERT-pytorch/issues/78"],
    also_right=[cut_at_the_end],
    blind=[(lambda D: D % 2 == 0, "All your sizes are even.")],
    more=[
        Suspect(
            {
                "torch.arange(0, D, 2) / D": "torch.arange(0, D - 1, 2) / D",
                "P[:, 0::2] = angles.sin()": "P[:, 0 : D - 1 : 2] = angles.sin()",
            },
            "leaves the last column of an odd size at 0",
            [(lambda D: D % 2 == 0, "All your sizes are even.")],
        ),
    ],
    stub=test_odd_size,
    solution=test_odd_size_solution,
    explanation="An odd size has one sine more than cosines. The exhibit stops with an error, "
    "which is the kind way to fail; a hasty repair leaves the last column at 0 and stops nowhere. "
    "So the test looks at the numbers of the last column, too. Test with odd and prime sizes.",
    hints=[
        "Which sizes D did nobody try? Powers of two have much in common.",
        "A size that works is not yet right: one repair leaves a column of zeros. What is in "
        "column 6 of an encoding of size 7?",
    ],
    test_options=dict(notice="Look at the numbers of the last column of an odd size."),
)
