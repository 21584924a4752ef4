"""1.6: the slope of the output in the scores, without autograd."""

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_01.helpers import OTHER_DTYPE
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, none_of, normal
from d2l_attention.exercises.steps import agrees, holds, like


def pooling_gradient(weights, values): ...


def pooling_gradient_solution(weights, values):
    output = weights @ values
    return weights[:, None] * (values - output)  # row i: a_i (v_i - o)


def random_case(seed: int, num_keys: int, size: int) -> tuple[Tensor, Tensor]:
    scores, values = normal(seed, (num_keys,), (num_keys, size))
    return scores.softmax(dim=0), values


# The output is (3, 6). Two keys, values of size 2: a product of the wrong kind, or a result on
# its side, raises no error here.
SQUARE = (torch.tensor([0.25, 0.75]), torch.tensor([[6.0, 0.0], [2.0, 8.0]]))
UNEQUAL = [(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([[4.0], [0.0], [8.0]]))]
UNEQUAL += [random_case(0, 3, 2), random_case(1, 5, 7)]
DOUBLE = tuple(X.double() for X in UNEQUAL[1])
LOOKUP = (torch.tensor([0.0, 1.0, 0.0]), torch.tensor([[4.0, 3.0], [0.0, 0.0], [1.0, 8.0]]))


def on_its_side(gradient: object, weights: Tensor, values: Tensor) -> str | None:
    right = pooling_gradient_solution(weights, values)
    if not isinstance(gradient, Tensor) or gradient.shape != right.T.shape:
        return None
    if not torch.allclose(gradient, right.T.to(gradient.dtype), atol=1e-5):
        return None
    return (
        "The numbers are right, but they lie on their side. Wanted is (K, V): one row for each "
        "*score*, one column for each component of the output."
    )


def one_row_missing(gradient: object, weights: Tensor, values: Tensor) -> str | None:
    if isinstance(gradient, Tensor) and gradient.shape == values.shape[-1:]:
        return (
            f"Your result is one row, {tuple(gradient.shape)}. There is one for each score: raise "
            "score i alone and ask how the output moves."
        )
    return None


def keys_by_keys(gradient: object, weights: Tensor, _values: Tensor) -> str | None:
    if isinstance(gradient, Tensor) and gradient.shape == (len(weights), len(weights)):
        return (
            f"Your result has shape {tuple(gradient.shape)}, (K, K). How the *weights* move is the "
            "first half; the output moves by the values that they weigh, (K, V)."
        )
    return None


def nearly_right(gradient: Tensor, *case: Tensor) -> str | None:
    off = (gradient - pooling_gradient_solution(*case)).abs().max()
    if 1e-4 < off < 0.05:
        return (
            "Close, but not exact: a difference over a small step? The slope itself needs no step. "
            f"Your result is off by {off:.2g}."
        )
    return None


def rows_do_not_cancel(gradient: Tensor, *_: Tensor) -> str | None:
    total = gradient.sum(dim=0)
    if total.abs().max() < 1e-4:
        return None
    moved = ", ".join(f"{entry:.3g}" for entry in total.tolist())
    return (
        f"Your rows add up to ({moved}): that is how the output would move if *all* scores rose "
        "together. But adding the same to all scores changes no weight, so the rows have to add "
        "up to 0."
    )


def leans_on_autograd(attempt: Attempt) -> str | None:
    """In inference mode autograd records nothing."""
    try:
        with torch.inference_mode():
            found = agrees(pooling_gradient_solution, [SQUARE])(attempt)
    except Raised:
        found = "an error"
    return found and (
        "The numbers are right, and autograd found them: with it switched off your function "
        "fails. The task is to say it with the weights and the values alone."
    )


def values_weighted(weights, values):
    return weights[:, None] * values


def weight_left_out(weights, values):
    return values - weights @ values


def weight_on_one_term(weights, values):
    return weights[:, None] * values - weights @ values


def sign_turned(weights, values):
    return weights[:, None] * (weights @ values - values)


def slope_of_one_weight(weights, values):
    return (weights * (1 - weights))[:, None] * values


