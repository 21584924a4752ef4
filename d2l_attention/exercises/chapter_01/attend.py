"""1.2: softmax, then the weighted sum."""

import torch
from torch import Tensor

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def attend(scores, values):
    """Attention pooling: scores (Q, K) and values (K, V) -> outputs (Q, V).

    Scores [[0, 0]] make a mean: with the values [[2, 4], [6, 8]] they give [[4, 6]].
    """
    ...


def attend_solution(scores, values):
    weights = scores.softmax(dim=-1)  # over the keys: every row, one query, sums to 1
    return weights @ values


SCORES, VALUES = torch.tensor([[1.0, 3], [2, 1]]), torch.tensor([[4.0, 0], [1, 8]])
WEIGHTS = "The values are the identity here, so the output is your weights."
OTHER_SIZES = "With other sizes than 2 and 2 it goes wrong. What in your function counts on Q = K?"
OF_SIZE_1 = "Here one of the sizes is 1. Such an axis stays where it is."
OTHER_DTYPE = "In float64 it goes wrong. Where you make a tensor, give it the dtype of the inputs."
LARGE = (
    "Scores around 1000 go wrong. In float32 e^1000 is inf, and inf / inf is NaN. Only differences "
    "count, so you may take the same number off all scores of a row first: which one?"
)
FAR_APART = (
    "What you take off suits the row with the large scores. The other row's exponentials are all 0 "
    "then, and 0 / 0 is NaN: each row needs a number of its own."
)


def shapes(result, queries, *others):
    """For outputs (Q, V); ``queries``, or their scores, have Q rows."""
    if isinstance(result, tuple | list) and len(result) == 2:
        return "Your function returns two results. Only the output is asked for, one row per query."
    if isinstance(result, Tensor) and result.ndim == 3:
        return f"Your result has three axes, {tuple(result.shape)}: products were never added up."
    Q, V = len(queries), others[-1].shape[-1]
    told = f"{Q} queries ask, and one output comes back. Every query has a row of weights."
    return {(V,): told, (1, V): told} if Q > 1 else {}


SOFTMAX, POOL = "scores.softmax(dim=-1)", "weights @ values"
NO_WEIGHTS = {
    "scores": "You pool with the scores. They may be negative and sum to anything: the softmax, "
    "which makes weights of them, is missing.",
    "scores.softmax(dim=0)": "In your function every column of the weights sums to 1: your softmax "
    "runs over the queries. Over the keys (`dim=-1`) every row sums to 1.",
}
NO_OUTPUT = {
    "(weights @ values).T": "Your numbers lie on their side. Wanted is a row for each query.",
    "weights * values": "`*` multiplies entry by entry. The output adds up all values.",
    "weights @ values.T": "You turned the values: (Q, K) times (K, V) fits as it is.",
    "weights": "Those are the weights. What is left is to pool the values with them.",
}
# Exercise 1.5 has the same two lines.
IN_THESE_LINES = [*instead_of(SOFTMAX, NO_WEIGHTS), *instead_of(POOL, NO_OUTPUT)]
NO_SHARES = (
    "Your exponentials are positive, but they do not sum to 1: row by row, divide them by their "
    "own sum, not by the number of keys."
)
OTHER_WEIGHTS = {
    "scores / scores.sum(dim=-1, keepdim=True)": "You divided the scores by their sum. They sum to "
    "1 now, but scores may be negative or sum to 0. What makes numbers positive?",
    "scores.exp()": NO_SHARES,
    "scores.exp() / scores.shape[-1]": NO_SHARES,
    "scores.flatten().softmax(dim=0).reshape(scores.shape)": "Your softmax runs over all queries "
    "and keys at once, so two queries share one weight of 1. Every query, every row, has its own.",
    "scores.exp() / scores.exp().sum(dim=-1)": "You divide column j by the sum of row j: a sum of "
    "shape (Q,) lines up with the *last* axis. `keepdim=True` keeps it a column, (Q, 1).",
    "(-scores).softmax(dim=-1)": "The best score has the least weight: a sign is wrong.",
    "(scores / scores.shape[-1] ** 0.5).softmax(dim=-1)": "You divide the scores by a square root. "
    "Here they come finished; scaling belongs to chapter 3.",
}
OTHER_OUTPUTS = {
    "weights.T @ values": "You turned the weights: output i now collects what value i is worth to "
    "all queries. One row of weights belongs to one query.",
    "values @ weights": "The product stands the wrong way round. Which order gives (Q, K) times "
    "(K, V)?",
    "(weights[:, :, None] * values).sum(dim=0)": "You multiply every weight with its value and "
    "then add over the queries. The output adds over the keys, for each query on its own.",
    "values[scores.argmax(dim=-1)]": "You look up the best key's value. Attention lets every key "
    "have a say: softmax instead of argmax.",
    "values.mean(dim=0).expand(len(scores), -1)": "That is the plain mean of the values, for every "
    "query. The scores have to have their say.",
}

write_attend = Exercise(
    **heading("1.2", "Write attention pooling", "easy", minutes=5),
    section="Attention pooling without overflow",
    stub=attend,
    solution=attend_solution,
    explanation="`dim=-1` is the axis of the keys: each query shares a weight of 1 among all keys. "
    "PyTorch takes the largest score off first, so that no exponential overflows.",
    hints=[
        "Two lines are enough: one makes weights (Q, K), the other pools the values.",
        "Each row of the weights must sum to 1. A row runs along which axis?",
        "(Q, K) times (K, V) is (Q, V): the weighted sums for all queries at once.",
    ],
    cases=[
        Case((SCORES, torch.eye(2)), WEIGHTS, rules=[authoring.rows_sum_to_one]),
        Case((SCORES, VALUES)),
        Case(normal(0, (2, 3), (3, 4)), OTHER_SIZES),
        Case(normal(1, (5, 3), (3, 7)), OTHER_SIZES),
        Case(normal(2, (1, 2), (2, 3)), OF_SIZE_1),
        Case(normal(3, (3, 2), (2, 1)), OF_SIZE_1),
        Case(normal(4, (2, 1), (1, 3)), OF_SIZE_1),
        Case(authoring.in_dtype(normal(0, (2, 3), (3, 4)), torch.float64), OTHER_DTYPE),
        *(Case((torch.tensor([row]), VALUES), LARGE) for row in ([1000.0, 1001], [0, 1000.0])),
        Case((torch.tensor([[0.0, 1], [1000, 1001]]), VALUES), FAR_APART),
    ],
    mistakes=[
        *IN_THESE_LINES,
        *instead_of(SOFTMAX, OTHER_WEIGHTS),
        *instead_of(POOL, OTHER_OUTPUTS),
        Mistake(
            {SOFTMAX: "scores", POOL: "(weights @ values).softmax(dim=-1)"},
            "Your softmax comes last, on the pooled values. It belongs to the scores.",
        ),
        Mistake(
            {SOFTMAX: "scores.exp()", POOL: "torch.nn.functional.normalize(weights @ values, p=1)"},
            "You made the *output* sum to 1. It is the weights that do.",
        ),
    ],
    shapes=shapes,
    steps=[authoring.gradients_flow("scores", "values", why="Nothing could be learned.")],
)
