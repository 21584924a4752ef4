"""12.9: -1e9 in float16."""

import torch

from d2l_attention.exercises.authoring import heading
from d2l_attention.exercises.chapter_12._blanks import nan
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def masked_softmax(scores, mask):
    lowest = scores.new_tensor(torch.finfo(scores.dtype).min)  # of the scores' own type
    scores = torch.where(mask, scores, lowest)  # (*, Q, K)
    return scores.softmax(dim=-1) * mask


def row_by_row(scores, mask):
    rows, weights = scores.reshape(-1, scores.shape[-1]), torch.zeros_like(scores)
    masks, flat = mask.expand(scores.shape).reshape(rows.shape), weights.view(rows.shape)
    for row, visible, into in zip(rows, masks, flat, strict=True):
        into[visible] = row[visible].softmax(dim=-1)
    return weights


def test_half_precision(masked_softmax):
    """Pass where the weights are right in float64, 32, 16 and bfloat16; else an `AssertionError`.

    `masked_softmax(scores, mask)` takes scores (Q, K) and a mask (Q, K), True where a query may
    attend, and returns weights (Q, K) of the scores' type. A row without any True gets zeros. In
    float32 both implementations are right.
    """
    ...


def test_half_precision_solution(masked_softmax):
    scores = torch.randn(2, 3)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        weights = masked_softmax(scores.to(dtype), mask)
        assert weights.isfinite().all(), dtype


# Seen, too, at https://github.com/ml-explore/mlx/issues/1725
# Seen, too, at https://github.com/unit8co/darts/issues/3081
half_precision = exhibit(
    **heading("12.9", "NaN, in one data type only", "hard", minutes=10),
    section="Six more exhibits",
    right=masked_softmax,
    bug={"torch.finfo(scores.dtype).min": "-1e9"},
    what="fills with -1e9, which float16 cannot hold",
    also_right=[row_by_row],
    blind=[
        (
            lambda scores: scores.dtype != torch.float16,
            "None of your scores are float16, and in the types that you give -1e9 is an ordinary "
            "number. How large can a number of float16 be?",
        ),
        (
            lambda mask: mask.any(dim=-1).all(),
            "In float16, -1e9 becomes -inf, and -inf does no harm in a row that has another "
            "number. Which row has none?",
        ),
    ],
    stub=test_half_precision,
    solution=test_half_precision_solution,
    explanation="The largest number of float16 is 65504, so -1e9 silently turns into -inf; "
    "bfloat16 has the range of float32 and keeps it. One -inf in a row is harmless; a row of them "
    "is NaN, and NaN times 0 stays NaN. It takes both, float16 and a row with nothing to see, so a "
    "test in float32 and a first run in float16 both pass. (`masked_fill` with -1e9 raises an "
    "error in float16, which is kinder.) Test in the type in which the model will run.",
    hints=[
        "Which numbers can float32 hold and float16 cannot? `torch.finfo(torch.float16)` shows it.",
        "In float16 the fill is -inf. What is the softmax of a row in which every score is -inf?",
        "So: scores in float16, and a mask with a row of False.",
    ],
    test_options=nan(masked_softmax)
    | dict(
        notice="A row of its weights is NaN. Which one, and do you look at it? Each of `<`, `>` "
        "and `==` is False with NaN."
    ),
)
