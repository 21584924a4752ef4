"""2.6: a test that tells a right Nadaraya-Watson regression from four broken ones."""

import torch

from d2l_attention import epanechikov
from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading
from d2l_attention.exercises.chapter_02.smooth import RESULT, TOTAL, WEIGHTS, smooth_solution


def test_pooling(implementation):
    """Pass on right implementations, and fail by an `AssertionError` on broken ones.

    `prediction, weights = implementation(x_train, y_train, x_val, kernel)`; a test that looks at
    the shape only would be `assert weights.shape == (len(x_val), len(x_train))`.
    """
    ...


def test_pooling_solution(implementation):
    sizes = torch.tensor([20.0, 30.0, 50.0])
    rents = torch.tensor([400.0, 600.0, 700.0])
    queries = torch.tensor([35.0, 120.0])
    rent, weights = implementation(sizes, rents, queries, lambda d: epanechikov(d / 20))
    torch.testing.assert_close(weights, torch.tensor([[0.2, 0.6, 0.2], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(rent, torch.tensor([580.0, 0.0]))


def by_logarithms(x_train, y_train, x_val, kernel):
    """Right, with other last digits."""
    weights = kernel(x_val[:, None] - x_train).log().softmax(dim=1).nan_to_num()
    return weights @ y_train, weights


def nothing(*_, **__):
    return torch.zeros(1), torch.full((1, 1), torch.nan)


def one_key_in_reach(x_train, x_val, kernel):
    return ((kernel(x_val[:, None] - x_train) > 0).sum(dim=1) <= 1).all()


def sums_of_0_or_1(x_train, x_val, kernel):
    sums = kernel(x_val[:, None] - x_train).sum(dim=1)
    return (sums * (sums - 1)).abs().max() < 1e-4


def all_in_reach(x_train, x_val, kernel):
    return kernel(x_val[:, None] - x_train).sum(dim=1).all()


AS_MANY = (
    lambda x_train, x_val: len(x_val) == len(x_train),
    "You give as many queries as keys: rows may look like columns.",
)
WHOLE_NUMBERS = "Your inputs are whole numbers, of dtype int64: write `1.0` for `1`."

write_pooling_test = Exercise(
    **heading("2.6", "The test that catches four broken poolings", "hard", minutes=20),
    section="Four kernels",
    stub=test_pooling,
    solution=test_pooling_solution,
    explanation="One case is enough if it is chosen well: two queries and three keys, so that no "
    "axis can be mistaken for another; similarities that do not sum to 1; a query that reaches "
    "no key; numbers worked out by hand, compared with a tolerance.",
    hints=[
        "Work one small case out by hand and assert its weights and its prediction with "
        "`torch.testing.assert_close`. The street of the chapter is worked out already.",
        "Take more than one query, and not as many as keys. Why?",
        "One query should have no key in reach: which kernels end somewhere?",
    ],
    errors={
        "'tuple' object": "An implementation returns two results: prediction and weights.",
        "same dtype": WHOLE_NUMBERS,
        "found Long": WHOLE_NUMBERS,  # torch 2.11
        "ambiguous": "`==` between tensors gives a tensor, and `assert` wants one yes or no.",
    },
    steps=[
        catches(
            smooth_solution,
            Suspect(
                {TOTAL: "similarity.sum(dim=0, keepdim=True)"},
                "divides by the sum over the queries",
                blind=[
                    AS_MANY,
                    (
                        one_key_in_reach,
                        "Each of your queries has at most one key in reach, and with one there is "
                        "nothing to share out.",
                    ),
                ],
            ),
            Suspect(
                {WEIGHTS: "similarity"},
                "divides by nothing",
                blind=[
                    (
                        sums_of_0_or_1,
                        "The similarities of your queries sum to 1 by themselves, so that dividing "
                        "changes nothing.",
                    )
                ],
            ),
            Suspect(
                {RESULT: "weights @ y_train, weights.T"}, "returns its weights as (K, Q)", [AS_MANY]
            ),
            Suspect(
                {WEIGHTS: "similarity / total"},
                "answers NaN where no key is in reach",
                blind=[
                    (
                        all_in_reach,
                        "All your queries have a key in reach. Which kernel ends somewhere, and "
                        "where would a query reach none?",
                    )
                ],
            ),
            name="implementation",
            also_right=[by_logarithms],
            beliefs=[
                Suspect(
                    {WEIGHTS: "(similarity / total).nan_to_num(1 / len(x_train))"},
                    "uses all keys where none is in reach (in a right one their weights sum to 0)",
                )
            ],
            nothing=nothing,
            little_why="It even passes on zeros. Does it `assert` anything about numbers?",
            notice="Does it compare all weights and predictions with numbers worked out by hand?",
        )
    ],
)
