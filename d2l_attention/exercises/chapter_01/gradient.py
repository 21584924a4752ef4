"""1.6: the slope of the output in the scores, without autograd."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Attempt, Case, Exercise, instead_of, normal
from d2l_attention.exercises.chapter_01.attend import OF_SIZE_1, OTHER_DTYPE


def pooling_gradient(weights, values):
    """The slope of the output in each score: weights (K,), values (K, V) -> (K, V).

    The weights [0.25, 0.75] and the values [[4], [8]] give [[-0.75], [0.75]].
    """
    ...


def pooling_gradient_solution(weights, values):
    output = weights @ values
    return weights[:, None] * (values - output)  # row i: a_i (v_i - o)


def random_case(num_keys: int, size: int) -> tuple[Tensor, Tensor]:
    scores, values = normal(0, (num_keys,), (num_keys, size))
    return scores.softmax(dim=0), values


# The output is (3, 6). Two keys, values of size 2: a product of the wrong kind, or a result on
# its side, raises no error here.
SQUARE = (torch.tensor([0.25, 0.75]), torch.tensor([[6.0, 0.0], [2.0, 8.0]]))
LOOKUP = (torch.tensor([0.0, 1.0, 0.0]), torch.tensor([[4.0, 3.0], [0.0, 0.0], [1.0, 8.0]]))
OTHER_SIZES = "With other sizes than 2 and 2 it goes wrong. Which axis is which?"
LOOKED_UP = (
    "One weight is 1 here and the others are 0: a lookup, in which every slope is exactly 0. Does "
    "your function divide by a weight, or take its logarithm?"
)


def nearly_right(gradient: Tensor, *case: Tensor) -> str | None:
    off = (gradient - pooling_gradient_solution(*case)).abs().max()
    close = "Close, but not exact: a difference over a small step? The slope itself needs no step."
    return close if off < 0.05 else None


def leans_on_autograd(attempt: Attempt) -> str | None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("autograd wants to remember something")

    with torch.autograd.graph.saved_tensors_hooks(refuse, refuse):
        error = attempt.outcome(*SQUARE)
    return error and (
        "The numbers are right, and autograd found them: with it switched off your function fails. "
        "The task is to say it with only the weights and the values."
    )


SLOPES = {
    "weights[:, None] * values": "You let score i raise its own weight, with force a_i, and left "
    "the others as they were. They must sum to 1: when one rises the others fall.",
    "values - output": "The direction is right: towards value i, away from the output. But a key "
    "with weight 0 would pull as hard as any other. With what force does it pull?",
    "weights[:, None] * values - output": "The weight multiplies the value only; it belongs to the "
    "whole difference. Mind the brackets.",
    "weights[:, None] * (output - values)": "The sign is turned: it should move to value i.",
    "(weights * (1 - weights))[:, None] * values": "a_i (1 - a_i) is how weight i moves with *its "
    "own* score. The other weights move with that score, too: what stands off the diagonal?",
    "(torch.diag(weights) - weights * weights) @ values": "`weights * weights` squares entry by "
    "entry. The second term is a column times a row, (K, K).",
    "(torch.diag(weights) - weights @ weights) @ values": "`weights @ weights` of two vectors is "
    "one number, the inner product. The second term is a column times a row, (K, K).",
    "-torch.outer(weights, weights) @ values": "That is what the other weights lose. What weight i "
    "itself wins is missing: the diagonal.",
    "(weights - torch.outer(weights, weights)) @ values": "The vector of weights was added to "
    "every row. In the formula it stands on a diagonal.",
    "(torch.eye(len(weights)) - torch.outer(weights, weights)) @ values": "On the diagonal you "
    "have ones. At i, i the slope is a_i (1 - a_i), so which part of it belongs to the first term?",
    "values": "That is the slope of the output in the *weights*. Behind them stand the scores.",
    "torch.diag(weights) - torch.outer(weights, weights)": "That is how the *weights* move with "
    "the scores, (K, K). The output moves by the values that they weigh: one product is missing.",
    "weights.softmax(0)[:, None] * (values - weights.softmax(0) @ values)": "You took the softmax "
    "of the weights. They have been through it already.",
    "weights[:, None] * (values - values.mean(dim=0))": "You take the plain mean off the values. "
    "What the values are compared with is the output, the weighted mean.",
    "weights * (values - output)": "Your weights lie as a row, so weight j multiplies *column* j "
    "of the values. Weight i belongs to row i.",
    "(weights[:, None] * (values - output)).T": "The numbers are right, but they lie on their "
    "side. Wanted is (K, V): one row for each *score*.",
}

write_the_gradient = Exercise(
    id="1.6",
    title="Write the gradient",
    difficulty="hard",
    minutes=15,
    stub=pooling_gradient,
    solution=pooling_gradient_solution,
    explanation=(
        "diag(a) V is row by row a_i v_i, and a aᵀ V is a_i o: together a_i (v_i - o). No (K, K) "
        "matrix is needed. A key with weight 0 has slope 0, and so has a key with weight 1, whose "
        "value is the output: a lookup cannot learn."
    ),
    hints=[
        "The chapter has the slope in two forms: row by row, and all rows at once. Take either.",
        "Check: when all scores rise together nothing changes, so the rows add up to 0.",
        "Row by row: towards value i, away from the output, with a force of weight i. "
        "`weights[:, None]` stands the weights up as a column.",
    ],
    cases=[
        Case(SQUARE, rules=[nearly_right]),
        *(Case(random_case(*sizes), OTHER_SIZES) for sizes in [(3, 1), (3, 2), (5, 7)]),
        Case(random_case(1, 3), OF_SIZE_1),
        Case(authoring.in_dtype(random_case(3, 2), torch.float64), OTHER_DTYPE),
        Case(LOOKUP, LOOKED_UP),
    ],
    mistakes=instead_of("weights[:, None] * (values - output)", SLOPES),
    shapes={(2,): "Your result is one row. There is one for each score."},
    steps=[leans_on_autograd],
)
