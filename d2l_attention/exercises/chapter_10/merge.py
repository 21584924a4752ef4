"""10.5: one softmax from two, over different keys."""

import math
from typing import Any

import torch
from torch import Tensor

from d2l_attention import masked_softmax
from d2l_attention.exercises.chapter_10 import merge_mistakes as mistakes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, normal
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike

Part = tuple[Tensor, Tensor, Tensor]


def merge(first, second): ...


def merge_solution(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    maximum = torch.maximum(m1, m2)
    shift = maximum.masked_fill(maximum == -torch.inf, 0.0)  # -inf - -inf would be NaN
    w1, w2 = s1 * (m1 - shift).exp(), s2 * (m2 - shift).exp()
    total = w1 + w2
    output = w1[:, None] * o1 + w2[:, None] * o2
    return maximum, total, output / total.masked_fill(total == 0, 1.0)[:, None]


def part_of(scores: Tensor, values: Tensor) -> Part:
    """What one process knows of its keys. Shape: (Q, K), (K, V) -> (Q,), (Q,), (Q, V)."""
    maximum = scores.amax(dim=-1)
    shift = maximum.masked_fill(maximum == -torch.inf, 0.0)
    total = (scores - shift[:, None]).exp().sum(dim=-1)
    return maximum, total, masked_softmax(scores, mask=scores > -torch.inf) @ values


def by_logarithms(first: Part, second: Part) -> Part:
    """The oracle: each part's share is a softmax of its log-sum."""
    maximum = torch.maximum(first[0], second[0])
    log_sums = torch.stack([m + s.log() for m, s, _ in (first, second)], dim=-1)
    shares = masked_softmax(log_sums, mask=log_sums > -torch.inf)
    log_sum = log_sums.logsumexp(dim=-1)
    total = (log_sum - maximum.masked_fill(maximum == -torch.inf, 0.0)).exp()
    output = shares[:, :1] * first[2] + shares[:, 1:] * second[2]
    return maximum, total, output


def part(maxima: list, totals: list, outputs: list) -> Part:
    return tuple(torch.tensor(numbers) for numbers in (maxima, totals, outputs))


def random_case(seed: int, Q: int, V: int, *keys: int, size: float = 1.0) -> tuple[Part, Part]:
    return tuple(
        part_of(size * scores, values)
        for scores, values in (normal(seed + 9 * K, (Q, K), (K, V)) for K in keys)
    )


INF = math.inf
# Three keys that score ln 2 each, with values of mean 3; one that scores ln 10 and three ln 2.
SECOND_LARGER = (part([math.log(2)], [3.0], [[3.0]]), part([math.log(10)], [1.6], [[14.0]]))
FIRST_LARGER = SECOND_LARGER[::-1]
TWO_AND_TWO = (
    part([0.0, 2.0], [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]]),
    part([1.0, 1.0], [1.0, 1.0], [[5.0, 7.0], [6.0, 8.0]]),
)
LARGE = [
    (part([1000.0], [1.0], [[2.0]]), part([1000.0], [3.0], [[6.0]])),
    (part([-1000.0], [1.0], [[2.0]]), part([-1000.0], [3.0], [[6.0]])),
    (part([-500.0], [2.0], [[2.0]]), part([500.0], [1.0], [[6.0]])),
]
NOTHING = part([-INF], [0.0], [[0.0]])
SAW_NOTHING = [(NOTHING, FIRST_LARGER[0]), (FIRST_LARGER[0], NOTHING)]
BOTH_NOTHING = (NOTHING, NOTHING)
SOME_NOTHING = (
    part([-INF, 1.0, -INF], [0.0, 1.5, 0.0], [[0.0], [2.0], [0.0]]),
    part([-INF, -INF, 2.0], [0.0, 0.0, 1.0], [[0.0], [0.0], [5.0]]),
)
RANDOM = [
    random_case(0, 3, 5, 4, 7),
    random_case(1, 5, 3, 1, 2, size=30.0),
    random_case(2, 4, 1, 2, 2),
    random_case(3, 1, 4, 9, 1),
    tuple(tuple(X.double() for X in side) for side in random_case(4, 2, 3, 4, 5)),
]

