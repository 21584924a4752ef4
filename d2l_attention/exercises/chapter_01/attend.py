"""1.2: softmax, then the weighted sum."""

import torch
from torch import Tensor

from d2l_attention import attention_pooling
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_01.helpers import OTHER_DTYPE, one_tensor, rows_of_weights
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, none_of, normal
from d2l_attention.exercises.steps import agrees, holds, like


def attend(scores, values): ...


def attend_solution(scores, values):
    weights = scores.softmax(dim=-1)  # over the keys: every row, one query, sums to 1
    return weights @ values


def package_attend(scores: Tensor, values: Tensor) -> Tensor:
    return attention_pooling(scores, values)[0]


# As many queries as keys, and values of that size too: a product of the wrong kind raises no
# error here, so that it can be told from the right one.
SQUARE = (torch.tensor([[1.0, 3.0], [2.0, 1.0]]), torch.tensor([[4.0, 0.0], [1.0, 8.0]]))
WEIGHTS_THEMSELVES = (SQUARE[0], torch.eye(2))
UNEQUAL = [normal(0, (1, 2), (2, 3)), normal(1, (3, 5), (5, 2)), normal(2, (5, 3), (3, 7))]
DOUBLE = tuple(X.double() for X in UNEQUAL[0])
LARGE = [(torch.tensor([scores]), SQUARE[1]) for scores in ([1000.0, 1001.0], [0.0, 1000.0])]
FAR_APART = (torch.tensor([[0.0, 1.0], [1000.0, 1001.0]]), SQUARE[1])


def no_gradient(attempt: Attempt) -> str | None:
    scores = SQUARE[0].clone().requires_grad_()
    if attempt(scores, SQUARE[1]).requires_grad:
        return None
    return (
        "The numbers are right, but no gradient reaches the scores, so nothing could learn "
        "through your function. `.item()`, `.tolist()`, `.detach()`, `torch.tensor(...)` and "
        "filling a tensor made of Python numbers cut it off; stay with operations on tensors."
    )


def softmax_over_the_queries(scores, values):
    return scores.softmax(dim=0) @ values


def softmax_over_everything(scores, values):
    return scores.flatten().softmax(dim=0).reshape(scores.shape) @ values


def without_softmax(scores, values):
    return scores @ values


def divided_without_exponential(scores, values):
    return scores / scores.sum(dim=-1, keepdim=True) @ values


def exponentials_not_divided(scores, values):
    return scores.exp() @ values


def divided_by_the_number_of_keys(scores, values):
    return scores.exp() / scores.shape[-1] @ values


def sum_without_keepdim(scores, values):
    positive = scores.exp()
    return positive / positive.sum(dim=-1) @ values


def softmax_of_the_output(scores, values):
    return (scores @ values).softmax(dim=-1)


def divided_by_the_sum_of_the_output(scores, values):
    output = scores.exp() @ values
    return output / output.sum(dim=-1, keepdim=True)


def elementwise(scores, values):
    return scores.softmax(dim=-1) * values


def weights_transposed(scores, values):
    return scores.softmax(dim=-1).T @ values


def values_transposed(scores, values):
    return scores.softmax(dim=-1) @ values.T


def values_first(scores, values):
    return values @ scores.softmax(dim=-1)


def weights_alone(scores, values):
    return scores.softmax(dim=-1)


def best_key_only(scores, values):
    return values[scores.argmax(dim=-1)]


def mean_of_the_values(scores, values):
    return values.mean(dim=0).expand(len(scores), -1)


def sign_turned(scores, values):
    return (-scores).softmax(dim=-1) @ values


def output_on_its_side(scores, values):
    return (scores.softmax(dim=-1) @ values).T


def one_output_for_all(scores, values):
    return sum(row.softmax(dim=0) @ values for row in scores)


def mean_taken_off(scores, values):
    positive = (scores - scores.mean(dim=-1, keepdim=True)).exp()
    return positive / positive.sum(dim=-1, keepdim=True) @ values


