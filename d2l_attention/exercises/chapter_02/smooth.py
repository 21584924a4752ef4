"""Exercise 2.3: two bugs in a Nadaraya-Watson regression."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention import boxcar, constant, epanechikov, gaussian
from d2l_attention.exercises.chapter_02 import smooth_mistakes as mistakes
from d2l_attention.exercises.chapter_02 import solutions, stubs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike

TWO_KEYS = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 6.0])
ONE_QUERY = (*TWO_KEYS, torch.tensor([0.2]), gaussian)
THREE_QUERIES = (*TWO_KEYS, torch.tensor([0.0, 0.5, 0.8]), gaussian)
OUT_OF_REACH = (*TWO_KEYS, torch.tensor([5.0]), boxcar)
ONE_OF_TWO_IN_REACH = (*TWO_KEYS, torch.tensor([0.0, 5.0]), boxcar)
FAR = (torch.tensor([0.0]), torch.tensor([2.0]), torch.tensor([12.0]), gaussian)
ONE_KEY_IN_REACH = (*TWO_KEYS, torch.tensor([0.0]), epanechikov)
RANDOM = [
    (torch.linspace(0, 5, 7), torch.linspace(0, 5, 7).sin(), torch.linspace(0.1, 9, 5), kernel)
    for kernel in (gaussian, boxcar, epanechikov, constant)
]

ERRORS = {
    "non-singleton dimension 0": (
        "Query i meets key i only. Every query meets every key: the differences fill a table "
        "(Q, K)."
    ),
    "non-singleton dimension 1": (
        "The sums over the keys are there, one a query, but with the shape (Q,) they meet the "
        "last axis of the similarities (Q, K), the keys. Keep the axis that you sum over."
    ),
    "size mismatch": (
        "The shapes of your product do not fit. The weights have one row a query and one column "
        "a key, (Q, K), and `y_train` has one entry a key, (K,)."
    ),
}


def in_order(got: Any, x_train: Tensor, _: Tensor, x_val: Tensor, *__: Any) -> str | None:
    if not (isinstance(got, tuple | list) and len(got) == 2):
        return None
    shapes = [getattr(result, "shape", None) for result in got]
    rows = (len(x_val), len(x_train))
    if shapes == [rows, rows]:
        return (
            "Your prediction is a table of weights times values, entry by entry. What is missing "
            "is the sum over the keys; a matrix product does both."
        )
    if shapes[0] == rows:
        return "You return the weights first. The order is: prediction, weights."
    if shapes[1] == rows[::-1]:
        return (
            f"Your weights have shape {rows[::-1]}, one row a key. They should have one row a "
            f"query, {rows}: each query shares out its own attention."
        )
    return None


def every_query_has_a_row(got: Any, _: Tensor, __: Tensor, x_val: Tensor, *___: Any) -> str | None:
    prediction, weights = got
    if len(prediction) == len(weights) == len(x_val):
        return None
    return (
        f"You return {len(weights)} rows of weights and {len(prediction)} predictions for "
        f"{len(x_val)} queries. A query with no key in reach gets an answer too."
    )


def every_query_shares_out_one(got: Any, *inputs: Any) -> str | None:
    """For cases in which every query has a key in reach."""
    _, weights = got
    rows, columns = weights.sum(dim=1), weights.sum(dim=0)
    if weights.isnan().any():
        return "Your weights are NaN, although every query has a key in reach."
    if near_one(rows):
        return None
    worst = (rows - 1).abs().argmax()
    found = f"Row {worst} of your weights sums to {rows[worst]:.3g}"
    if near_one(columns):
        return (
            f"{found}, and every column sums to 1: you divide by the sum over the queries. It is "
            "the keys that share the attention of one query."
        )
    x_train, _, x_val, kernel = inputs
    if close(weights, kernel(x_val[:, None] - x_train)):
        return f"{found}: these are the similarities, which nothing has divided yet."
    if near_one(rows.sum()):
        return f"{found}, and all weights together to 1. Each query shares out 1 of its own."
    return f"{found}. The weights of one query sum to 1."


def near_one(sums: Tensor) -> bool:
    return close(sums, torch.ones_like(sums))


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, atol=1e-3)


def blind_query_gets_zero(got: Any, *_: Any) -> str | None:
    """For cases whose last query has no key in reach."""
    prediction, weights = got[0][-1], got[1][-1]
    if weights.isnan().any():
        return (
            f"Row {len(got[1]) - 1} of your weights is NaN: that query has no key in reach, its "
            "similarities sum to 0, and you divide 0 by 0."
        )
    if weights.any():
        return (
            f"A query with no key in reach gets the weights {weights.tolist()}: it asks keys that "
            "do not count. All its weights should be 0."
        )
    if not prediction == 0:
        return (
            f"A query with no key in reach has weights 0 and the prediction {prediction:g}. The "
            "prediction is what the weights make of `y_train`: 0."
        )
    return None


def others_go_on(got: Any, *_: Any) -> str | None:
    if got[1][0].any():
        return None
    return "One query has no key in reach, and now all have weights 0. Look at each row by itself."


def far_is_not_out_of_reach(got: Any, *_: Any) -> str | None:
    weight = got[1].item()
    if abs(weight - 1) < 1e-3:
        return None
    return (
        f"The only key, 12 widths away, gets weight {weight:.2g}, although its similarity is "
        "above 0, 5e-32. A small number that is added to every sum, or stands in for small sums, "
        "outweighs it. Only a sum of exactly 0 needs care."
    )


def average_of_the_values(got: Any, _: Tensor, y_train: Tensor, *__: Any) -> str | None:
    prediction, weights = got
    if close(prediction, weights @ y_train):
        return None
    return "Your weights are right, but your prediction is not what they make of `y_train`."


repair_smooth = Exercise(
    id="2.3",
    title="The regression that runs, and is wrong",
    task=(
        "Repair `smooth(x_train, y_train, x_val, kernel)`. It returns (prediction, weights) of "
        "shapes (Q,) and (Q, K), one row of weights a query; a query with no key in reach gets "
        "weights 0 and prediction 0, and no other query changes."
    ),
    difficulty="medium",
    minutes=8,
    hints=[
        "Run it with one query and two keys. What should the weights be?",
        "Print `similarity.shape` and the shape of the sum. Which axis is the keys'? Which shape "
        "must the sum have, so that each row is divided by its own?",
        "For the query without keys: where the sum is 0, dividing by 1 instead leaves 0.",
    ],
    stub=stubs.smooth,
    solution=solutions.smooth,
    explanation=(
        "The keys share the attention of one query, so the sum runs over the keys, axis 1, and "
        "keeps its axis to meet the rows. Where it is exactly 0, dividing by 1 leaves weights 0; "
        "a small number added to every sum would spoil the weights of queries that are far from "
        "all keys."
    ),
    steps=[
        explains(ERRORS, [THREE_QUERIES]),
        holds(in_order, [THREE_QUERIES]),
        like(solutions.smooth, [THREE_QUERIES, ONE_QUERY]),
        unlike(
            mistakes.softmax_of_similarities,
            "You took the softmax of the similarities: a key with similarity 0 gets weight all "
            "the same. A kernel's values are only divided by their sum.",
            ONE_KEY_IN_REACH,
        ),
        unlike(
            mistakes.always_gaussian,
            "The result is the Gaussian's, but another kernel was given. Does your function call "
            "`kernel`?",
            ONE_KEY_IN_REACH,
        ),
        holds(every_query_shares_out_one, [ONE_QUERY, THREE_QUERIES]),
        holds(every_query_has_a_row, [OUT_OF_REACH, ONE_OF_TWO_IN_REACH]),
        holds(blind_query_gets_zero, [OUT_OF_REACH, ONE_OF_TWO_IN_REACH]),
        holds(others_go_on, [ONE_OF_TWO_IN_REACH]),
        holds(far_is_not_out_of_reach, [FAR]),
        holds(average_of_the_values, [ONE_QUERY, *RANDOM]),
        agrees(solutions.smooth, RANDOM),
    ],
    wrong=[
        Wrong(mistakes.sum_over_the_queries, "you divide by the sum over the queries"),
        Wrong(mistakes.axis_not_kept, "Keep the axis that you sum over"),
        Wrong(mistakes.sum_over_everything, "Each query shares out 1 of its own"),
        Wrong(mistakes.query_meets_its_own_key, "Every query meets every key"),
        Wrong(mistakes.zero_over_zero, "you divide 0 by 0"),
        Wrong(mistakes.small_number_added, "Only a sum of exactly 0 needs care"),
        Wrong(mistakes.prediction_cleaned_only, "Row 0 of your weights is NaN"),
        Wrong(mistakes.not_divided, "which nothing has divided yet"),
        Wrong(mistakes.softmax_of_similarities, "only divided by their sum"),
        Wrong(mistakes.uniform_when_blind, "it asks keys that do not count"),
        Wrong(mistakes.mean_when_blind, "has weights 0 and the prediction 4"),
        Wrong(mistakes.zero_for_all_when_one_is_blind, "Look at each row by itself"),
        Wrong(mistakes.one_row_a_key, "one row a key"),
        Wrong(mistakes.keys_in_rows, "The shapes of your product do not fit"),
        Wrong(mistakes.weights_first, "The order is: prediction, weights"),
        Wrong(mistakes.entry_by_entry, "a matrix product does both"),
        Wrong(mistakes.blind_queries_dropped, "gets an answer too"),
        Wrong(mistakes.prediction_alone, "should return 2 results"),
        Wrong(mistakes.always_gaussian, "Does your function call `kernel`?"),
        Wrong(mistakes.average_again, "is not what they make of `y_train`"),
    ],
)