ERRORS = {
    "Boolean value of Tensor": (
        "An `if` asks once, and each query has its own two maxima. `torch.maximum` compares them "
        "row by row."
    ),
    "must match the size of tensor": (
        "Maximum and total are (Q,), outputs (Q, V): a number a row needs a second axis, "
        "`[:, None]`, beside a row of the output."
    ),
}
# For SECOND_LARGER. What is compared is e^maximum: 2 and 10 are easier to read than logarithms.
MAXIMA = {
    2: "the first part's, the smaller one. The larger one holds for both.",
    20: "the sum of both maxima. The largest of all scores is the larger of the two.",
    22: (
        "the logarithm of all weights together. It would do for both numbers at once, but maximum "
        "and total are asked for."
    ),
}
TOTALS = {
    4.6: (
        "the totals as they are, added. Each is relative to its own maximum: bring both to the new "
        "one, by exp(own maximum - new maximum), then add."
    ),
    22: "relative to 0. Take the new maximum off: with large scores this would overflow.",
    11: "relative to the first part's maximum. The new one is the second's.",
    16.6: "rescaled by exp(new - own). It is exp(own - new), 1 or less.",
    1.2: "the sum of the two factors. Each factor rescales a total.",
    1.6: "the second part's alone.",
    3: "the first part's alone.",
    1: (
        "a total of 1 belongs to an output that is a mean already. True, but the next merge has "
        "to know how much these keys weigh."
    ),
}
OUTPUTS = {
    8.5: (
        "the mean of both outputs. A part counts as much as its keys weigh: total · exp(maximum), "
        "here 6 and 16."
    ),
    17: "the sum of both outputs, which are means: it needs weights, and a division.",
    31.4 / 4.6: (
        "weighted by the totals alone, 3 and 1.6. They are relative to different maxima: rescale "
        "them first."
    ),
    146 / 12: "weighted by the maxima alone. How much stands behind one counts, too: its total.",
    24.2: "the weighted sum, not yet divided by the new total.",
    242: "the weighted sum, not yet divided by the sum of the weights.",
    24.2 / 4.6: "divided by the totals as they are, added. Divide by the new total.",
    67.4 / 16.6: (
        "rescaled by exp(new - own), so the smaller part counts more. It is exp(own - new)."
    ),
    3: "the first part's alone.",
    14: "the second part's alone.",
}


def three_results(result: Any, first: Part, second: Part) -> str | None:
    if isinstance(result, Tensor) and result.shape == first[2].shape:
        return (
            "That is one tensor. Return maximum, total and output, so that what comes out can be "
            "merged again."
        )
    return None


def near(got: Tensor, number: float) -> bool:
    return torch.allclose(got.double(), torch.tensor(float(number)).double(), rtol=1e-3)


def named(result: Part, first: Part, second: Part) -> str | None:
    """For SECOND_LARGER: one query, one value."""
    maximum, total, output = result
    for what, got, shown, right, reasons in (
        ("maximum", maximum.exp(), maximum, 10, MAXIMA),
        ("total", total, total, 2.2, TOTALS),
        ("output", output, output, 11, OUTPUTS),
    ):
        if near(got, right):
            continue
        why = next((why for wrong, why in reasons.items() if near(got, wrong)), None)
        return f"The {what} is {show(shown)}" + (f": {why}" if why else ", and should be another.")
    return None


def no_nan(result: Part, first: Part, second: Part) -> str | None:
    if not any(X.isnan().any() for X in result):
        return None
    if result[1].isnan().any():
        why = "-inf - -inf is NaN. Where both maxima are -inf, take off 0."
    else:
        why = "0 divided by 0 is NaN. Where the total is 0, divide by 1."
    return f"A part of -inf, 0 and 0 has seen no key, and your result holds NaN. {why}"


OTHER_WAY = "Where the second part holds the larger maximum you are right. Here it is the first."
ROWS = "For one query your function is right. For two it is not: each has its own maxima."
COLUMNS = (
    "Weights (Q,) beside outputs (Q, V) go along the columns, and no error tells where Q = V. A "
    "number a row needs a second axis, `[:, None]`."
)
TOO_LARGE = (
    "Scores of 1,000 or -1,000 leave a float's range. Take the new maximum off inside the "
    "exponential: then no exponent is above 0, and one of them is 0."
)
EMPTY = "One part has seen no key: maximum -inf, total 0, output 0. The other stands alone."

