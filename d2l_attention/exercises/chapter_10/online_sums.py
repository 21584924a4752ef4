"""10.3: what the softmax of a row needs, in one pass over its tiles."""

from weakref import WeakSet

import torch
from torch import Tensor

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal, show


def online_sums(tiles):
    """The maximum (Q,) and the total (Q,) of scores that come in tiles, (Q, k) each.

    The total of a row is the sum of exp(score - maximum) over all its tiles.

    The tiles [[0, 1]], [[3, 2]] and [[1]] give [3] and [1.688], which is
    exp(-3) + exp(-2) + exp(0) + exp(-1) + exp(-2).
    """
    ...


def online_sums_solution(tiles):
    maximum, total = torch.tensor(-torch.inf), torch.tensor(0.0)  # of no scores
    for tile in tiles:
        larger = torch.maximum(maximum, tile.amax(dim=-1))
        # Where all has been -inf so far there is nothing to shift, and -inf - -inf is NaN.
        shift = larger.masked_fill(larger == -torch.inf, 0.0)
        total = total * (maximum - shift).exp() + (tile - shift[:, None]).exp().sum(dim=-1)
        maximum = larger
    return maximum, total


class Tiles:
    """Made anew in each pass. It notes how often it was read, and how many tiles were kept."""

    def __init__(self, tiles):
        self.tiles, self.passes, self.kept = tiles, 0, 0

    def __iter__(self):
        self.passes += 1
        alive = WeakSet()
        for tile in map(torch.clone, self.tiles):
            self.kept = max(self.kept, len(alive))
            alive.add(tile)
            yield tile
            del tile  # or it would live because of us

    def __repr__(self):
        return show(self.tiles)


def one_by_one(online_sums, tiles):
    result = online_sums(Tiles(tiles))
    if isinstance(result, tuple | list) and [type(X) for X in result] == [Tensor, Tensor]:
        maximum, total = result
        if (maximum.shape, maximum.dtype) == (total.shape, total.dtype):
            return maximum.where(total != 0, -torch.inf), total  # of nothing any maximum will do
    return result


def one_pass(attempt):
    """On six tiles, of which two may be alive: the newest, and a first one that was kept."""
    tiles = Tiles([*normal(9, *[(2, 3)] * 6)])
    attempt(tiles)
    if tiles.passes > 1:
        return f"Right, but you read the tiles {tiles.passes} times. Rescale the total instead."
    if tiles.kept > 2:
        return (
            f"Right, but at the last of 6 tiles {tiles.kept} older ones were still in memory, a "
            "whole row in the end. Keep only the maximum and the total."
        )
    return None


def row_of(*tiles, because=""):
    return Case(([torch.tensor(tile, dtype=torch.float32) for tile in tiles],), because)


INF = torch.inf
FACTOR, TERMS = "(maximum - shift).exp()", "(tile - shift[:, None]).exp()"
RANGE = (
    "exp(1000) is infinite, exp(-1000) is 0: take the maximum off before the exponential, in each "
    "tile; later is too late. (If you do: does your maximum begin at -inf?)"
)
GROWS = (
    "The total is rescaled by exp(new - old). The factor may be 0, never infinite: exp(old - new)."
)
MASKED = (
    "A mask makes scores -inf, in a whole tile or a whole row. Such a row has the total 0. (What "
    "is -inf - -inf?)"
)
AT_ONCE = "Tiles come one at a time and cannot be picked, counted or joined: `for tile in tiles:`."

