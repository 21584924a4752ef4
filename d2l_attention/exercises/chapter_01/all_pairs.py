"""1.5: an attention in which every query meets one key only."""

import torch
from torch import Tensor

from d2l_attention import attention_pooling, dot_score, gaussian_score
from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_01.helpers import one_tensor, rows_of_weights
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, none_of, normal
from d2l_attention.exercises.steps import agrees, holds, like


def all_pairs(queries, keys, values):
    scores = (queries * keys).sum(-1, keepdim=True)
    weights = scores.softmax(-1)
    return weights * values


def all_pairs_solution(queries, keys, values):
    scores = queries @ keys.T  # (Q, K): row i holds query i with every key
    return scores.softmax(dim=-1) @ values


def package_all_pairs(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return attention_pooling(dot_score(queries, keys), values)[0]


# The scores are 0 and 2 for the first query, 1 and 4 for the second. All sizes are equal, so
# that wrong products raise no error.
SQUARE = (
    torch.tensor([[1.0, 0.0], [2.0, 1.0]]),
    torch.tensor([[0.0, 1.0], [2.0, 0.0]]),
    torch.tensor([[4.0, 0.0], [1.0, 8.0]]),
)
WEIGHTS_THEMSELVES = (*SQUARE[:2], torch.eye(2))
THIRD_PAIR = (torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 2.0]]))
THREE_KEYS = (SQUARE[0], *(torch.cat(both) for both in zip(SQUARE[1:], THIRD_PAIR, strict=True)))
UNEQUAL = [normal(0, (2, 3), (5, 3), (5, 7)), normal(1, (7, 5), (3, 5), (3, 2))]


def scores_not_summed(output: Tensor, *_: Tensor) -> str | None:
    if isinstance(output, Tensor) and output.ndim == 3:
        return (
            f"Your result has three axes, {tuple(output.shape)}: the products of the single "
            "entries were never added up to one score for each pair."
        )
    return None


def never_met(weights: Tensor, *_: Tensor) -> str | None:
    """The values are the identity, so the output is the weights."""
    if weights[0, 1] == 0 and weights[1, 0] == 0:
        return (
            "Still query i with key i alone: with the identity as values the output is your "
            "weights, and query 0 gives key 1 a weight of exactly 0. A softmax over all keys "
            "never does that here."
        )
    return None


def scores_times_something(weights: Tensor, queries: Tensor, keys: Tensor, _: Tensor) -> str | None:
    """Only differences between scores can be read off the weights; they are enough."""
    scores = dot_score(queries, keys)
    factors = weights.log().diff() / scores.diff()
    factor = factors[0].item()
    if abs(factor - 1) < 1e-3 or not torch.allclose(factors, factors[0], atol=1e-3):
        return None
    if factor < 0:
        return "The better a key fits, the smaller its weight in your output: a sign has turned."
    return (
        f"All pairs are there, but your scores are {factor:.3g} times the dot products. Scaling "
        "comes in chapter 3; here the scores are plain dot products."
    )


def weights_of_the_wrong_size(attempt: Attempt) -> str | None:
    try:
        attempt(*SQUARE)
    except Raised as failure:
        if "cannot be multiplied" in str(failure.error):
            return (
                "Two queries and two keys make four scores, so the weights that meet the values "
                f"should be (2, 2). Print the shape of yours. {failure}"
            )
        raise
    return None


def softmax_over_one_score(queries, keys, values):
    scores = torch.stack([(q @ k)[None] for q, k in zip(queries, keys, strict=False)])
    return scores.softmax(-1) * values


def softmax_over_the_pairs(queries, keys, values):
    return (queries * keys).sum(-1, keepdim=True).softmax(0) * values


def keepdim_left_out(queries, keys, values):
    return (queries * keys).sum(-1).softmax(-1) @ values


def pairs_copied_to_all(queries, keys, values):
    scores = (queries * keys).sum(-1)
    return scores.expand(len(queries), -1).softmax(-1) @ values


