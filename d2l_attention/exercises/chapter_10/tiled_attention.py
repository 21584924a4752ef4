"""10.4: tiled attention with three bugs, right on all that its author tried."""

import torch
from torch import Tensor

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, normal, with_mistakes
from d2l_attention.exercises.authoring.spy import Operations


def by_tiles_solution(queries, keys, values, block_size):
    output = torch.zeros(len(queries), values.shape[-1])
    maximum = torch.full((len(queries), 1), -torch.inf)
    total = torch.zeros(len(queries), 1)
    for start in range(0, len(keys), block_size):
        tile = slice(start, start + block_size)  # the last one ends with the keys
        scores = queries @ keys[tile].mT / queries.shape[-1] ** 0.5
        larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        weights = (scores - larger).exp()
        total = total * (maximum - larger).exp() + weights.sum(dim=-1, keepdim=True)
        output = output * (maximum - larger).exp() + weights @ values[tile]
        maximum = larger
    return output / total


OLD, NEW = "output * (maximum - larger).exp()", "weights @ values[tile]"
OLD_TOTAL = "total * (maximum - larger).exp()"
DIVIDED = "return output / total"
FROM_0 = {"torch.full((len(queries), 1), -torch.inf)": "torch.zeros(len(queries), 1)"}

BEGINS_AT_0 = Mistake(
    FROM_0, "Your running maximum begins at 0, above them: the weights vanish, and 0 / 0 is NaN."
)
SHORT_TILE = Mistake(
    {"len(keys), b": "len(keys) - block_size + 1, b", "  # the last one ends with the keys": ""},
    "The keys behind the last whole tile are never read. The last tile may be short.",
)
NOT_RESCALED = Mistake(
    {OLD: "output"},
    "What `output` held is relative to the old maximum, the new weights to the new one. Two units "
    "in one sum. `total` is rescaled when the maximum moves; what else has been summed up?",
)
AFTER = "You rescale when the new tile has been added. Rescale the old output first, then add."
TURNED = "You rescale by exp(new - old), which grows. Beside a larger maximum the old counts less."
GROWS = "(larger - maximum).clamp(max=80).exp()"
RESCALED_AFTER = {f"{OLD} + {NEW}": f"(output + {NEW}) * (maximum - larger).exp()"}
EACH_DIVIDED = {"        maximum = larger": "        maximum, output = larger, output / total"}


def no_whole_matrix(attempt):
    with Operations() as watch:
        attempt(*normal(0, (5, 3), (16, 3), (16, 2)), 4)
    for function, made in watch.seen:
        if function is torch.nn.functional.scaled_dot_product_attention:
            return "The numbers are right, but that is PyTorch's own kernel. Mend the loop instead."
        if not isinstance(made, Tensor) or not made.is_floating_point():
            continue
        longest = max(made.shape, default=0)
        # Keys and values themselves, cast or turned, are 16 long, and 3 or 2 wide.
        if longest > 5 and made.numel() // longest not in (0, 2, 3):
            return (
                "The numbers are right, but for 5 queries, 16 keys and tiles of 4 you make "
                f"{tuple(made.shape)} numbers: all scores at once, or more than a tile of them."
            )
    return None


def one_query(scores, block_size):
    """A query of one number, 1: the keys are the scores. The values are powers of two."""
    keys = torch.tensor(scores, dtype=torch.float32)[:, None]
    return torch.ones(1, 1), keys, 2.0 ** torch.arange(len(scores))[:, None], block_size


def random_case(seed, Q, K, D, V, block_size):
    return (*(3 * X for X in normal(seed, (Q, D), (K, D), (K, V))), block_size)


FAR_BELOW = "All scores lie far below 0 here. Begin below all scores."
OVERFLOW = "An exponential may overflow here: the maximum is a running one that never falls."

repair_tiled_attention = Exercise(
    **authoring.heading("10.4", "Right on all that was tried", "medium", minutes=12),
    section="Online softmax: maximum and sum in one pass",
    hints=[
        "What was special about the trial? Where does the running maximum begin, and did it move?",
        "One query 1, keys -200 and -201: the scores. What is exp(-200 - maximum)? Then keys 1, 2, "
        "3, 4 in tiles of two: relative to which maximum is each of the sums?",
        "`total` and `output` are two sums with the same weights. What is done to one has to be "
        "done to the other.",
    ],
    stub=with_mistakes(by_tiles_solution, BEGINS_AT_0, SHORT_TILE, NOT_RESCALED, name="by_tiles"),
    solution=by_tiles_solution,
    explanation="What was summed relative to an old maximum is rescaled when the maximum moves, "
    "the output as well as the total. The maximum begins at -inf, or all exponentials may vanish. "
    "And the last tile may be short. A test of tiled code needs scores that rise.",
    cases=[
        Case(one_query([-1, -2, -1, -3], 2), "On what its author tried the given code was right."),
        Case(one_query([-1, -2, -1], 2), "The last tile is short. Each key should count once."),
        Case(one_query([1, 2, 3, 4], 2)),
        Case(one_query([4, 3, 1, 2], 2), "Where the scores rise you are right. Here they fall."),
        Case(one_query([-200, -199, -300, -198], 2), FAR_BELOW),
        Case(one_query([-9001, -9000, -9002], 1), FAR_BELOW),
        Case(one_query([800, 900, 1000, 950], 2), OVERFLOW),
        Case(one_query([500, 499, 100, 99], 2), OVERFLOW),
        Case((torch.tensor([[1.0], [200.0]]), *one_query([1, 2, 3, 4], 2)[1:])),
        Case(random_case(1, 3, 7, 5, 2, 2)),
        Case(random_case(2, 5, 3, 2, 4, 11)),
    ],
    mistakes=[
        BEGINS_AT_0,
        SHORT_TILE,
        NOT_RESCALED,
        Mistake(
            {OLD: "output", OLD_TOTAL: "total"},
            "Neither `output` nor `total` is rescaled when the maximum moves: both have to be.",
        ),
        Mistake(
            {OLD_TOTAL: "total"},
            "`output` is rescaled now, and `total` no longer. It takes one factor for both.",
        ),
        Mistake({OLD: f"output * {GROWS}", OLD_TOTAL: f"total * {GROWS}"}, TURNED),
        Mistake({OLD: f"output * {GROWS}"}, TURNED),
        Mistake(
            {OLD: "output * (larger - maximum).exp()"},
            "At first exp(new - old) is infinite, and infinity times the 0 in `output` is NaN.",
        ),
        Mistake(RESCALED_AFTER, AFTER),
        Mistake(FROM_0 | RESCALED_AFTER, AFTER),
        Mistake(
            EACH_DIVIDED | {DIVIDED: "return output"},
            "You divide by `total` in each tile, and the next one divides again. Divide once.",
        ),
        Mistake(EACH_DIVIDED, "You divide by `total` in each tile, and once more at the end."),
        Mistake({DIVIDED: "return output"}, "The division by `total` is missing; it was no bug."),
        Mistake(
            {"amax(dim=-1, keepdim=True)": "amax()"},
            "Your running maximum is one for all queries. Each row has its own maximum, `dim=-1`.",
        ),
        Mistake({" / queries.shape[-1] ** 0.5": ""}, "Your division by the root of D is missing."),
        Mistake({"len(keys), b": "len(keys) + 1, b"}, "A tile without keys: one start too many."),
        Mistake(
            {"slice(start,": "slice(max(0, min(start, len(keys) - block_size)),"},
            "Your last tile is moved back to be full, so that some keys count twice.",
        ),
    ],
    steps=[no_whole_matrix],
    pairs=False,  # the cases show one bug at a time
)