write_online_sums = Exercise(
    **authoring.heading("10.3", "In one pass", "medium", minutes=10),
    section="Online softmax: maximum and sum in one pass",
    hints=[
        "Tiles [0, 1] and [3, 2]: after the first the maximum is 1 and the total exp(-1) + exp(0). "
        "What has to happen to that total when the 3 arrives?",
        "exp(score - new) = exp(score - old) · exp(old - new), for every score that was added "
        "before. So one factor mends the whole total.",
        "Begin with the maximum and the total of no scores at all. Then: what is -inf - -inf?",
    ],
    stub=online_sums,
    solution=online_sums_solution,
    explanation="The total is always that of all scores so far, relative to their maximum. A "
    "larger maximum changes all its terms by one factor, so none of them is needed again. Two "
    "numbers a row stand for a row of any length.",
    cases=[
        row_of([[0, 1]], [[3, 2]], [[1]]),
        row_of([[-3, -2]], [[-1]]),
        row_of([[900]], [[1000]], because=RANGE),
        row_of([[-1000]], [[-999]], because=RANGE),
        row_of([[0, 1], [5, 4]], [[2, 3], [1, 1]], because="For one row it was right."),
        Case(([*normal(0, (3, 4), (3, 1), (3, 2))],)),
        row_of(
            [[-INF, 2], [-INF, -INF], [-INF, -INF]],
            [[-INF, -INF], [-INF, 3], [-INF, -INF]],
            because=MASKED,
        ),
        Case(([*authoring.in_dtype(normal(1, (2, 3), (2, 4)), torch.float64)],)),
    ],
    mistakes=[
        *instead_of(
            f"total * {FACTOR} + {TERMS}.sum(dim=-1)",
            {
                f"total + {TERMS}.sum(dim=-1)": "When a larger maximum comes, the old total stays "
                "as it was. Multiply it by exp(old maximum - new maximum). (If you do: is the old "
                "one still there, or overwritten?)",
                f"(total + {TERMS}.sum(dim=-1)) * {FACTOR}": "You rescale the new tile's terms, "
                "too. They are relative to the new maximum already: rescale only the old total.",
                f"{TERMS}.sum(dim=-1)": "Your total is the last tile's sum. Those before it count.",
                "total + tile.exp().sum(dim=-1)": "In your total no maximum is taken off.",
            },
        ),
        Mistake({FACTOR: "(shift - maximum).exp()"}, GROWS),
        Mistake({FACTOR: "(shift - maximum).clamp(max=80).exp()"}, GROWS),
        *instead_of(
            TERMS,
            {
                "(tile - tile.amax(dim=-1, keepdim=True)).exp()": "Each tile's terms are relative "
                "to its own maximum, not to the running one.",
                "(tile - shift).exp()": "The maximum of each row, (Q,), beside a tile (Q, k) goes "
                "along the columns. The row needs a second axis, `[:, None]`.",
            },
        ),
        Mistake({"sum(dim=-1)": "amax(dim=-1)"}, "Each tile adds only its largest term, no sum."),
        Mistake({"sum(dim=-1)": "mean(dim=-1)"}, "Each tile adds the mean of its terms, no sum."),
        *instead_of(
            "return maximum, total",
            {
                "return maximum, maximum + total.log()": "Your second result is the logarithm of "
                "the whole sum; the total is asked for.",
                "return total, maximum": "Both are right, the other way round: the maximum first.",
            },
        ),
        *instead_of(
            "torch.maximum(maximum, tile.amax(dim=-1))",
            {
                "tile.amax(dim=-1)": "Your maximum: that is the last tile's, not the largest.",
                "torch.maximum(maximum, tile.amax()).expand(len(tile))": "Your maximum is one for "
                "all rows. Each row has its own, `dim=-1`.",
            },
        ),
        Mistake({"tensor(-torch.inf)": "tensor(0.0)"}, "Your maximum begins at 0. Begin at -inf."),
        Mistake(
            {"larger.masked_fill(larger == -torch.inf, 0.0)": "larger"},
            "-inf - -inf is NaN. While all scores so far are -inf, take off 0.",
        ),
        Mistake(
            {"in tiles:": "in (tile.clamp(min=-1e9) for tile in tiles):"},
            "Made into a number, a row of -inf looks like a row of equal scores, with a total.",
        ),
    ],
    errors={"not subscriptable": AT_ONCE, "has no len": AT_ONCE, "must be tuple": AT_ONCE},
    steps=[one_pass],
    run=one_by_one,
)
