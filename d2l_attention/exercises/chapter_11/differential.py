"""11.6: differential attention: two softmaxes, one taken from the other."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, in_dtype, instead_of, normal


def differential(queries, keys, values, share):
    """queries, keys (B, n, 2 d), values (B, n, V), share a tensor () -> output (B, n, V).

    The first d columns of queries and keys make the first weights, the last d the second. Each
    is a softmax of q . k / root of d; the weights are the first minus `share` times the second.
    With all scores 0, two values [[4], [8]] and a share of 0.5 every output is 3.
    """
    ...


def differential_solution(queries, keys, values, share):
    q1, q2 = queries.chunk(2, dim=-1)  # (B, n, d)
    k1, k2 = keys.chunk(2, dim=-1)
    root = q1.shape[-1] ** 0.5
    first = (q1 @ k1.mT / root).softmax(dim=-1)  # (B, n, n)
    second = (q2 @ k2.mT / root).softmax(dim=-1)
    return (first - share * second) @ values


def random_case(seed, B, n, d, V, share):
    queries, keys, values = normal(seed, (B, n, 2 * d), (B, n, 2 * d), (B, n, V))
    return queries, keys, values, torch.tensor(share)


MANY = "For one short sequence it was right. For others it is not."
BOTH = "(first - share * second) @ values"

write_differential = Exercise(
    **authoring.heading("11.6", "Differential attention", "medium", minutes=12),
    section="Attention sinks: weights must sum to one",
    hints=[
        "`chunk(2, dim=-1)` cuts the columns into two halves. Then it is attention twice, up to "
        "the weights.",
        "d is the size of a half. The two softmaxes are taken first, the difference after them.",
        "To what do the weights of a row sum? To 1 minus the share: no division repairs that.",
    ],
    stub=differential,
    solution=differential_solution,
    explanation="What both softmaxes give to the same keys cancels, as noise does between two "
    "microphones. A row of weights sums to 1 - share, and single weights may be negative: for "
    "share = 0 it is plain attention with the first halves. In the paper (Ye et al., 2024) the "
    "share is learned, and each head's output is normalised after it.",
    cases=[
        Case(random_case(0, 1, 3, 2, 1, 0.5)),
        Case(random_case(1, 2, 4, 3, 5, 0.8), because=MANY),
        Case(random_case(2, 3, 5, 1, 2, 0.0), because="With a share of 0 it is plain attention."),
        Case(in_dtype(random_case(3, 2, 3, 4, 2, 0.3), torch.float64)),
    ],
    mistakes=[
        *instead_of(
            BOTH,
            {
                "(first - second) @ values": "The share is missing: it says how much of the second "
                "weights is taken away.",
                "(first + share * second) @ values": "You add the second weights. They are taken "
                "away from the first.",
                "(share * first - second) @ values": "The share belongs to the second weights.",
                "(second - share * first) @ values": "The halves are exchanged: the first weights "
                "minus a share of the second.",
                "(first - share * second) / (1 - share) @ values": "You divide so that rows sum "
                "to one. They sum to 1 - share, on purpose.",
                "(first - share * second).clamp(min=0) @ values": "You cut negative weights off. "
                "Here weights may be negative.",
                "((q1 @ k1.mT - share * (q2 @ k2.mT)) / root).softmax(dim=-1) @ values": "You take "
                "the difference of the scores. It is the difference of two softmaxes.",
            },
        ),
        Mistake(
            {"q1.shape[-1]": "queries.shape[-1]"},
            "You divide by the root of 2 d. A query that meets a key has d numbers.",
        ),
        Mistake(
            {" / root).softmax(dim=-1)  # (B, n, n)": ").softmax(dim=-1)"},
            "The first scores are not divided by the root of d.",
        ),
        Mistake(
            {"q2 @ k2.mT": "q2 @ k1.mT"},
            "Both queries meet the first keys. Each half of the "
            "queries meets its own half of the keys.",
        ),
        *instead_of(
            "softmax(dim=-1)\n",
            {
                "softmax(dim=-2)\n": "The second softmax runs over the queries. Both run over the "
                "keys, the last axis."
            },
        ),
    ],
    shapes={None: "One output for each query, (B, n, V)."},
    errors={"must match": "The products do not fit: queries (B, n, d), keys transposed (B, d, n)."},
    steps=[authoring.gradients_flow("queries", "keys", "values", "share")],
)
