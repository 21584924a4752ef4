"""10.4: tiled attention with three bugs, right on all that its author tried."""

import torch
from torch import Tensor

from d2l_attention import dot_product_attention
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_10 import tiled_parts as parts
from d2l_attention.exercises.chapter_10.tiled_parts import remaining, tiled_with
from d2l_attention.exercises.chapter_10.watch import Watch
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, none_of, normal
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike


def by_tiles(queries, keys, values, block_size):
    output = torch.zeros(len(queries), values.shape[-1])
    maximum = torch.zeros(len(queries), 1)
    total = torch.zeros(len(queries), 1)
    for start in range(0, len(keys) - block_size + 1, block_size):
        tile = slice(start, start + block_size)
        scores = queries @ keys[tile].mT / queries.shape[-1] ** 0.5
        larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        weights = (scores - larger).exp()
        total = total * (maximum - larger).exp() + weights.sum(dim=-1, keepdim=True)
        output = output + weights @ values[tile]
        maximum = larger
    return output / total


def by_tiles_solution(queries, keys, values, block_size):
    output = torch.zeros(len(queries), values.shape[-1])
    maximum = torch.full((len(queries), 1), -torch.inf)
    total = torch.zeros(len(queries), 1)
    for start in range(0, len(keys), block_size):
        tile = slice(start, start + block_size)  # the last one ends with the keys
        scores = queries @ keys[tile].mT / queries.shape[-1] ** 0.5
        larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        weights, rescale = (scores - larger).exp(), (maximum - larger).exp()
        total = total * rescale + weights.sum(dim=-1, keepdim=True)
        output = output * rescale + weights @ values[tile]
        maximum = larger
    return output / total


def whole(queries: Tensor, keys: Tensor, values: Tensor, block_size: int) -> Tensor:
    return dot_product_attention(queries, keys, values)


def one_query(scores: list[float], block_size: int) -> tuple:
    """A query of one number, 1: the keys are the scores. The values are powers of two."""
    keys = torch.tensor(scores, dtype=torch.float32)[:, None]
    return torch.ones(1, 1), keys, 2.0 ** torch.arange(len(scores))[:, None], block_size


TRIED = one_query([-1, -2, -1, -3], 2)
LEFT_OVER = [one_query([-1, -2, -1], 2), one_query([-1, -2], 3)]
RISING = one_query([1, 2, 3, 4], 2)
FALLING = one_query([4, 3, 1, 2], 2)
FAR_BELOW = [one_query([-200, -201], 1), one_query([-200, -199, -300, -198], 2)]
LARGE = one_query([800, 900, 1000, 950], 2)
FALLING_FAR = one_query([500, 499, 100, 99], 2)
TWO_QUERIES = (torch.tensor([[1.0], [200.0]]), *one_query([1, 2, 3, 4], 2)[1:])
# Widths that all differ, and a root that is not 1.
WIDE = [
    (*(3 * X for X in normal(seed, (Q, D), (K, D), (K, V))), block_size)
    for seed, (Q, K, D, V, block_size) in enumerate(
        [(2, 4, 4, 1, 2), (3, 7, 5, 2, 2), (1, 6, 4, 3, 1), (5, 3, 2, 2, 3), (2, 5, 9, 4, 11)]
    )
]

