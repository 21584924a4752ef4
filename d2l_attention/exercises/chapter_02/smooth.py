"""2.3: two bugs in a Nadaraya-Watson regression."""

import torch

from d2l_attention import boxcar, constant, epanechikov, gaussian
from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, alike, instead_of, normal


def smooth_solution(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    total = similarity.sum(dim=1, keepdim=True)
    weights = similarity / total.masked_fill(total == 0, 1)
    return weights @ y_train, weights


TOTAL, DIVISOR = "similarity.sum(dim=1, keepdim=True)", "total.masked_fill(total == 0, 1)"
WEIGHTS, RESULT = f"similarity / {DIVISOR}", "weights @ y_train, weights"
DIFFERENCES = "x_val[:, None] - x_train"
OVER_QUERIES = "Your columns sum to 1, not your rows: you divide by the sum over the queries."
AS_HANDED_OUT = {f"    total = {TOTAL}\n": "", DIVISOR: "similarity.sum(dim=0)"}
TWO_KEYS = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 6.0])
STREET = torch.tensor([0.0, 1.0, 1.5, 4.0]), torch.tensor([2.0, 6.0, 1.0, -3.0])


def only_before(difference):
    """A kernel with two different sides: it counts the keys before the query."""
    return (difference > 0).float()


def asked(keys, *queries, kernel=gaussian):
    return Case((*keys, torch.tensor(queries), kernel))


def adds_up(got, x_train, y_train, *_):
    prediction, weights = got
    for row, total in enumerate(weights.sum(dim=1).tolist()):
        if min(abs(total), abs(total - 1)) > 1e-3:
            return f"Row {row} of your weights sums to {total:.3g}. A query's weights sum to 1."
    if not alike(prediction, weights @ y_train, 1e-3):
        return "Your prediction is not the sum of `y_train` weighted by your weights."


NO_KEY = "A query with no key in reach"

repair_smooth = Exercise(
    **authoring.heading("2.3", "The regression that runs, and is wrong", "medium", minutes=8),
    section="Nadaraya-Watson regression",
    stub=authoring.with_mistakes(
        smooth_solution, Mistake(AS_HANDED_OUT, OVER_QUERIES), name="smooth"
    ),
    solution=smooth_solution,
    explanation="The keys share the attention of one query, so the sum runs over the keys, axis 1, "
    "and keeps its axis to meet the rows. Where it is exactly 0, dividing by 1 leaves weights "
    "0; a small number added to every sum would spoil the weights of far queries.",
    hints=[
        "Run it with one query and two keys. What should the weights be?",
        "Print `similarity.shape` and the shape of the sum. Which axis is the keys'? Which shape "
        "must the sum have, so that each row is divided by its own?",
        "For the query without keys: where the sum is 0, dividing by 1 instead leaves 0.",
    ],
    cases=[
        asked(TWO_KEYS, 0.0, 0.5, 0.8),
        asked(TWO_KEYS, 0.2),
        asked(TWO_KEYS, 0.0, kernel=epanechikov),
        asked(TWO_KEYS, 5.0, kernel=boxcar),
        asked(TWO_KEYS, 0.0, 5.0, kernel=boxcar),
        asked((torch.tensor([0.0]), torch.tensor([2.0])), 12.0),
        asked(STREET, 1.2, 5.0, kernel=only_before),
        *(Case((*normal(2, (7,), (7,), (5,)), kernel)) for kernel in (gaussian, boxcar, constant)),
    ],
    mistakes=[
        *instead_of(
            TOTAL,
            {
                "similarity.sum(dim=0, keepdim=True)": OVER_QUERIES,
                "similarity.sum()": "Together they sum to 1. Each query shares out 1 of its own.",
                "similarity.sum(dim=1)": "Your sums of shape (Q,) meet the last axis of the "
                "similarities (Q, K), the keys. Keep the axis that you sum over.",
            },
        ),
        *instead_of(
            DIFFERENCES,
            {
                "x_val - x_train": "Query i meets key i only. Every query meets every key.",
                "x_train - x_val[:, None]": "The kernel gets query minus key, not key minus query.",
            },
        ),
        Mistake(
            {DIFFERENCES: "x_train[:, None] - x_val", TOTAL: "similarity.sum(dim=0)"},
            "The shapes of your product do not fit: weights are (Q, K), and `y_train` is (K,).",
        ),
        Mistake(
            {f"kernel({DIFFERENCES})": f"gaussian({DIFFERENCES})"},
            "That is the Gaussian, but another was given. Does your function call `kernel`?",
        ),
        *instead_of(
            WEIGHTS,
            {
                "similarity": "Nothing divides your similarities: the weights of a query sum to 1.",
                "similarity.softmax(dim=1)": "You took the softmax: a key with similarity 0 gets "
                "weight all the same. A kernel's values are only divided by their sum.",
                "similarity / total": "Row 0 of your weights is NaN: that query has no key in "
                "reach, its similarities sum to 0, and you divide 0 by 0.",
                "(similarity / total).nan_to_num(1 / len(x_train))": f"{NO_KEY} gets equal "
                "weights: it uses keys that do not count. All its weights should be 0.",
                f"similarity * total.all() / {DIVISOR}": "One query has no key in reach, and now "
                "all have weights 0. Look at each row by itself.",
                "similarity / (total + 1e-8)": "The only key, 12 widths away, gets weight 0: its "
                "similarity, 5e-32, is smaller than the number that you add, or that stands in for "
                "small sums. Only a sum of exactly 0 needs care.",
            },
        ),
        Mistake(
            {WEIGHTS: "similarity / total", RESULT: "(weights @ y_train).nan_to_num(), weights"},
            "You repair only the prediction. Row 0 of your weights is NaN: you divide 0 by 0.",
        ),
        *instead_of(
            RESULT,
            {
                "weights @ y_train, similarity": "Those are similarities, which nothing has "
                "divided yet.",
                "weights @ y_train, weights.T": "Your weights have one row per key, not per query.",
                "weights, weights @ y_train": "The order is: prediction, weights.",
                "weights * y_train, weights": "You multiply weights and values entry by entry, and "
                "the sum over the keys is missing; a matrix product does both.",
                "weights @ y_train / len(x_train), weights": "You divide by the number of "
                "keys as well, but the weights sum to 1 already.",
                "torch.where(weights.any(dim=1), weights @ y_train, y_train.mean()), weights": "A "
                "query with no key in reach has weights 0 and the prediction 4, the mean of all "
                "values. Weights of 0 predict 0.",
                "*(X[weights.any(dim=1)] for X in (weights @ y_train, weights)),": f"{NO_KEY} is "
                "missing from your results. It gets an answer too: weights 0 and prediction 0.",
            },
        ),
    ],
    rules=[adds_up],
)