def slope_of_one_weight_squared(weights, values):
    return (torch.diag(weights) - torch.diag(weights**2)) @ values


def square_instead_of_outer_product(weights, values):
    return (torch.diag(weights) - weights * weights) @ values


def inner_instead_of_outer_product(weights, values):
    return (torch.diag(weights) - weights @ weights) @ values


def outer_product_alone(weights, values):
    return -torch.outer(weights, weights) @ values


def diag_left_out(weights, values):
    return (weights - torch.outer(weights, weights)) @ values


def ones_instead_of_weights(weights, values):
    return (torch.eye(len(weights)) - torch.outer(weights, weights)) @ values


def slope_in_the_weights(weights, values):
    return values.clone()


def slope_of_the_weights_alone(weights, values):
    return torch.diag(weights) - torch.outer(weights, weights)


def softmax_once_more(weights, values):
    return pooling_gradient_solution(weights.softmax(dim=0), values)


def mean_taken_off(weights, values):
    return weights[:, None] * (values - values.mean(dim=0))


def transposed(weights, values):
    return pooling_gradient_solution(weights, values).T


def summed_over_the_scores(weights, values):
    return (weights[:, None] * (values - weights @ values)).sum(dim=0)


def weights_as_a_row(weights, values):
    return weights * (values - weights @ values)


def output_instead_of_slope(weights, values):
    return weights @ values


def autograd_on_logarithms(weights, values):
    scores = weights.log().requires_grad_()
    output = scores.softmax(dim=0) @ values
    rows = [torch.autograd.grad(o, scores, retain_graph=True)[0] for o in output]
    return torch.stack(rows, dim=1)


def finite_differences(weights, values):
    scores, step = weights.log(), 1e-3 * torch.eye(len(weights))
    return ((scores + step).softmax(dim=1) @ values - weights @ values) / 1e-3


def matrix_made_in_float32(weights, values):
    slopes = torch.zeros(len(weights), len(weights))
    for i in range(len(weights)):
        for j in range(len(weights)):
            slopes[i, j] = weights[i] * (int(i == j) - weights[j])
    return slopes @ values


def slope_from_logarithms(weights, values):
    output = weights @ values
    return weights.log().exp()[:, None] * values - (weights * weights / weights)[:, None] * output


SILENT_MISTAKES = {
    values_weighted: "You let score i raise its own weight, with force a_i, and left the other "
    "weights as they were. They must sum to 1: when one rises the others fall, and the output "
    "loses something.",
    weight_left_out: "The direction is right: towards value i, away from the output. But a key "
    "with weight 0 would pull as hard as any other. With what force does it pull?",
    weight_on_one_term: "The weight multiplies the value only; it belongs to the whole difference. "
    "Mind the brackets.",
    sign_turned: "The sign is turned: raising score i would push the output away from value i.",
    slope_of_one_weight: "a_i (1 - a_i) is how weight i moves with *its own* score. The other "
    "weights move with that score, too, and bring their values along: what stands off the "
    "diagonal?",
    square_instead_of_outer_product: "`weights * weights` squares entry by entry, and a row taken "
    "off a matrix is taken off every row. The second term is a column times a row, (K, K).",
    inner_instead_of_outer_product: "`weights @ weights` of two vectors is one number, the inner "
    "product. The second term is a column times a row, (K, K).",
    outer_product_alone: "That is what the other weights lose. What weight i itself wins is "
    "missing: the diagonal.",
    diag_left_out: "The vector of weights was added to every row. In the formula it stands on a "
    "diagonal.",
    ones_instead_of_weights: "On the diagonal you have ones. At i, i the slope is a_i (1 - a_i), "
    "so which part of it belongs to the first term?",
    slope_in_the_weights: "That is the slope of the output in the *weights*: the values. The "
    "scores stand one step further back, behind the softmax.",
    slope_of_the_weights_alone: "That is how the *weights* move with the scores, (K, K). The "
    "output moves by the values that they weigh: one product is missing.",
    softmax_once_more: "You took the softmax of the weights. They have been through it already.",
    mean_taken_off: "You take the plain mean off the values. What the values are compared with is "
    "the output, the weighted mean.",
    weights_as_a_row: "Your weights lie as a row, so weight j multiplies *column* j of the values. "
    "Weight i belongs to row i.",
}

