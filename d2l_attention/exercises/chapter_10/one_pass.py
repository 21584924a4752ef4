"""10.3: what the softmax of a row needs, in one pass over its tiles."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_10 import one_pass_mistakes as mistakes
from d2l_attention.exercises.chapter_10.tiles import Tiles
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, none_of, normal
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import explains, holds, like, unlike


def online_sums(tiles): ...


def online_sums_solution(tiles):
    maximum, total = torch.tensor(-torch.inf), torch.tensor(0.0)  # of no scores
    for tile in tiles:
        larger = torch.maximum(maximum, tile.amax(dim=-1))
        # Where all has been -inf so far there is nothing to shift, and -inf - -inf is NaN.
        shift = larger.masked_fill(larger == -torch.inf, 0.0)
        total = total * (maximum - shift).exp() + (tile - shift[:, None]).exp().sum(dim=-1)
        maximum = larger
    return maximum, total


def by_whole_rows(tiles: Tiles) -> tuple[Tensor, Tensor]:
    scores = tiles.whole()
    maximum = scores.amax(dim=-1)
    shift = maximum.masked_fill(maximum == -torch.inf, 0.0)
    return maximum, (scores - shift[:, None]).exp().sum(dim=-1)


INF = torch.inf
SMALL = (Tiles([[0, 1]], [[3, 2]], [[1]]),)
BELOW_0 = (Tiles([[-3, -2]], [[-1]]),)
LARGE = [(Tiles([[900]], [[1000, 999]]),), (Tiles([[-1000]], [[-999]]),)]
HIDDEN_FIRST = (Tiles([[-INF, -INF]], [[0, 1]]),)
HIDDEN_LATER = (Tiles([[0, 1]], [[-INF]]),)
ALL_HIDDEN = (Tiles([[-INF]], [[-INF, -INF]]),)
ROWS = [(Tiles([[0, 1], [5, 4]], [[2, 3], [1, 1]]),), (Tiles([[0], [1], [2]], [[2], [1], [0]]),)]
SEVERAL = [
    (Tiles(*normal(seed, *((rows, width) for width in widths))),)
    for seed, (rows, widths) in enumerate([(3, (4, 4, 2)), (2, (1, 1, 1, 5)), (5, (7,)), (1, (1,))])
]
PARTLY_HIDDEN = (
    Tiles([[-INF, 2], [-INF, -INF], [1, -INF]], [[-INF, -INF], [-INF, 3], [-INF, -INF]]),
)
DOUBLE = (Tiles([[0, 1]], [[3, 2]], dtype=torch.float64),)
MANY = Tiles(*normal(9, *[(2, 3)] * 6))

ERRORS = {
    "not subscriptable": "Tiles come one at a time and cannot be picked: `for tile in tiles:`.",
    "has no len": "Nobody knows how many tiles will come: `for tile in tiles:`.",
    "must be tuple": "Tiles cannot be joined before they have come: `for tile in tiles:`.",
}
NO_AXIS = {
    "must match the size of tensor": (
        "A maximum for each row, (Q,), beside a tile (Q, k): the row needs a second axis, "
        "`[:, None]`."
    )
}
TOTALS = {
    mistakes.not_rescaled: (
        "when a larger maximum comes, the old total stays as it was: relative to a maximum that "
        "holds no longer. Multiply it by exp(old maximum - new maximum). (If you do: is the old "
        "one still there when you need it, or overwritten?)"
    ),
    mistakes.wrong_direction: (
        "the old total is rescaled by exp(new - old), and grows. The old terms count less beside "
        "a larger maximum: exp(old - new)."
    ),
    mistakes.rescaled_with_the_tile: (
        "you rescale the new tile's terms, too. They are relative to the new maximum already: "
        "the old total alone is rescaled."
    ),
    mistakes.own_maximum_in_each_tile: (
        "each tile's terms are relative to its own maximum. The last tile here holds no new "
        "maximum: its terms belong below the running one."
    ),
    mistakes.last_tile_alone: "that is the last tile's sum. The tiles before it count as well.",
    mistakes.without_a_maximum: (
        "no maximum is taken off: that is the sum of exp(score). Each term is exp(score - maximum)."
    ),
    mistakes.weights_not_summed: (
        "each tile adds its largest term alone. Sum over the tile's scores."
    ),
    mistakes.mean_for_the_sum: "each tile adds the mean of its terms. Sum over the tile's scores.",
    mistakes.log_of_the_sum: (
        "that is the logarithm of the whole sum. It would do, but the total is asked for."
    ),
}


def two_results(result: Any, tiles: Tiles) -> str | None:
    if not isinstance(result, tuple | list) or len(result) != 2:
        return None  # the next step tells
    rows = len(tiles.whole())
    for what, got in zip(("maximum", "total"), result, strict=True):
        if isinstance(got, Tensor) and got.shape == (rows, 1):
            return f"Your {what} is a column, {tuple(got.shape)}. Give one number a row, ({rows},)."
    maximum, total = result
    right = by_whole_rows(tiles)
    if same(maximum, right[1]) and same(total, right[0]):
        return "Both are right, the other way round: the maximum first."
    return None


def same(got: Any, right: Tensor) -> bool:
    return (
        isinstance(got, Tensor)
        and got.shape == right.shape
        and torch.allclose(got.detach(), right.to(got.dtype), rtol=1e-3, atol=1e-6)
    )


def no_nan(result: tuple, tiles: Tiles) -> str | None:
    if not any(part.isnan().any() for part in result):
        return None
    scores = tiles.whole()
    if scores.isfinite().all():
        why = "The factor for the first tile may be 0, never infinite: exp(old maximum - new one)."
    else:
        why = (
            "-inf - -inf is NaN: while all scores so far are -inf, there is no maximum to take "
            "off. Take off 0 there."
        )
    return f"Your result holds NaN. {why}"


def right_maximum(result: tuple, tiles: Tiles) -> str | None:
    maximum, scores = result[0], tiles.whole()
    right, total = by_whole_rows(tiles)
    visible = total > 0  # elsewhere any number will do
    if same(maximum[visible], right[visible]):
        return None
    said = f"The maximum is {show(maximum)}:"
    if same(maximum, tiles.tiles[-1].amax(dim=-1)):
        return f"{said} that is the last tile's. An older tile may hold a larger one."
    if same(maximum, right.clamp(min=0)):
        return f"{said} all scores lie below 0, where yours begins. Begin at -inf."
    if same(maximum, scores.amax().expand_as(maximum)):
        return f"{said} one for all rows. Each row has its own, `dim=-1`."
    if same(maximum, scores.amin(dim=-1)):
        return f"{said} that is the smallest score."
    return f"{said} it should be {show(right)}."


def right_total(result: tuple, tiles: Tiles) -> str | None:
    total, right = result[1], by_whole_rows(tiles)[1]
    if same(total, right):
        return None
    return f"The total is {show(total)}; it should be {show(right)}."


def stays_in_range(result: tuple, tiles: Tiles) -> str | None:
    total, right = result[1], by_whole_rows(tiles)[1]
    if same(total, right):
        return None
    if total.isfinite().all() and (total > 0).all():
        return right_total(result, tiles)
    return (
        f"The total is {show(total)}: exp(1000) is too large for a float, and exp(-1000) is 0. "
        "Take the maximum off before the exponential, in each tile; later is too late."
    )


def hidden_scores(result: tuple, tiles: Tiles) -> str | None:
    total, right = result[1], by_whole_rows(tiles)[1]
    if same(total, right):
        return None
    if (total[right == 0] != 0).any():
        return (
            f"In a row of nothing but -inf the total is {show(total)}. Nothing is visible there, "
            "so the total is 0; -inf made into a number looks like a row of equal scores."
        )
    return f"A tile of -inf adds nothing. The total is {show(total)}; it should be {show(right)}."


def one_pass(attempt: Attempt) -> str | None:
    """On six tiles, of which two may be alive: the newest, and a first one that was kept."""
    tiles = Tiles(*MANY.tiles)
    attempt(tiles)
    if tiles.passes > 1:
        return (
            f"The numbers are right, but you read the tiles {tiles.passes} times. One pass is "
            "enough: rescale the total whenever the maximum moves."
        )
    if tiles.kept > 2:
        return (
            f"The numbers are right, but at the last of {len(tiles.tiles)} tiles {tiles.kept} "
            "older ones were still in memory, a whole row in the end. Keep the maximum and the "
            "total alone."
        )
    return None


RULES = (no_nan, right_maximum, right_total)
ONE_ROW = "For one row your function is right."
ALONG_THE_COLUMNS = (
    "The maximum of each row, (Q,), beside a tile (Q, k) goes along the columns, and no error "
    "tells where both are equally many. The row needs a second axis, `[:, None]`."
)

write_online_sums = Exercise(
    id="10.3",
    title="In one pass",
    task=(
        "Complete `online_sums(tiles)`. The scores of Q queries come in tiles, (Q, k) each, one "
        "at a time: `for tile in tiles:`. Return the maximum (Q,) of each row over all tiles, and "
        "the total (Q,) of exp(score - maximum). Read the tiles once and keep none of them. "
        "Scores of 1,000 must not overflow. Masked scores are -inf, maybe a whole tile, maybe all "
        "of a row: then its total is 0, and its maximum does not matter."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "By hand, one row: tiles [0, 1], [3, 2] and [1]. After the first the maximum is 1 and the "
        "total exp(-1) + exp(0). What has to happen to that total when the 3 arrives?",
        "exp(score - new) = exp(score - old) · exp(old - new), for every score that was added "
        "before. So one factor mends the whole total.",
        "Begin with the maximum and the total of no scores at all. The sum is a sum of nothing; "
        "for the maximum, every score is larger. Then: what is -inf - -inf?",
    ],
    stub=online_sums,
    solution=online_sums_solution,
    explanation=(
        "The total is always that of all scores so far, relative to their maximum. A larger "
        "maximum changes all its terms by one factor, so none of them is needed again. Two numbers "
        "a row stand for a row of any length."
    ),
    steps=[
        explains(ERRORS, [SMALL]),
        holds(two_results, [SMALL]),
        like(by_whole_rows, [SMALL]),
        holds(no_nan, [SMALL]),
        holds(right_maximum, [SMALL]),
        none_of({f: f"The total is wrong: {why}" for f, why in TOTALS.items()}, SMALL),
        holds(right_total, [SMALL]),
        holds(right_maximum, [BELOW_0]),
        holds(right_total, [BELOW_0]),
        holds(stays_in_range, LARGE),
        explains(NO_AXIS, ROWS),
        unlike(mistakes.rows_without_an_axis, ALONG_THE_COLUMNS, ROWS[0]),
        because(ONE_ROW, like(by_whole_rows, ROWS)),
        *(because(ONE_ROW, holds(rule, ROWS)) for rule in RULES),
        *(holds(rule, SEVERAL) for rule in RULES),
        holds(no_nan, [HIDDEN_FIRST, HIDDEN_LATER, ALL_HIDDEN]),
        holds(right_maximum, [HIDDEN_FIRST, HIDDEN_LATER]),
        holds(hidden_scores, [HIDDEN_FIRST, HIDDEN_LATER, ALL_HIDDEN]),
        *(holds(rule, [PARTLY_HIDDEN]) for rule in (no_nan, right_maximum, hidden_scores)),
        like(by_whole_rows, [DOUBLE]),
        one_pass,
    ],
    wrong=[
        Wrong(mistakes.not_rescaled, "the old total stays as it was"),
        Wrong(mistakes.rescaled_too_late, "or overwritten?"),
        Wrong(mistakes.wrong_direction, "rescaled by exp(new - old)"),
        Wrong(mistakes.direction_from_infinity, "may be 0, never infinite"),
        Wrong(mistakes.rescaled_with_the_tile, "the old total alone"),
        Wrong(mistakes.own_maximum_in_each_tile, "relative to its own maximum"),
        Wrong(mistakes.last_tile_alone, "the last tile's sum"),
        Wrong(mistakes.weights_not_summed, "its largest term alone"),
        Wrong(mistakes.mean_for_the_sum, "the mean of its terms"),
        Wrong(mistakes.log_of_the_sum, "the logarithm of the whole sum"),
        Wrong(mistakes.newest_maximum, "that is the last tile's"),
        Wrong(mistakes.begins_at_0, "Begin at -inf"),
        Wrong(mistakes.without_a_maximum, "no maximum is taken off"),
        Wrong(mistakes.shifted_at_the_end, "later is too late"),
        Wrong(mistakes.through_the_logarithm, "later is too late"),
        Wrong(mistakes.one_maximum_for_all_rows, "Each row has its own"),
        Wrong(mistakes.rows_without_an_axis, "goes along the columns"),
        Wrong(mistakes.first_row_alone, "it should be (2,)"),
        Wrong(mistakes.nan_where_all_is_hidden, "-inf - -inf is NaN"),
        Wrong(mistakes.hidden_as_a_billion, "looks like a row of equal scores"),
        Wrong(mistakes.two_passes, "you read the tiles 2 times"),
        Wrong(mistakes.all_in_one_row, "a whole row in the end"),
        Wrong(mistakes.tiles_as_a_list, "cannot be picked"),
        Wrong(mistakes.joined_at_once, "cannot be joined"),
        Wrong(mistakes.columns_kept, "is a column"),
        Wrong(mistakes.sum_alone, "it should return 2 results"),
        Wrong(mistakes.the_other_way_round, "the maximum first"),
        Wrong(mistakes.single_precision, "it should be float64"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
