"""Exercise 2.6: a test that tells a right Nadaraya-Watson regression from four broken ones."""

import contextlib

import torch

from d2l_attention import constant, epanechikov, gaussian, nadaraya_watson
from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_02 import solutions, stubs
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.steps import explains, fails_on, passes_on


def right_by_logarithms(x_train, y_train, x_val, kernel):
    """Right, and never equal to the package in the last digit."""
    scores = kernel(x_val[:, None] - x_train).log()
    weights = scores.softmax(dim=1).nan_to_num()
    return weights @ y_train, weights


def divided_over_queries(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    total = similarity.sum(dim=0)
    weights = similarity / total.masked_fill(total == 0, 1)
    return weights @ y_train, weights


def never_divided(x_train, y_train, x_val, kernel):
    weights = kernel(x_val[:, None] - x_train)
    return weights @ y_train, weights


def one_row_a_key(x_train, y_train, x_val, kernel):
    prediction, weights = nadaraya_watson(x_train, y_train, x_val, kernel)
    return prediction, weights.T


def nan_out_of_reach(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / similarity.sum(dim=1, keepdim=True)
    return weights @ y_train, weights


def seven_for_everything(x_train, y_train, x_val, kernel):
    prediction, weights = nadaraya_watson(x_train, y_train, x_val, kernel)
    return torch.full_like(prediction, 7.0), torch.full_like(weights, 7.0)


def calls_the_implementation(attempt: Attempt) -> str | None:
    calls = []

    def counted(*inputs, **named):
        calls.append(inputs)
        return nadaraya_watson(*inputs, **named)

    with contextlib.suppress(Raised):  # what it raises, the next steps tell
        attempt(counted)
    if calls:
        return None
    return (
        "Your test never calls `implementation`, the function that it is given. Does it test the "
        "package's function by its own name?"
    )


def with_clue(step: Step, clue: str) -> Step:
    """``step``; where the student's test gave the wrong verdict, ``clue`` stands behind that."""

    def clued(attempt: Attempt) -> str | None:
        found = step(attempt)
        judged = found and found.startswith(("Your test fails on", "Your test passes on"))
        return f"{found} {clue}" if judged else found

    return clued


ERRORS = {
    "'tuple' object": "An implementation returns two results: prediction and weights.",
    "same dtype": "Your inputs are whole numbers, of dtype int64: write `1.0` for `1`.",
    "ambiguous": (
        "Two tensors compared with `==` give a tensor, and `assert` wants one yes or no. "
        "`torch.testing.assert_close` compares tensors, with a tolerance."
    ),
}

BLIND_ROWS = (
    "Did you think of queries with no key in reach? In a right implementation their weights sum "
    "to 0."
)
ROUNDING = (
    "This one divides by way of logarithms, so its numbers differ in the seventh digit. Compare "
    "with a tolerance."
)


def only_predictions(implementation):
    sizes, rents = torch.tensor([20.0, 30.0, 50.0]), torch.tensor([400.0, 600.0, 700.0])
    rent, _ = implementation(sizes, rents, torch.tensor([35.0]), lambda d: epanechikov(d / 20))
    torch.testing.assert_close(rent, torch.tensor([580.0]))


def only_row_sums(implementation):
    x, y, queries = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.5, 1.0])
    _, weights = implementation(x, y, queries, gaussian)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(2))


def every_row_sums_to_one(implementation):
    x, y, queries = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.5, 9.0])
    _, weights = implementation(x, y, queries, epanechikov)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(2))


def square_and_symmetric(implementation):
    x, y = torch.arange(3.0), torch.tensor([1.0, 2.0, 6.0])
    prediction, weights = implementation(x, y, x, constant)
    torch.testing.assert_close(weights, torch.full((3, 3), 1 / 3))
    torch.testing.assert_close(prediction, torch.full((3,), 3.0))


def one_query_on_a_key(implementation):
    x, y = torch.arange(3.0), torch.tensor([1.0, 2.0, 6.0])
    prediction, weights = implementation(x, y, torch.tensor([1.0, 5.0]), epanechikov)
    torch.testing.assert_close(weights, torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(prediction, torch.tensor([2.0, 0.0]))


def similarities_that_sum_to_one(implementation):
    x, y = torch.arange(3.0), torch.tensor([1.0, 2.0, 6.0])
    prediction, weights = implementation(x, y, torch.tensor([0.5, 1.0]), epanechikov)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]))
    torch.testing.assert_close(prediction, torch.tensor([1.5, 2.0]))


def exactly_equal(implementation):
    sizes, rents = torch.tensor([20.0, 30.0, 50.0]), torch.tensor([400.0, 600.0, 700.0])
    inputs = sizes, rents, torch.tensor([35.0, 120.0]), lambda d: epanechikov(d / 20)
    for got, right in zip(implementation(*inputs), nadaraya_watson(*inputs), strict=True):
        assert got.shape == right.shape and (got == right).all()


