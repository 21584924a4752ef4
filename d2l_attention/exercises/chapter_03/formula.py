"""3.5: the whole formula, with one wrong number in it."""

import torch
from torch import Tensor

from d2l_attention import attention_pooling, scaled_dot_score
from d2l_attention.exercises.chapter_03.cases import normal
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import agrees, holds, like, unlike


def attention(queries, keys, values):
    scores = torch.bmm(queries, keys.transpose(1, 2)) / keys.shape[1] ** 0.5
    return torch.bmm(scores.softmax(dim=-1), values)


def attention_solution(queries, keys, values):
    # keys.shape is (B, K, D): the last axis is the vectors' size, axis 1 only their number.
    scores = torch.bmm(queries, keys.transpose(1, 2)) / keys.shape[-1] ** 0.5
    return torch.bmm(scores.softmax(dim=-1), values)


def package_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return attention_pooling(scaled_dot_score(queries, keys), values)[0]


# Two keys with the scores 3 and -1 and D = 3: the output is the weight of the first.
SMALL = (
    torch.tensor([[[1.0, 1, 1]]]),
    torch.tensor([[[1.0, 1, 1], [-1, -1, 1]]]),
    torch.tensor([[[1.0], [0]]]),
)
# The same where one of the other sizes is not 1: two queries, values of size 2, a batch of 3.
QUERIES = (
    torch.tensor([[[1.0], [2]]]),
    torch.tensor([[[0.0], [1], [3]]]),
    torch.tensor([[[1.0], [2], [4]]]),
)
VALUES = (
    torch.tensor([[[1.0]]]),
    torch.tensor([[[0.0], [1], [3]]]),
    torch.tensor([[[1.0, 0], [2, 0], [4, 1]]]),
)
BATCH = (
    torch.tensor([[[1.0]], [[2.0]], [[3.0]]]),
    torch.tensor([[[0.0], [1]], [[1.0], [0]], [[2.0], [1]]]),
    torch.tensor([[[1.0], [2]], [[3.0], [5]], [[0.0], [8]]]),
)
CASES = [SMALL, QUERIES, VALUES, BATCH, normal(0, (2, 3, 7), (2, 5, 7), (2, 5, 11))]


def not_the_output(output, queries: Tensor, keys: Tensor, values: Tensor) -> str | None:
    weights_shape = (*queries.shape[:2], keys.shape[1])
    if isinstance(output, tuple | list):
        return "The task asks for the output alone; you return more than one thing."
    if isinstance(output, Tensor) and output.shape == weights_shape:
        return (
            f"Your result has the shape of the weights, (B, Q, K) = {weights_shape}. The last "
            "step, the average of the values, is missing."
        )
    return None


def without_division(queries, keys, values):
    return (queries @ keys.mT).softmax(dim=-1) @ values


def divided_by_d(queries, keys, values):
    return (queries @ keys.mT / queries.shape[-1]).softmax(dim=-1) @ values


def still_the_number_of_keys(queries, keys, values):
    return (queries @ keys.mT / keys.size(-2) ** 0.5).softmax(dim=-1) @ values


def number_of_queries(queries, keys, values):
    return (queries @ keys.mT / queries.shape[1] ** 0.5).softmax(dim=-1) @ values


def size_of_the_values(queries, keys, values):
    return (queries @ keys.mT / values.shape[-1] ** 0.5).softmax(dim=-1) @ values


def size_of_the_batch(queries, keys, values):
    return (queries @ keys.mT / keys.shape[0] ** 0.5).softmax(dim=-1) @ values


def the_sixteen_of_the_test(queries, keys, values):
    return (queries @ keys.mT / 16**0.5).softmax(dim=-1) @ values


def multiplied_by_the_root(queries, keys, values):
    return (queries @ keys.mT * queries.shape[-1] ** 0.5).softmax(dim=-1) @ values


def half_of_d(queries, keys, values):
    return (queries @ keys.mT / (queries.shape[-1] ** 1 / 2)).softmax(dim=-1) @ values


def d_and_then_half(queries, keys, values):
    return (queries @ keys.mT / queries.shape[-1] ** 1 / 2).softmax(dim=-1) @ values


def squared_size(queries, keys, values):
    return (queries @ keys.mT / queries.shape[-1] ** 2).softmax(dim=-1) @ values


def divided_after_the_softmax(queries, keys, values):
    return (queries @ keys.mT).softmax(dim=-1) / queries.shape[-1] ** 0.5 @ values


def both_sides_divided(queries, keys, values):
    root = queries.shape[-1] ** 0.5
    return ((queries / root) @ (keys / root).mT).softmax(dim=-1) @ values


def measured_spread(queries, keys, values):
    scores = queries @ keys.mT
    return (scores / scores.std()).softmax(dim=-1) @ values


def cosines(queries, keys, values):
    queries, keys = (torch.nn.functional.normalize(X, dim=-1) for X in (queries, keys))
    return (queries @ keys.mT).softmax(dim=-1) @ values


def softmax_over_the_queries(queries, keys, values):
    return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=1) @ values


def softmax_over_the_batch(queries, keys, values):
    return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=0) @ values


def without_softmax(queries, keys, values):
    return queries @ keys.mT / queries.shape[-1] ** 0.5 @ values


def the_weights_alone(queries, keys, values):
    return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=-1)