ERRORS = {"non-zero size": "A tile without keys: your range goes one tile too far."}
BROKEN = "On what its author tried the given code was right, and yours is not."
AFTER = (
    "You rescale when the new tile has been added: its weights are relative to the new maximum "
    "already. Rescale the old output first, then add."
)
NO_BUG = {
    parts.rescaled_after: AFTER,
    parts.divided_in_each_tile: (
        "You divide by `total` in each tile, and the next one divides again. Divide once, at the "
        "end."
    ),
    parts.divided_twice: (
        "You divide by `total` in each tile, and once more at the end. Divide once, at the end."
    ),
    parts.not_divided: "The division by `total` is missing; it was no bug.",
    parts.mean_of_the_tiles: (
        "That is the mean of a softmax in each tile. Tiles with larger scores count more."
    ),
    tiled_with(tiles=parts.whole_tiles, divided=False): (
        "The division by `total` is missing; it was no bug."
    ),
}
MOVED = {
    parts.remaining("output"): (
        "The maximum rises from tile to tile here, and what `output` held is relative to the old "
        "one, while the new weights are relative to the new one. Two units in one sum. `total` "
        "is rescaled when the maximum moves; what else has been summed up?"
    ),
    parts.neither_rescaled: (
        "Neither `output` nor `total` is rescaled when the maximum moves. Their ratio mixes "
        "weights that are relative to different maxima. `total` was right as it was."
    ),
    parts.total_not_rescaled: (
        "`output` is rescaled now, and `total` no longer. Both are sums of weights relative to a "
        "maximum: one factor for both."
    ),
    parts.both_in_the_wrong_direction: (
        "You rescale by exp(new - old), which grows. What was added before counts less beside a "
        "larger maximum: exp(old - new)."
    ),
    parts.wrong_direction: (
        "You rescale `output` by exp(new - old), which grows. What was added before counts less "
        "beside a larger maximum: exp(old - new)."
    ),
    remaining("begin", after=True): AFTER,
    parts.divided_by_old_total: (
        "You rescale by the ratio of the maxima. They stand in exponents: exp(old - new)."
    ),
}
TOGETHER = (
    "Your running maximum is one for all queries. Beside another query's scores of 800 all "
    "weights of this one are 0. Each row has its own maximum, `dim=-1`."
)
NO_ROOT = "Your division by the root of D is missing; it was no bug."
RISING_ONLY = "Where the scores rise you are right, and here they fall."


def keys_left_over(result: Tensor, queries, keys, values, block_size) -> str | None:
    if same(result, whole(queries, keys, values, block_size)):
        return None
    seen = len(keys) // block_size * block_size
    if seen == 0 or same(result, whole(queries, keys[:seen], values[:seen], block_size)):
        return (
            f"{len(keys)} keys in tiles of {block_size}: those from key {seen} on are never read. "
            "The last tile may be short; a slice ends where the keys do."
        )
    if result.isnan().any():
        return "Your result is NaN. Is there a tile without keys?"
    return (
        f"Here the last tile is short: {len(keys)} keys, tiles of {block_size}. Each key should "
        f"count once. Your result is {show(result)}."
    )


def no_nan(result: Tensor, *_) -> str | None:
    if not result.isnan().any():
        return None
    return (
        "The result is NaN. With a maximum of -inf at first, exp(old - new) is 0 and exp(new - "
        "old) is infinite, and infinity times the 0 in `output` is NaN."
    )


def begins_too_high(result: Tensor, queries, keys, values, block_size) -> str | None:
    if same(result, whole(queries, keys, values, block_size)):
        return None
    return (
        f"The result is {show(result)}. All scores lie at -198 or below, and your running maximum "
        "begins far above them: the weights vanish or lose their digits, and 0 divided by 0 is "
        "NaN. Begin below all scores."
    )


def no_overflow(result: Tensor, queries, keys, values, block_size) -> str | None:
    if same(result, whole(queries, keys, values, block_size)):
        return None
    return (
        f"The result is {show(result)}: an exponential overflows. No exponent may be above 0, in "
        "the weights or in the factor, so the maximum is a running one that never falls."
    )


def row_by_row(result: Tensor, queries, keys, values, block_size) -> str | None:
    right = whole(queries, keys, values, block_size)
    if same(result, right) or not same(result[1], right[1]):
        return None  # the next step tells
    return f"The second query is right, the first is {show(result[0])}. {TOGETHER}"


def same(got: Tensor, right: Tensor) -> bool:
    return torch.allclose(got, right, rtol=1e-3, atol=1e-6)


def no_whole_matrix(attempt: Attempt) -> str | None:
    queries, keys, values = normal(0, (16, 2), (64, 2), (64, 2))
    with Watch() as watch:
        attempt(queries, keys, values, 4)
    if watch.fused:
        return (
            "The numbers are right: you call PyTorch's own kernel. It does what your loop should "
            "do. Mend the loop."
        )
    if watch.largest.numel() < 16 * 64:
        return None
    return (
        "The numbers are right, but for 16 queries, 64 keys and tiles of 4 your function makes a "
        f"tensor of shape {tuple(watch.largest)}: all scores at once. Mend the loop instead."
    )


