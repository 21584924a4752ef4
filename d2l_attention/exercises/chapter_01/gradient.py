"""1.6: the slope of the output in the query, without autograd."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal
from d2l_attention.exercises.chapter_01.attend import OF_SIZE_1, OTHER_DTYPE


def pooling_gradient(query, keys, values):
    """The slope of the output in the query: (D,), (K, D) and (K, V) -> (D, V).

    The query [0] half-way between the keys [[-1], [1]], with the values [[4], [8]], gives [[2]].
    """
    ...


def pooling_gradient_solution(query, keys, values):
    differences = keys - query  # (K, D): row j says how score j moves with the query
    weights = (-differences.square().sum(dim=1) / 2).softmax(dim=0)  # (K,)
    output = weights @ values  # (V,)
    slopes = weights[:, None] * (values - output)  # (K, V): how the output moves with score j
    return differences.T @ slopes  # the chain rule adds over the scores


# The output is (7.5, 2.3). A result on its side raises no error here.
SMALL = (
    torch.tensor([1.0, 1.0]),
    torch.tensor([[1.0, 2.0], [3.0, 1.0], [2.0, 0.0]]),
    torch.tensor([[6.0, 0.0], [2.0, 8.0], [12.0, 4.0]]),
)
LOOKUP = (torch.tensor([20.0, 0.0]), torch.tensor([[0.0, 0], [20, 1], [40, 0]]), SMALL[2])
FAR = (torch.tensor([0.0, 0.0]), torch.tensor([[20.0, 0], [20, 1], [20, -1]]), SMALL[2])
OTHER_SIZES = "With other sizes than K = 3, D = 2 and V = 2 it goes wrong. Which axis is which?"
LOOKED_UP = (
    "One weight is 1 here and the others are 0: a lookup, in which the slope is exactly 0. Does "
    "your function divide by a weight, or take its logarithm?"
)
FAR_AWAY = (
    "All keys are far away here. In float32 e^-200 is 0, and 0 / 0 is NaN: take the largest score "
    "off all of them first, as the chapter does, or use `softmax`."
)


def random_case(K, D, V):
    return normal(0, (D,), (K, D), (K, V))


def nearly_right(gradient, *case):
    off = (gradient - pooling_gradient_solution(*case)).abs().max()
    close = "Close, but not exact: a difference over a small step? The slope itself needs no step."
    return close if off < 0.05 else None


def leans_on_autograd(attempt):
    def refuse(*_):
        raise RuntimeError("autograd wants to remember something")

    with torch.autograd.graph.saved_tensors_hooks(refuse, refuse):
        error = attempt.error(*SMALL)
    return error and (
        "The numbers are right, and autograd found them: with it switched off your function fails. "
        "The task is to derive the slope on paper and to write down what you found."
    )


IN_THE_SCORES = {
    "weights[:, None] * values": "You let each score raise its own weight and left the others as "
    "they were. The weights sum to 1: when one rises the others fall, so subtract the output.",
    "values - output": "A key with weight 0 would pull as hard as any other. With what force does "
    "score j pull the output towards value j?",
    "weights[:, None] * values - output": "The weight multiplies the value only; it belongs to the "
    "whole difference. Mind the brackets.",
    "weights[:, None] * (values - values.mean(dim=0))": "You take the plain mean off the values. "
    "What the values are compared with is the output, the weighted mean.",
}
IN_THE_QUERY = {
    "slopes": "That is the slope in the scores, which the chapter gives. One factor of the chain "
    "rule is missing: how does score j move with the query?",
    "(differences.T @ slopes).T": "The numbers are right, but they lie on their side. Wanted is "
    "(D, V): one row for each coordinate of the query.",
    "2 * differences.T @ slopes": "Twice too much: the slope of a square has a factor 2, but the "
    "score has *half* the square.",
    "differences.T @ values": "The weights are missing: a key with weight 0 would pull as hard as "
    "any other.",
    "query[:, None] * slopes.sum(dim=0)": "As if every score moved with the query in the same way. "
    "Score j moves along its own line from the query to key j.",
}
IN_THE_WEIGHTS = {
    "-differences.square().sum(dim=1)": "The score is minus *half* the squared distance.",
    "differences.square().sum(dim=1) / 2": "A sign is missing in your scores: the farthest key has "
    "the largest weight.",
    "-differences.norm(dim=1)": "You score by the distance. The score is minus half its *square*.",
    "-differences.square().mean(dim=1)": "You take the mean over the coordinates. A squared "
    "distance is their *sum*.",
    "keys @ query": "Your weights come from dot products. Here the score is minus half the squared "
    "distance.",
}

write_the_gradient = Exercise(
    **heading("1.6", "Write the gradient", "hard", minutes=15),
    section="The slope of every score",
    stub=pooling_gradient,
    solution=pooling_gradient_solution,
    explanation="Score j moves with the query by k_j - q, and the output with score j by a_j (v_j "
    "- o). The chain rule multiplies the two and adds over j. The a_j (v_j - o) sum to 0, so you "
    "may leave q out: what is left is the covariance of keys and values under the weights. Where "
    "one key has all the weight there is none, and the slope is 0: a lookup cannot learn.",
    hints=[
        "On paper, for one key: by how much does -|q - k|² / 2 change when coordinate c of q rises "
        "a little?",
        "The chapter tells how the output moves with score j. The chain rule: the slope in the "
        "query is, added over j, how score j moves times how the output moves with it.",
        "(D, K) times (K, V) is (D, V): the product adds over the keys.",
    ],
    cases=[
        Case(SMALL, rules=[nearly_right]),
        *(Case(random_case(*sizes), OTHER_SIZES) for sizes in [(2, 3, 1), (3, 2, 5), (5, 3, 7)]),
        *(Case(random_case(*sizes), OF_SIZE_1) for sizes in [(1, 3, 2), (3, 1, 2), (3, 2, 1)]),
        Case(authoring.in_dtype(random_case(3, 2, 2), torch.float64), OTHER_DTYPE),
        Case(LOOKUP, LOOKED_UP),
        Case(FAR, FAR_AWAY),
    ],
    mistakes=[
        Mistake(
            {"keys - query": "query - keys"},
            "The sign is turned: the output should move to value j as the query moves to key j.",
        ),
        *instead_of("weights[:, None] * (values - output)", IN_THE_SCORES),
        *instead_of("differences.T @ slopes", IN_THE_QUERY),
        *instead_of("-differences.square().sum(dim=1) / 2", IN_THE_WEIGHTS),
    ],
    shapes={
        (2,): "Your result is one row. There is one for each coordinate of the query.",
        (3, 2): "Your result has a row for each key, not for each coordinate of the query.",
    },
    errors={"cannot be multiplied": "A matrix product does not fit. Print the shapes of both."},
    steps=[leans_on_autograd],
)