write_the_gradient = Exercise(
    id="1.6",
    title="Write the gradient",
    task=(
        "Complete `pooling_gradient(weights, values)`, without autograd: the slope of the output "
        "in the *scores* behind the weights. `weights` is (K,), the softmax of the scores of one "
        "query; `values` is (K, V). Row i of the result, (K, V), says how the output moves as "
        "score i rises."
    ),
    difficulty="hard",
    minutes=15,
    hints=[
        "The chapter has the slope in two forms: row by row, and all rows at once. Take either.",
        "Check yourself: when all scores rise together nothing changes, so the rows of the result "
        "add up to 0.",
        "Row by row: towards value i, away from the output, with a force of weight i. "
        "`weights[:, None]` stands the weights up as a column.",
    ],
    stub=pooling_gradient,
    solution=pooling_gradient_solution,
    explanation=(
        "diag(a) V is row by row a_i v_i, and a aᵀ V is a_i o: together a_i (v_i - o). No (K, K) "
        "matrix is needed. A key with weight 0 has slope 0, and so has a key with weight 1, whose "
        "value is the output: a lookup cannot learn."
    ),
    steps=[
        holds(one_row_missing, [SQUARE]),
        none_of(SILENT_MISTAKES, SQUARE),
        holds(on_its_side, [SQUARE]),
        like(pooling_gradient_solution, [SQUARE]),
        holds(nearly_right, [SQUARE]),
        holds(rows_do_not_cancel, [SQUARE]),
        agrees(pooling_gradient_solution, [SQUARE]),
        holds(keys_by_keys, [UNEQUAL[0]]),
        because(
            "With 2 keys and values of size 2 your function is right; with other sizes it is not. "
            "Which axis is which?",
            agrees(pooling_gradient_solution, UNEQUAL),
        ),
        because(OTHER_DTYPE, agrees(pooling_gradient_solution, [DOUBLE])),
        because(
            "One weight is 1 here and the others are 0: a lookup, in which every slope is exactly "
            "0. Does your function divide by a weight, or take its logarithm?",
            agrees(pooling_gradient_solution, [LOOKUP]),
        ),
        leans_on_autograd,
    ],
    wrong=[
        Wrong(values_weighted, "when one rises the others fall"),
        Wrong(weight_left_out, "With what force"),
        Wrong(weight_on_one_term, "Mind the brackets"),
        Wrong(sign_turned, "The sign is turned"),
        Wrong(slope_of_one_weight, "what stands off the diagonal"),
        Wrong(slope_of_one_weight_squared, "what stands off the diagonal"),
        Wrong(square_instead_of_outer_product, "squares entry by entry"),
        Wrong(inner_instead_of_outer_product, "the inner product"),
        Wrong(outer_product_alone, "What weight i itself wins is missing"),
        Wrong(diag_left_out, "it stands on a diagonal"),
        Wrong(ones_instead_of_weights, "On the diagonal you have ones"),
        Wrong(slope_in_the_weights, "the slope of the output in the *weights*"),
        Wrong(slope_of_the_weights_alone, "one product is missing"),
        Wrong(softmax_once_more, "been through it already"),
        Wrong(mean_taken_off, "the weighted mean"),
        Wrong(transposed, "lie on their side"),
        Wrong(weights_as_a_row, "Weight i belongs to row i"),
        Wrong(summed_over_the_scores, "Your result is one row"),
        Wrong(output_instead_of_slope, "Your result is one row"),
        Wrong(finite_differences, "a difference over a small step"),
        Wrong(matrix_made_in_float32, "give it the dtype of the inputs"),
        Wrong(slope_from_logarithms, "divide by a weight"),
        Wrong(autograd_on_logarithms, "autograd found them"),
    ],
)