def pairs_on_the_diagonal(queries, keys, values):
    scores = torch.diag((queries * keys).sum(-1))
    return scores.masked_fill(scores == 0, -torch.inf).softmax(-1).nan_to_num() @ values


def softmax_over_the_queries(queries, keys, values):
    return (queries @ keys.T).softmax(0) @ values


def roles_exchanged(queries, keys, values):
    return (keys @ queries.T).softmax(-1) @ values


def keys_not_turned(queries, keys, values):
    return (queries @ keys).softmax(-1) @ values


def keys_turned_for_nothing(queries, keys, values):
    return (queries * keys.T).softmax(-1) @ values


def entries_not_added(queries, keys, values):
    return (queries * keys).softmax(-1) @ values


def product_only_at_the_end(queries, keys, values):
    return (queries * keys).sum(-1, keepdim=True).softmax(-1) @ values


def scaled_by_the_size(queries, keys, values):
    return (queries @ keys.T / queries.shape[-1]).softmax(-1) @ values


def sign_turned(queries, keys, values):
    return (-queries @ keys.T).softmax(-1) @ values


def output_on_its_side(queries, keys, values):
    return ((queries @ keys.T).softmax(-1) @ values).T


def without_softmax(queries, keys, values):
    return queries @ keys.T @ values


def values_elementwise(queries, keys, values):
    return (queries @ keys.T).softmax(-1) * values


def keys_pooled(queries, keys, values):
    return (queries @ keys.T).softmax(-1) @ keys


def values_scored(queries, keys, values):
    return (queries @ values.T).softmax(-1) @ values


def values_turned(queries, keys, values):
    return (queries @ keys.T).softmax(-1) @ values.T


def scaled(queries, keys, values):
    return (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1) @ values


def by_distance(queries, keys, values):
    return attention_pooling(gaussian_score(queries, keys), values)[0]


def output_and_weights(queries, keys, values):
    weights = (queries @ keys.T).softmax(-1)
    return weights @ values, weights


def weights_alone(queries, keys, values):
    return (queries @ keys.T).softmax(-1)


def every_product_kept(queries, keys, values):
    products = queries[:, None] * keys
    return products.softmax(-1) @ values


def loop_counts_the_queries(queries, keys, values):
    n = len(queries)
    scores = torch.stack([torch.stack([queries[i] @ keys[j] for j in range(n)]) for i in range(n)])
    return scores.softmax(-1) @ values


SILENT_MISTAKES = {
    all_pairs: "Your function returns the values, untouched, whatever the queries are. The "
    "softmax runs over an axis with a single score, and alone it always gets weight 1. "
    "Among how many keys should a query share?",
    softmax_over_the_pairs: "The weights sum to 1 now, but over the pairs (query 0, key 0) and "
    "(query 1, key 1): query 0 still has not met key 1. Two queries and two keys make four scores.",
    pairs_copied_to_all: "Both queries get the same output, made of the old scores of query i with "
    "key i, copied. Two queries and two keys make four *different* pairs.",
    softmax_over_the_queries: "All pairs are there, but your softmax runs over the queries. Each "
    "row, one query, has a weight of 1 to share among the keys (the last axis).",
    roles_exchanged: "Queries and keys have changed places: your scores have a row for each key. "
    "A row belongs to a query.",
    keys_not_turned: "A matrix product takes rows with *columns*: your first score is query 0 with "
    "the first column of the keys. A key is a row.",
    keys_turned_for_nothing: "Turning the keys was a good thought, but `*` still multiplies entry "
    "by entry. Which product takes every row with every column?",
    entries_not_added: "You took the softmax of the single products of query i with key i. A score "
    "is their sum, and each query needs one for each key.",
    output_on_its_side: "The numbers are right, but they lie on their side. Wanted is (Q, V): one "
    "row for each query.",
    without_softmax: "The scores are right, and you pool with them as they are. The softmax, which "
    "makes weights of them, is missing.",
    values_elementwise: "The weights are right. But `*` multiplies them with the values entry by "
    "entry; the output adds up all values, each with its weight.",
    keys_pooled: "You pool the keys. The query meets the keys; what comes out is made of values.",
    values_scored: "You score the values. The query meets the keys only.",
    values_turned: "The weights are right, but the values are turned: a value is a row.",
    by_distance: "All pairs are there, but you score by distance. The task asks for dot products.",
    weights_alone: "Those are the weights, and they are right. What is left is to pool the values "
    "with them.",
}