repair_tiled_attention = Exercise(
    id="10.4",
    title="Right on all that was tried",
    task=(
        "`by_tiles(queries, keys, values, block_size)` should give softmax(q · k / √D) v "
        "for queries (Q, D), keys (K, D) and values (K, V), and look at `block_size` keys at a "
        "time: no tensor of all scores. Its author tried four keys in tiles of two, with scores "
        "just below 0, and it was right to six digits. It has three bugs. Mend them."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "What was special about the trial? Four keys are two whole tiles. Where does the running "
        "maximum begin, and did it ever move?",
        "One query 1, keys -200 and -201: the scores. What is exp(-200 - maximum)? Then keys 1, 2, "
        "3, 4 in tiles of two: relative to which maximum is each of the sums?",
        "`total` and `output` are two sums with the same weights. What is done to one has to be "
        "done to the other.",
    ],
    stub=by_tiles,
    solution=by_tiles_solution,
    explanation=(
        "Whatever was summed relative to an old maximum is rescaled when the maximum moves, the "
        "output as well as the total. The maximum begins below every score, at -inf, or all "
        "exponentials may vanish. And the last tile may be short. With scores just below 0 the "
        "maximum stayed where it began, so nothing had to be rescaled: a test of tiled code needs "
        "scores that rise."
    ),
    steps=[
        explains(ERRORS, [TRIED]),
        like(whole, [TRIED, WIDE[0]]),
        holds(no_nan, [TRIED]),
        because(BROKEN, none_of(NO_BUG, TRIED)),
        because(BROKEN, agrees(whole, [TRIED])),
        holds(keys_left_over, LEFT_OVER),
        none_of(MOVED, RISING),
        agrees(whole, [RISING]),
        because(RISING_ONLY, agrees(whole, [FALLING])),
        holds(begins_too_high, FAR_BELOW),
        holds(no_overflow, [LARGE, FALLING_FAR]),
        holds(row_by_row, [TWO_QUERIES]),
        unlike(parts.without_the_root, NO_ROOT, WIDE[0]),
        agrees(whole, [TWO_QUERIES, *WIDE]),
        no_whole_matrix,
    ],
    wrong=[
        Wrong(remaining("output", "begin"), "Two units in one sum"),
        Wrong(remaining("output", "tiles"), "are never read"),
        Wrong(remaining("begin", "tiles"), "are never read"),
        Wrong(remaining("output"), "Two units in one sum"),
        Wrong(remaining("begin"), "Begin below all scores"),
        Wrong(remaining("tiles"), "are never read"),
        Wrong(parts.begins_at_minus_100, "Begin below all scores"),
        Wrong(parts.neither_rescaled, "Neither `output` nor `total`"),
        Wrong(parts.total_not_rescaled, "one factor for both"),
        Wrong(parts.wrong_direction, "You rescale `output` by exp(new - old)"),
        Wrong(parts.both_in_the_wrong_direction, "You rescale by exp(new - old)"),
        Wrong(parts.infinite_factor, "infinity times the 0"),
        Wrong(parts.rescaled_after, "Rescale the old output first"),
        Wrong(remaining("begin", after=True), "Rescale the old output first"),
        Wrong(parts.divided_by_old_total, "the ratio of the maxima"),
        Wrong(parts.divided_in_each_tile, "the next one divides again"),
        Wrong(parts.divided_twice, "once more at the end"),
        Wrong(parts.not_divided, "it was no bug"),
        Wrong(parts.mean_of_the_tiles, "Tiles with larger scores count more"),
        Wrong(parts.newest_maximum, "never falls"),
        Wrong(parts.one_maximum_for_all, "Each row has its own maximum"),
        Wrong(parts.without_the_root, "Your division by the root of D"),
        Wrong(parts.one_empty_tile, "A tile without keys"),
        Wrong(parts.overlapping_tiles, "Each key should count once"),
        Wrong(parts.whole_softmax, "all scores at once"),
        Wrong(parts.maximum_of_all_scores, "all scores at once"),
        Wrong(parts.fused_kernel, "PyTorch's own kernel"),
        Wrong(parts.in_place, "changes its input: `queries`"),
        Wrong(parts.total_returned, "it should return a tensor"),
        Wrong(parts.without_return, "Is the `return` missing?"),
    ],
)