def loop_counts_the_queries(scores, values):
    weights = scores.softmax(dim=-1)
    n = len(scores)
    rows = [sum(weights[i, j] * values[j] for j in range(n)) for i in range(n)]
    return torch.stack(rows)


def scaled_scores(scores, values):
    return (scores / scores.shape[-1] ** 0.5).softmax(dim=-1) @ values


def output_and_weights(scores, values):
    return attention_pooling(scores, values)


def summed_over_all_queries(scores, values):
    return (scores.softmax(dim=-1)[:, :, None] * values).sum(dim=0)


def naive_softmax(scores, values):
    positive = scores.exp()
    return positive / positive.sum(dim=-1, keepdim=True) @ values


def largest_of_all_taken_off(scores, values):
    positive = (scores - scores.max()).exp()
    return positive / positive.sum(dim=-1, keepdim=True) @ values


def largest_taken_off_in_place(scores, values):
    scores -= scores.max(dim=-1, keepdim=True).values
    positive = scores.exp()
    return positive / positive.sum(dim=-1, keepdim=True) @ values


def python_numbers(scores, values):
    rows = scores.softmax(dim=-1).tolist()
    columns = values.T.tolist()
    return torch.tensor(
        [[sum(map(float.__mul__, row, column)) for column in columns] for row in rows],
        dtype=scores.dtype,
    )


SILENT_MISTAKES = {
    without_softmax: "You pooled with the scores as they are. They may be negative and sum to "
    "anything: the softmax, which makes weights of them, is missing.",
    divided_without_exponential: "You divided the scores by their sum. They sum to 1 now, but "
    "scores may be negative or sum to 0. What makes numbers positive before you divide?",
    exponentials_not_divided: "The exponentials are there and positive, but they do not sum to "
    "1: row by row, divide by their sum.",
    divided_by_the_number_of_keys: "You divided the exponentials by the number of keys. To sum "
    "to 1 they must be divided by their own sum.",
    softmax_over_everything: "Your softmax runs over all queries and keys at once, so two "
    "queries share one weight of 1. Every query, every row, has its own.",
    sum_without_keepdim: "You divide column j by the sum of row j: a sum of shape (Q,) lines up "
    "with the *last* axis. `keepdim=True` keeps it a column, (Q, 1).",
    softmax_of_the_output: "Your softmax comes last, on the pooled values. Weights first: the "
    "softmax belongs to the scores.",
    divided_by_the_sum_of_the_output: "You made the *output* sum to 1. It is the weights that do: "
    "divide by the sum of the exponentials.",
    elementwise: "`*` multiplies entry by entry. The output adds up *all* values, each with its "
    "weight: that is a matrix product.",
    weights_transposed: "You turned the weights: output i now collects what value i is worth to "
    "all queries. One row of weights belongs to one query.",
    values_transposed: "You turned the values, so a weight meets a column of them. A value is a "
    "row: (Q, K) times (K, V) fits as it is.",
    values_first: "The product stands the wrong way round: values times weights mixes weights. "
    "Which order gives (Q, K) times (K, V)?",
    summed_over_all_queries: "You multiply every weight with its value and then add over the "
    "queries. The output adds over the keys, for each query on its own.",
    weights_alone: "Those are the weights, and they are right. What is left is to pool the "
    "values with them.",
    best_key_only: "You look up the best key's value. Attention lets every key have a say: "
    "softmax instead of argmax.",
    mean_of_the_values: "That is the plain mean of the values, for every query. The scores have to "
    "have their say.",
    sign_turned: "The better the score, the smaller your weight: a sign has turned.",
    output_on_its_side: "The numbers are right, but they lie on their side. Wanted is (Q, V): one "
    "row for each query.",
    scaled_scores: "You divide the scores by a square root before the softmax. Here the scores "
    "come finished; scaling belongs to chapter 3.",
}