repair_the_pairing = Exercise(
    id="1.5",
    title="The attention that does not listen",
    task=(
        "`all_pairs(queries, keys, values)` should be attention with dot products as scores: "
        "every query, (Q, D), against every key, (K, D), and with the weights a pooling of the "
        "values, (K, V), to outputs (Q, V). It raises no error where Q = K, and is wrong all the "
        "same. Find out what it really gives, and repair it."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "Run it on two queries and two keys and print `weights`. Change the queries: what changes?",
        "With 2 queries and 3 keys, how many pairs are there? `*` makes query i meet key i only.",
        "A matrix product takes every row of the first with every *column* of the second. The "
        "keys are rows: turn them.",
    ],
    stub=all_pairs,
    solution=all_pairs_solution,
    explanation=(
        "`*` pairs query i with key i. That left one score a query, and a softmax over one score "
        "is 1: the function returned `values`, whatever was asked. The matrix product with the "
        "turned keys gives all Q times K scores, the softmax runs over the K keys of each row, "
        "and a second matrix product pools."
    ),
    steps=[
        weights_of_the_wrong_size,
        holds(one_tensor, [SQUARE]),
        holds(scores_not_summed, [SQUARE]),
        none_of(SILENT_MISTAKES, SQUARE),
        like(package_all_pairs, [SQUARE]),
        holds(never_met, [WEIGHTS_THEMSELVES]),
        holds(rows_of_weights, [WEIGHTS_THEMSELVES]),
        holds(scores_times_something, [WEIGHTS_THEMSELVES]),
        agrees(package_all_pairs, [SQUARE]),
        because(
            "With as many queries as keys your function is right; with 2 queries and 3 keys it is "
            "not. What in it still counts on Q = K?",
            agrees(package_all_pairs, [THREE_KEYS]),
        ),
        agrees(package_all_pairs, UNEQUAL),
    ],
    wrong=[
        Wrong(softmax_over_one_score, "returns the values, untouched"),
        Wrong(softmax_over_the_pairs, "query 0 still has not met key 1"),
        Wrong(keepdim_left_out, "2 queries ask, and one output comes back"),
        Wrong(pairs_copied_to_all, "four *different* pairs"),
        Wrong(pairs_on_the_diagonal, "Still query i with key i alone"),
        Wrong(softmax_over_the_queries, "your softmax runs over the queries"),
        Wrong(roles_exchanged, "have changed places"),
        Wrong(keys_not_turned, "A key is a row"),
        Wrong(without_softmax, "makes weights of them, is missing"),
        Wrong(values_elementwise, "entry by entry"),
        Wrong(keys_pooled, "You pool the keys"),
        Wrong(values_scored, "You score the values"),
        Wrong(values_turned, "the values are turned"),
        Wrong(keys_turned_for_nothing, "`*` still multiplies entry by entry"),
        Wrong(entries_not_added, "A score is their sum"),
        Wrong(product_only_at_the_end, "should be (2, 2). Print the shape"),
        Wrong(scaled, "0.707 times the dot products. Scaling comes in chapter 3"),
        Wrong(scaled_by_the_size, "0.5 times the dot products"),
        Wrong(sign_turned, "a sign has turned"),
        Wrong(output_on_its_side, "lie on their side"),
        Wrong(by_distance, "you score by distance"),
        Wrong(output_and_weights, "returns two results"),
        Wrong(weights_alone, "What is left is to pool"),
        Wrong(every_product_kept, "never added up"),
        Wrong(loop_counts_the_queries, "still counts on Q = K"),
    ],
)