def output_and_weights(queries, keys, values):
    weights = the_weights_alone(queries, keys, values)
    return weights @ values, weights


# Each with a case in which it gives other numbers than all those after it.
MISTAKES = [
    (
        cosines,
        "You divide every vector by its own length: these are cosines. The same number for all "
        "is asked for, so that long keys still speak louder.",
        QUERIES,
    ),
    (
        size_of_the_batch,
        "You divide by the root of the batch's size, `shape[0]`. Whether another sentence stands "
        "beside it is nothing to a score.",
        BATCH,
    ),
    (
        number_of_queries,
        "You divide by the root of the number of queries. It says nothing about the spread of a "
        "score: count the products that one score sums up.",
        QUERIES,
    ),
    (
        size_of_the_values,
        "You divide by the root of the size of the values. They come in after the softmax; no "
        "score knows of them.",
        VALUES,
    ),
    (
        softmax_over_the_queries,
        "Your softmax runs over the queries. Each query shares out its own attention, over the "
        "keys: the last axis.",
        QUERIES,
    ),
    (
        softmax_over_the_batch,
        "Your softmax runs over the batch, so sentences compete with each other. A query shares "
        "out its attention over its own keys: the last axis.",
        BATCH,
    ),
    (
        without_division,
        "The wrong division is gone, and the right one with it: 1/√d is missing. The scores' "
        "spread grows with the vectors' size again.",
        SMALL,
    ),
    (
        still_the_number_of_keys,
        "You still divide by the root of the number of keys. A score is a sum of products. How "
        "many are they, and does it matter to them how many other keys there are?",
        SMALL,
    ),
    (
        divided_by_d,
        "You divide by the size itself; then the scores of large vectors shrink and the weights "
        "are nearly equal. (Both sides divided by the root is the same thing.)",
        SMALL,
    ),
    (
        the_sixteen_of_the_test,
        "You divide by 4, the root of the 16 in the author's test. For vectors of another size "
        "it is another number: ask the tensors.",
        SMALL,
    ),
    (
        multiplied_by_the_root,
        "You multiply by the root. The spread is too large already; it must come down.",
        SMALL,
    ),
    (
        half_of_d,
        "You divide by half of the size: `d ** 1 / 2` is (d¹)/2 in Python, since powers come "
        "first.",
        SMALL,
    ),
    (
        d_and_then_half,
        "You divide by the size and then by 2: `x / d ** 1 / 2` is (x/d¹)/2 in Python, since "
        "powers come first.",
        SMALL,
    ),
    (squared_size, "You divide by the square of the size. That is far too much.", SMALL),
    (
        measured_spread,
        "You divide by the spread that you measure, so that one query's weights depend on all "
        "the others' scores. The theory tells the spread beforehand, from the size alone.",
        SMALL,
    ),
    (
        divided_after_the_softmax,
        "You divide after the softmax. By then it has saturated, and dividing only shrinks the "
        "output: it is the scores that are too large.",
        SMALL,
    ),
    (
        without_softmax,
        "The softmax is missing: you average with raw scores, which may be negative and do not "
        "sum to 1.",
        SMALL,
    ),
]


repair_the_attention = Exercise(
    id="3.5",
    title="The author's test passed",
    task=(
        "This `attention(queries, keys, values)` passed its author's test, with queries "
        "(2, 4, 16) and keys (2, 16, 16). For other sizes it is wrong. Repair it, for queries "
        "(B, Q, D), keys (B, K, D) and values (B, K, V)."
    ),
    difficulty="medium",
    minutes=8,
    hints=[
        "Which three sizes does `keys.shape` hold, in order? Which of them are equal in the "
        "author's test?",
        "The variance of q · k is the number of products that it sums up.",
    ],
    stub=attention,
    solution=attention_solution,
    explanation=(
        "`keys.shape[1]` is the number of keys; the vectors' size is `shape[-1]`. In the test "
        "both were 16. So give every axis of a test its own size."
    ),
    steps=[
        holds(not_the_output, [SMALL]),
        like(package_attention, [SMALL]),
        *(unlike(mistake, why, case) for mistake, why, case in MISTAKES),
        agrees(package_attention, CASES),
    ],
    wrong=[
        Wrong(without_division, "1/√d is missing"),
        Wrong(still_the_number_of_keys, "the number of keys"),
        Wrong(divided_by_d, "divide by the size itself"),
        Wrong(both_sides_divided, "Both sides divided by the root"),
        Wrong(number_of_queries, "the number of queries"),
        Wrong(size_of_the_values, "the size of the values"),
        Wrong(size_of_the_batch, "the batch's size"),
        Wrong(the_sixteen_of_the_test, "the 16 in the author's test"),
        Wrong(multiplied_by_the_root, "You multiply by the root"),
        Wrong(half_of_d, "half of the size"),
        Wrong(d_and_then_half, "and then by 2"),
        Wrong(squared_size, "the square of the size"),
        Wrong(measured_spread, "the spread that you measure"),
        Wrong(cosines, "these are cosines"),
        Wrong(divided_after_the_softmax, "You divide after the softmax"),
        Wrong(softmax_over_the_queries, "runs over the queries"),
        Wrong(softmax_over_the_batch, "runs over the batch"),
        Wrong(without_softmax, "The softmax is missing"),
        Wrong(the_weights_alone, "the average of the values, is missing"),
        Wrong(output_and_weights, "the output alone"),
    ],
)