write_attend = Exercise(
    id="1.2",
    title="Write attention pooling",
    task=(
        "Complete `attend(scores, values)`: softmax, then the weighted sum. `scores` is (Q, K), "
        "one row a query; `values` is (K, V); return the output, (Q, V). Use operations on "
        "tensors, so that gradients flow."
    ),
    difficulty="easy",
    minutes=5,
    hints=[
        "Two lines are enough: one makes weights (Q, K), the other pools the values.",
        "Each row of the weights must sum to 1. A row runs along which axis?",
        "(Q, K) times (K, V) is (Q, V): the weighted sums for all queries at once.",
    ],
    stub=attend,
    solution=attend_solution,
    explanation=(
        "`dim=-1` is the axis of the keys: each query shares a weight of 1 among all keys. The "
        "matrix product then adds up the values for all queries at once. PyTorch's softmax takes "
        "the largest score off first, so that no exponential overflows."
    ),
    steps=[
        holds(one_tensor, [SQUARE]),
        none_of(SILENT_MISTAKES, SQUARE),
        like(package_attend, [SQUARE]),
        holds(rows_of_weights, [WEIGHTS_THEMSELVES]),
        agrees(package_attend, [SQUARE]),
        because(
            "With 2 queries and 2 keys your function is right; with other sizes it is not. What "
            "in it counts on Q = K?",
            agrees(package_attend, UNEQUAL),
        ),
        because(OTHER_DTYPE, agrees(package_attend, [DOUBLE])),
        because(
            "For small scores your function is right; for scores around 1000 it is not. In "
            "float32 e^1000 is inf, and inf / inf is NaN. Only differences between scores count, "
            "so you may take the same number off all scores of a row first: which one?",
            agrees(package_attend, LARGE),
        ),
        because(
            "What you take off the scores suits the row with the large ones. The other row's "
            "exponentials are all 0 then, and 0 / 0 is NaN: each row needs a number of its own.",
            agrees(package_attend, [FAR_APART]),
        ),
        no_gradient,
    ],
    wrong=[
        Wrong(softmax_over_the_queries, "your softmax runs over the queries"),
        Wrong(softmax_over_everything, "two queries share one weight of 1"),
        Wrong(without_softmax, "the softmax, which makes weights of them, is missing"),
        Wrong(divided_without_exponential, "divided the scores by their sum"),
        Wrong(exponentials_not_divided, "they do not sum to 1"),
        Wrong(divided_by_the_number_of_keys, "by the number of keys"),
        Wrong(sum_without_keepdim, "`keepdim=True`"),
        Wrong(softmax_of_the_output, "Your softmax comes last"),
        Wrong(divided_by_the_sum_of_the_output, "You made the *output* sum to 1"),
        Wrong(elementwise, "entry by entry"),
        Wrong(weights_transposed, "You turned the weights"),
        Wrong(values_transposed, "You turned the values"),
        Wrong(values_first, "the wrong way round"),
        Wrong(weights_alone, "What is left is to pool"),
        Wrong(best_key_only, "softmax instead of argmax"),
        Wrong(scaled_scores, "scaling belongs to chapter 3"),
        Wrong(mean_of_the_values, "the plain mean of the values"),
        Wrong(sign_turned, "a sign has turned"),
        Wrong(output_on_its_side, "lie on their side"),
        Wrong(one_output_for_all, "2 queries ask, and one output comes back"),
        Wrong(loop_counts_the_queries, "counts on Q = K"),
        Wrong(output_and_weights, "returns two results"),
        Wrong(summed_over_all_queries, "then add over the queries"),
        Wrong(naive_softmax, "e^1000 is inf"),
        Wrong(mean_taken_off, "which one?"),
        Wrong(largest_of_all_taken_off, "each row needs a number of its own"),
        Wrong(largest_taken_off_in_place, "changes its input: `scores`"),
        Wrong(python_numbers, "no gradient reaches the scores"),
    ],
)
