"""4.2: the masked softmax itself, with all its traps."""

import torch
from torch import Tensor

from d2l_attention import masked_softmax
from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_04 import softmax_mistakes as mistakes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.rules import (
    hidden_weights_are_zero,
    masked_before_the_softmax,
    no_nan,
    rows_sum_to_one,
)
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike


def my_masked_softmax(scores, mask): ...


def my_masked_softmax_solution(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1)
    # A row with nothing to attend to holds equal weights now.
    return weights.masked_fill(~mask, 0.0)


def package_masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return masked_softmax(scores, mask=mask)


def random_case(seed: int, *shape: int) -> tuple[Tensor, Tensor]:
    """Scores and a mask in which every query sees at least the first key."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(shape, generator=generator) < 0.6
    mask[..., 0] = True
    return torch.randn(shape, generator=generator), mask


SMALL = [
    (torch.tensor([[1.0, 1.0], [1.0, 2.0]]), torch.tensor([[True, True], [True, True]])),
    (torch.tensor([[1.0, 1.0], [1.0, 2.0]]), torch.tensor([[True, False], [True, True]])),
]
BATCH = random_case(1, 2, 3, 5)
EVERY_ROW_SEES = [*SMALL, random_case(0, 3, 5), BATCH]
FIRST_ONLY = torch.tensor([[True, False]])
ONE_OF_TWO = (torch.tensor([[1.0, 3.0]]), FIRST_ONLY)
HIGH_PADDING = (torch.tensor([[0.0, 200.0]]), FIRST_ONLY)
LOW_WORD = (torch.tensor([[-2e5, 0.0]]), FIRST_ONLY)
HALF = (torch.tensor([[1.0, 2.0]], dtype=torch.float16), FIRST_ONLY)
BLIND_ROW = (torch.tensor([[1.0, 2.0]]), torch.tensor([[False, False]]))
BLIND_ROWS = [
    BLIND_ROW,
    (BLIND_ROW[0].half(), BLIND_ROW[1]),
    (torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]])),
]

STOPS_AT_A_BATCH = {
    "": (
        "Your function works on one (Q, K) matrix and stops at a batch of them. The `*` in "
        "(*, Q, K) stands for any axes in front: operations on whole tensors need no loop."
    )
}


def padding_scores_high(weights: Tensor, *_: Tensor) -> str | None:
    if near_first(weights):
        return None
    return (
        f"The hidden key scores 200, the visible one 0, and your weights are {show(weights)}. In "
        "an unmasked softmax such a key takes everything, and no division brings back what has "
        "been rounded to 0; as a bare exponential it is infinite, and 0 times infinity is NaN. "
        "Hide the score before anything else sees it."
    )


def visible_scores_low(weights: Tensor, *_: Tensor) -> str | None:
    if near_first(weights):
        return None
    if weights.isnan().any():
        return (
            "The only visible key scores -200000, and its weight should be 1. Its bare "
            "exponential rounds to 0, and 0/0 is NaN: a softmax subtracts the row's largest "
            "visible score first, as PyTorch's does."
        )
    return (
        f"The only visible key should get weight 1, and your weights are {show(weights)}. Its "
        "score, -200000, is lower than the number that you hide with: the hidden key wins. "
        "Which number is never beaten?"
    )


def near_first(weights: Tensor) -> bool:
    return torch.allclose(weights, torch.tensor([[1.0, 0.0]]).to(weights.dtype), atol=1e-3)


def fits_into_half_precision(attempt: Attempt) -> str | None:
    try:
        attempt(*HALF)
    except Raised as failure:
        if "overflow" in str(failure.error):
            return (
                "Your number for 'minus infinity' does not fit into half precision, which ends "
                "at -65504. A smaller one could be beaten by a score: ask the type of the scores "
                f"for its lowest number, or take infinity itself. {failure}"
            )
        raise
    return None


def blind_row_is_zero(weights: Tensor, *_: Tensor) -> str | None:
    if found := no_nan(weights):
        half = weights.dtype == torch.float16
        why = " (In half precision a number below -65504, assigned, is minus infinity.)"
        return (
            f"{found} Nothing may be attended to there, and softmax divides 0 by 0."
            f"{why if half else ''}"
        )
    if weights[-1].any():
        return (
            f"A query that may attend to nothing gets the weights {show(weights[-1])}: it "
            "averages padding. All its weights should be 0."
        )
    return None


write_masked_softmax = Exercise(
    id="4.2",
    title="Write the masked softmax",
    task=(
        "Complete `my_masked_softmax(scores, mask)`: weights over the keys (the last axis), "
        "exactly 0 where `mask` is False, and 0 throughout for a query that may attend to "
        "nothing. Both inputs have the shape (*, Q, K); `mask` is boolean, and `scores` may be "
        "float16 as well. Leave `scores` as it was."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "The mask acts on the scores, before the softmax: which score has exponential 0?",
        "`scores.masked_fill(~mask, number)` makes a new tensor, and `torch.finfo(scores.dtype)` "
        "knows the type's lowest number. What does softmax give for a row of nothing else?",
        "A second `masked_fill`, on the weights, clears such a row.",
    ],
    stub=my_masked_softmax,
    solution=my_masked_softmax_solution,
    explanation=(
        "The first fill takes hidden keys out of the sum, in any type; the second clears rows in "
        "which nothing is left, and leaves all others as they are. -inf in the first fill gives "
        "the same weights, with NaN on the way."
    ),
    steps=[
        like(package_masked_softmax, SMALL),
        explains(STOPS_AT_A_BATCH, [BATCH]),
        like(package_masked_softmax, EVERY_ROW_SEES),
        *(unlike(mistake, why, ONE_OF_TWO) for mistake, why in mistakes.MISTAKES.items()),
        holds(hidden_weights_are_zero, EVERY_ROW_SEES),
        holds(masked_before_the_softmax, EVERY_ROW_SEES),
        holds(rows_sum_to_one, EVERY_ROW_SEES),
        holds(padding_scores_high, [HIGH_PADDING]),
        fits_into_half_precision,
        like(package_masked_softmax, [HALF]),
        holds(visible_scores_low, [LOW_WORD]),
        holds(blind_row_is_zero, BLIND_ROWS),
        agrees(package_masked_softmax, [*EVERY_ROW_SEES, HALF]),
    ],
    wrong=[
        Wrong(mistakes.softmax_over_the_queries, "your softmax runs over the queries"),
        Wrong(mistakes.mask_after_the_softmax, "Mask the scores, before the softmax"),
        Wrong(mistakes.divided_after_the_softmax, "no division brings back"),
        Wrong(mistakes.exponentials_masked, "0 times infinity is NaN"),
        Wrong(mistakes.exponentials_of_masked_scores, "Its bare exponential rounds to 0"),
        Wrong(mistakes.inverted_mask, "You hid the visible key"),
        Wrong(mistakes.fill_with_zero, "multiplying hides no score"),
        Wrong(mistakes.no_mask, "that it has without a mask"),
        Wrong(mistakes.mask_added, "You added the mask"),
        Wrong(mistakes.hidden_queries, "that it has without a mask"),
        Wrong(mistakes.fill_with_minus_infinity_only, "softmax divides 0 by 0"),
        Wrong(mistakes.lowest_number_only, "it averages padding"),
        Wrong(mistakes.fill_with_minus_a_billion, "does not fit into half precision"),
        Wrong(mistakes.book_fill_assigned, "assigned, is minus infinity"),
        Wrong(mistakes.looped_over_a_matrix, "stops at a batch of them"),
        Wrong(mistakes.lowest_number_of_another_type, "does not fit into half precision"),
        Wrong(mistakes.fill_with_minus_ten_thousand, "lower than the number that you hide with"),
        Wrong(mistakes.mask_written_into_the_scores, "changes its input: `scores`"),
        Wrong(mistakes.weights_as_a_list, "returned a list"),
        Wrong(mistakes.weights_in_double_precision, "is float64"),
        Wrong(mistakes.half_becomes_single, "is float32; for these inputs it should be float16"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