write_merge = Exercise(
    id="10.5",
    title="One softmax from two",
    task=(
        "Two processes have attended to different keys with the same Q queries. Each knows the "
        "maximum (Q,) of its scores, the total (Q,) of exp(score - maximum), and its output "
        "(Q, V), a mean with weights that sum to 1. Complete `merge(first, second)`: from two such "
        "triples to the triple of all keys together. Begin by hand, for one query: (ln 2, 3, 3) "
        "and (ln 10, 1.6, 14). Scores may be 1,000 or -1,000. A part that has seen no key is "
        "(-inf, 0, 0); two of them give (-inf, 0, 0) again."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "By hand: relative to 0 the first part's keys weigh 3 · 2 = 6 together, the second's "
        "1.6 · 10 = 16. So how is the mean 3 to be weighted, and how the mean 14?",
        "Relative to the new maximum instead of 0 both weights are ten times smaller: "
        "total · exp(own maximum - new maximum). Their sum is the new total.",
        "The output is a mean with these two weights. Then look at -inf: what is -inf - -inf, and "
        "what is 0 / 0? `masked_fill` replaces what must not enter.",
    ],
    stub=merge,
    solution=merge_solution,
    explanation=(
        "By hand: (ln 10, 2.2, 11). A part counts as much as all its keys weigh, total · "
        "exp(maximum). Nothing else about them is needed, and the order of merging does not "
        "matter: tiles one after the other, processes in a ring, or a tree of thousands of "
        "blocks. The total has to travel with the output, or the next merge could not weigh it."
    ),
    steps=[
        holds(three_results, [SECOND_LARGER]),
        explains(ERRORS, [SECOND_LARGER]),
        like(by_logarithms, [SECOND_LARGER]),
        holds(named, [SECOND_LARGER]),
        because(OTHER_WAY, agrees(by_logarithms, [FIRST_LARGER])),
        explains(ERRORS, [TWO_AND_TWO]),
        unlike(mistakes.output_without_an_axis, COLUMNS, TWO_AND_TWO),
        because(ROWS, agrees(by_logarithms, [TWO_AND_TWO])),
        explains(ERRORS, RANDOM),
        because(TOO_LARGE, agrees(by_logarithms, LARGE, tolerance=1e-3)),
        because(EMPTY, agrees(by_logarithms, SAW_NOTHING)),
        holds(no_nan, [BOTH_NOTHING, SOME_NOTHING]),
        agrees(by_logarithms, [BOTH_NOTHING, SOME_NOTHING]),
        agrees(by_logarithms, RANDOM, tolerance=1e-4),
    ],
    wrong=[
        Wrong(mistakes.mean_of_outputs, "the mean of both outputs"),
        Wrong(mistakes.sum_of_outputs, "the sum of both outputs"),
        Wrong(mistakes.weights_by_totals_alone, "weighted by the totals alone"),
        Wrong(mistakes.weights_by_maxima_alone, "weighted by the maxima alone"),
        Wrong(mistakes.not_divided, "not yet divided by the new total"),
        Wrong(mistakes.divided_by_added_totals, "divided by the totals as they are"),
        Wrong(mistakes.total_not_rescaled, "the totals as they are, added"),
        Wrong(mistakes.totals_alone_everywhere, "the totals as they are, added"),
        Wrong(mistakes.factors_added, "the sum of the two factors"),
        Wrong(mistakes.wrong_direction, "rescaled by exp(new - own)"),
        Wrong(mistakes.absolute_weights, "relative to 0"),
        Wrong(mistakes.first_maximum, "the first part's, the smaller one"),
        Wrong(mistakes.smaller_maximum, "the first part's, the smaller one"),
        Wrong(mistakes.sum_of_maxima, "the sum of both maxima"),
        Wrong(mistakes.second_maximum, "Here it is the first"),
        Wrong(mistakes.log_of_the_sum, "all weights together"),
        Wrong(mistakes.normalised_total, "how much these keys weigh"),
        Wrong(mistakes.one_maximum_for_all, "each has its own maxima"),
        Wrong(mistakes.output_without_an_axis, "go along the columns"),
        Wrong(mistakes.branches_on_a_tensor, "An `if` asks once"),
        Wrong(mistakes.one_branch_for_all, "each has its own maxima"),
        Wrong(mistakes.through_large_exponentials, "leave a float's range"),
        Wrong(mistakes.nan_where_nothing_is_visible, "-inf - -inf is NaN"),
        Wrong(mistakes.nothing_divided_by_nothing, "0 divided by 0 is NaN"),
        Wrong(mistakes.output_alone, "can be merged again"),
        Wrong(mistakes.output_first, "Result 1 of 3"),
        Wrong(mistakes.in_place, "changes its input"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
