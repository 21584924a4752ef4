"""10.5: one softmax from two, over different keys."""

import math

import torch

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def merge(first, second):
    """From two triples (maximum (Q,), total (Q,), output (Q, V)) to the triple of all keys.

    ([0], [1], [[2]]), one key with the value 2, and ([0], [3], [[6]]), three equally
    good keys with values of mean 6, give ([0], [4], [[5]]).
    """
    ...


def merge_solution(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    maximum = torch.maximum(m1, m2)
    shift = maximum.masked_fill(maximum == -torch.inf, 0.0)  # -inf - -inf would be NaN
    f1, f2 = (m1 - shift).exp(), (m2 - shift).exp()
    w1, w2 = s1 * f1, s2 * f2
    total = w1 + w2
    output = w1[:, None] * o1 + w2[:, None] * o2
    return maximum, total, output / total.masked_fill(total == 0, 1.0)[:, None]


def part(maxima, totals, outputs):
    return tuple(torch.tensor(numbers) for numbers in (maxima, totals, outputs))


def random_case(seed, Q, V, size=1.0):
    m1, m2, s1, s2, o1, o2 = normal(seed, *[(Q,)] * 4, *[(Q, V)] * 2)
    return (size * m1, 1 + s1.abs(), o1), (size * m2, 1 + s2.abs(), o2)


INF = math.inf
# Three keys that score ln 2 each, with values of mean 3; one that scores ln 10 and three ln 2.
SMALLER, LARGER = part([math.log(2)], [3.0], [[3.0]]), part([math.log(10)], [1.6], [[14.0]])
LARGE = (
    part([1000.0, -1000.0, -500.0], [1.0, 1.0, 2.0], [[2.0], [2.0], [2.0]]),
    part([1000.0, -1000.0, 500.0], [3.0, 3.0, 1.0], [[6.0], [6.0], [6.0]]),
)
SOME_NOTHING = (
    part([-INF, 1.0, -INF], [0.0, 1.5, 0.0], [[0.0], [2.0], [0.0]]),
    part([-INF, -INF, 2.0], [0.0, 0.0, 1.0], [[0.0], [0.0], [5.0]]),
)

OTHER_WAY = "Where the second part holds the larger maximum you are right. Here it is the first."
ROWS = "For one query your function is right. For two it is not: each has its own maxima."
TOO_LARGE = "Scores of 1,000 leave a float's range. Take the new maximum off inside `exp`."
EMPTY = "A part that has seen no key is (-inf, 0, 0). The other one is the result."
ADDED = "Your total is the totals as they are, added. Bring both to the new maximum first."
OUTPUT, DIVIDED = "w1[:, None] * o1 + w2[:, None] * o2", "total.masked_fill(total == 0, 1.0)"

write_merge = Exercise(
    **heading("10.5", "One softmax from two", "medium", minutes=12),
    section="Tiled attention",
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
    explanation="By hand: (ln 10, 2.2, 11). A part counts as much as all its keys weigh, total · "
    "exp(maximum), and the order of merging does not matter: tiles one after the other, processes "
    "in a ring, or a tree of blocks. So the total has to travel with the output.",
    cases=[
        Case((SMALLER, LARGER)),
        Case((LARGER, SMALLER), OTHER_WAY),
        Case(random_case(7, 2, 2), ROWS),
        Case(LARGE, TOO_LARGE),
        Case(SOME_NOTHING, EMPTY),
        Case(random_case(0, 3, 5)),
        Case(random_case(1, 5, 3, size=30.0)),
    ],
    mistakes=[
        *instead_of(
            OUTPUT,
            {
                "(o1 + o2) / 2 * total[:, None]": "Your output is the mean of both outputs. A part "
                "counts as much as its keys weigh, here 6 and 16.",
                "(o1 + o2) * total[:, None]": "Your output is the sum of both outputs: of means.",
                "(s1[:, None] * o1 + s2[:, None] * o2) / (s1 + s2)[:, None] * total[:, None]": "In "
                "your output the parts are weighted by the totals alone, 3 and 1.6. They are "
                "relative to different maxima: rescale them first.",
                "(f1[:, None] * o1 + f2[:, None] * o2) / (f1 + f2)[:, None] * total[:, None]": "In "
                "your output the parts are weighted by the maxima, and not by their totals.",
            },
        ),
        *instead_of(
            f"output / {DIVIDED}",
            {
                "output + 0 * total": "Your output is not yet divided by the new total.",
                "output / (s1 + s2)": "Your output is divided by the totals as they are, added.",
                "output / total": "0 divided by 0 is NaN. Where the total is 0, divide by 1.",
            },
        ),
        *instead_of(
            "return maximum, total",
            {
                "return maximum, s1 + s2": ADDED,
                "return maximum, f1 + f2": "Your total is the sum of the two factors.",
                "return maximum, torch.ones_like(total)": "A total of 1 belongs to an output that "
                "is a mean, but the next merge has to know how much these keys weigh.",
                "return maximum + total.log(), total": "Your maximum is the logarithm of all "
                "weights together. Maximum and total are asked for.",
            },
        ),
        Mistake({"s1 * f1, s2 * f2": "s1, s2"}, ADDED),
        *instead_of(
            "(m1 - shift).exp(), (m2 - shift).exp()",
            {
                "(shift - m1).exp(), (shift - m2).exp()": "Your totals are rescaled by "
                "exp(new - own), which grows. It is exp(own - new), 1 or less.",
                "m1.exp(), m2.exp()": "Your total is relative to 0. Take the new maximum off.",
            },
        ),
        *instead_of(
            "torch.maximum(m1, m2)",
            {
                "m1": "Your maximum is the first part's, the smaller one.",
                "m2": "Your maximum is always the second part's.",
                "m1 + m2": "Your maximum is the sum of both maxima, not the larger one.",
                "torch.maximum(m1, m2).max().expand_as(m1)": "Yours is the largest of all queries.",
            },
        ),
        Mistake(
            {OUTPUT: "w1 * o1 + w2 * o2", f"{DIVIDED}[:, None]": DIVIDED},
            "Weights (Q,) beside outputs (Q, V) go along the columns. They need `[:, None]`.",
        ),
        Mistake(
            {"maximum.masked_fill(maximum == -torch.inf, 0.0)": "maximum"},
            "-inf - -inf is NaN. Where both maxima are -inf, take off 0.",
        ),
    ],
    errors={"Boolean value of Tensor": "An `if` asks once, `torch.maximum` row by row."},
)