def tuples_compared(implementation):
    inputs = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.5]), gaussian
    assert implementation(*inputs) == nadaraya_watson(*inputs)


def whole_numbers(implementation):
    x, queries = torch.tensor([0, 1, 2]), torch.tensor([1, 9])
    prediction, _ = implementation(x, x, queries, epanechikov)
    torch.testing.assert_close(prediction, torch.tensor([1.0, 0.0]))


def two_results_as_one(implementation):
    x = torch.arange(3.0)
    assert implementation(x, x, torch.tensor([0.5]), gaussian).shape == (1,)


def returns_a_verdict(implementation):
    x, y, queries = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.5, 1.0])
    _, weights = implementation(x, y, queries, gaussian)
    return torch.allclose(weights.sum(dim=1), torch.ones(2))


def breaks_on_other_shapes(implementation):
    x, y, queries = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.5, 1.0])
    prediction, weights = implementation(x, y, queries, gaussian)
    torch.testing.assert_close(prediction, weights @ y)
    torch.testing.assert_close(weights[0].sum(), torch.tensor(1.0))


def tests_the_package(implementation):
    x, y, queries = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.5, 1.0])
    _, weights = nadaraya_watson(x, y, queries, gaussian)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(2))


def shapes_only(implementation):
    x, y, queries = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.5, 1.0])
    prediction, weights = implementation(x, y, queries, gaussian)
    assert prediction.shape == (2,) and weights.shape == (2, 3)


def swallows_the_failure(implementation):
    try:
        solutions.test_pooling(implementation)
    except AssertionError:
        print("broken")


write_pooling_test = Exercise(
    id="2.6",
    title="The test that catches four broken poolings",
    task=(
        "Complete `test_pooling(implementation)` for functions called like "
        "`nadaraya_watson(x_train, y_train, x_val, kernel)`. It passes every right one, also "
        "where numbers differ in the seventh digit, and fails by an `assert` on four broken "
        "ones: division by the sum over the queries; no division; weights of shape (K, Q); NaN "
        "for a query with no key in reach."
    ),
    difficulty="hard",
    minutes=20,
    hints=[
        "Work one small case out by hand and assert its weights and its prediction with "
        "`torch.testing.assert_close`. The street of the chapter is worked out already.",
        "Take more than one query, and not as many as keys. Why?",
        "One query should have no key in reach: which kernels end somewhere?",
    ],
    stub=stubs.test_pooling,
    solution=solutions.test_pooling,
    explanation=(
        "One case is enough if it is chosen well: two queries and three keys, so that no axis "
        "can be mistaken for another; similarities that do not sum to 1; a query that reaches "
        "nobody; numbers known from paper, compared with a tolerance."
    ),
    steps=[
        explains(ERRORS, [(nadaraya_watson,)]),
        with_clue(passes_on(nadaraya_watson), BLIND_ROWS),
        calls_the_implementation,
        with_clue(
            fails_on(seven_for_everything, "answers 7 to everything"),
            "Does it `assert` anything about numbers, and does no `except` swallow the failure?",
        ),
        with_clue(passes_on(right_by_logarithms), ROUNDING),
        with_clue(
            fails_on(divided_over_queries, "divides by the sum over the queries"),
            "Is there a case in which the rows of its weights and the columns have other sums?",
        ),
        with_clue(
            fails_on(never_divided, "divides by nothing"),
            "Do the similarities of your case sum to 1 by themselves?",
        ),
        with_clue(
            fails_on(one_row_a_key, "returns its weights as (K, Q)"),
            "Its predictions are right. Do you look at the weights, and does your case have as "
            "many queries as keys?",
        ),
        with_clue(
            fails_on(nan_out_of_reach, "answers NaN where no key is in reach"),
            "Is there such a query in your case? (Comparisons with NaN are all False.)",
        ),
    ],
    wrong=[
        Wrong(only_predictions, "returns its weights as (K, Q). What would show it?"),
        Wrong(only_row_sums, "NaN where no key is in reach. What would show it?"),
        Wrong(every_row_sums_to_one, "their weights sum to 0"),
        Wrong(square_and_symmetric, "divides by the sum over the queries. What would show it?"),
        Wrong(one_query_on_a_key, "divides by the sum over the queries. What would show it?"),
        Wrong(similarities_that_sum_to_one, "sum to 1 by themselves?"),
        Wrong(exactly_equal, "Compare with a tolerance"),
        Wrong(tuples_compared, "wants one yes or no"),
        Wrong(whole_numbers, "of dtype int64"),
        Wrong(two_results_as_one, "returns two results"),
        Wrong(returns_a_verdict, "A test speaks by failing"),
        Wrong(breaks_on_other_shapes, "let an `assert` say what is wrong"),
        Wrong(tests_the_package, "never calls `implementation`"),
        Wrong(shapes_only, "anything about numbers"),
        Wrong(swallows_the_failure, "swallow the failure"),
    ],
)
