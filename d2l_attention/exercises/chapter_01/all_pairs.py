"""1.5: an attention in which every query meets one key only."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal
from d2l_attention.exercises.chapter_01 import attend


def all_pairs_solution(queries, keys, values):
    scores = queries @ keys.T
    weights = scores.softmax(dim=-1)
    return weights @ values


SCORES, POOL = "queries @ keys.T", "weights @ values"
ONE_EACH = {SCORES: "(queries * keys).sum(-1, keepdim=True)", POOL: "weights * values"}
DOES_NOT_LISTEN = Mistake(
    ONE_EACH,
    "Your function returns the values, untouched, whatever the queries are: a softmax over a "
    "single score is 1. Among how many keys should a query share?",
)
SCALED = (
    "All pairs are there, but your scores are the dot products divided by their size, or its root. "
    "Scaling comes in chapter 3; here the scores are plain dot products."
)
OTHER_SCORES = {
    "(queries * keys).sum(-1).expand(len(queries), -1)": "Both queries get the same output, made "
    "of copied scores. Two queries and two keys make four *different* pairs.",
    "keys @ queries.T": "Queries and keys have changed places: a row belongs to a query.",
    "queries @ keys": "A key is a row, but a matrix product meets rows with *columns*.",
    "queries * keys.T": "Turning the keys was a good thought, but `*` still multiplies entry by "
    "entry. Which product takes every row with every column?",
    "queries * keys": "You took the softmax of the single products of query i with key i. A score "
    "is their sum, and each query needs one for each key.",
    "queries @ values.T": "You score the values. The query meets the keys only.",
    "-torch.cdist(queries, keys) ** 2 / 2": "Here you score by distance, not by dot products.",
    "queries @ keys.T / queries.shape[-1] ** 0.5": SCALED,
    "queries @ keys.T / queries.shape[-1]": SCALED,
    "-queries @ keys.T": "The better a key fits, the smaller its weight: a sign is wrong.",
}

# The scores are 0 and 2, 1 and 4. All sizes are equal, so that wrong products raise no error.
QUERIES, KEYS = torch.tensor([[1.0, 0], [2, 1]]), torch.tensor([[0.0, 1], [2, 0]])
AS_MANY = "It is right for as many queries as keys, not here. What in it still counts on Q = K?"
NO_PRODUCT = {"cannot be multiplied": "Your weights should be (2, 2). Print the shape of yours."}


def sized(Q, K, D, V):
    return normal(Q, (Q, D), (K, D), (K, V))


def never_met(weights, *_):
    told = "Still query i with key i and no other: query 0 gives key 1 a weight of exactly 0."
    return None if weights[0, 1] or weights[1, 0] else told


repair_the_pairing = Exercise(
    **heading("1.5", "The attention that does not listen", "medium", minutes=10),
    section="All queries in one matrix product",
    stub=authoring.with_mistakes(all_pairs_solution, DOES_NOT_LISTEN, name="all_pairs"),
    solution=all_pairs_solution,
    explanation="`*` pairs query i with key i: one score per query, whose softmax is 1, so the "
    "function returned `values`, whatever was asked. The matrix product with the turned keys "
    "gives all Q times K scores, and a second one pools.",
    hints=[
        "Run it on two queries and two keys and print `weights`. Change the queries: what changes?",
        "With 2 queries and 3 keys, how many pairs are there? `*` makes query i meet key i only.",
        "A matrix product meets rows with *columns*. The keys are rows: turn them.",
    ],
    cases=[
        Case(
            (QUERIES, KEYS, torch.eye(2)),
            attend.WEIGHTS,
            errors=NO_PRODUCT,
            rules=[never_met, authoring.rows_sum_to_one],
        ),
        Case((QUERIES, KEYS, attend.VALUES)),
        Case(sized(2, 3, 2, 2), AS_MANY),
        *(Case(sized(*sizes)) for sizes in [(2, 5, 3, 7), (7, 3, 5, 2), (4, 4, 3, 5)]),
        *(Case(sized(*sizes), attend.OF_SIZE_1) for sizes in [(1, 3, 2, 4), (3, 1, 2, 4)]),
        *(Case(sized(*sizes), attend.OF_SIZE_1) for sizes in [(3, 4, 1, 2), (3, 4, 2, 1)]),
        Case(authoring.in_dtype(sized(2, 3, 4, 5), torch.float64), attend.OTHER_DTYPE),
    ],
    mistakes=[
        # Not the stub itself: that is not attempted.
        Mistake(ONE_EACH | {"dim=-1": "dim=1"}, DOES_NOT_LISTEN.why),
        Mistake(
            ONE_EACH | {"dim=-1": "dim=0"},
            "The weights sum to 1 now, but over the pairs (query 0, key 0) and (query 1, key 1): "
            "query 0 still has not met key 1. Two queries and two keys make four scores.",
        ),
        *instead_of(SCORES, OTHER_SCORES),
        *attend.IN_THESE_LINES,
        Mistake({POOL: "weights @ keys"}, "You pool the keys. What comes out is made of values."),
    ],
    shapes=attend.shapes,
    steps=[authoring.gradients_flow("queries", "keys", "values")],
)
