"""Exercise 2.5: the error of pooling when no point may see itself."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.chapter_02 import leave_one_out_mistakes as mistakes
from d2l_attention.exercises.chapter_02 import solutions, stubs
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike

# With two points the other one has all the weight, whatever the width: easy by hand.
TWO = (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 4.0]), 1.0)
HUNDRED_WIDTHS = (torch.tensor([0.0, 100.0]), torch.tensor([1.0, 4.0]), 1.0)
A_MILLION_WIDTHS = (torch.tensor([0.0, 100.0]), torch.tensor([1.0, 4.0]), 0.0001)
SAME_PLACE = (torch.tensor([0.0, 0.0, 1.0]), torch.tensor([1.0, 4.0, 2.0]), 1.0)
THREE = (torch.tensor([0.0, 1.0, 3.0]), torch.tensor([1.0, 4.0, 2.0]), torch.tensor(0.5))
TRAINED = (*THREE[:2], torch.tensor(0.5, requires_grad=True))


def random_case(seed: int, points: int, width: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(points, generator=generator) * 5
    y = torch.randn(points, generator=generator)
    return x, y, torch.tensor(width, requires_grad=True)


RANDOM = [random_case(0, 7, 0.4), random_case(1, 41, 1.5)]

ERRORS = {
    "operator.invert": (
        "`~` swaps True and False, and your tensor holds floats. `torch.eye` takes a `dtype`."
    ),
    "must be matrices of rows": (
        "The package wants keys and values as matrices, one row a key, as `pool` of the chapter "
        "makes them; `x` and `y` have one axis."
    ),
    "one row for each key": (
        "The package wants values as a matrix, one row a key, as `pool` of the chapter makes it; "
        "`y` has one axis."
    ),
    "tuple indices must be": "`attention_pooling` returns two results: the output and the weights.",
    "'float' object has no attribute": (
        "`width` may be a plain number as well, and it is the width itself, not its logarithm."
    ),
    "must be Tensor, not float": (
        "`width` may be a plain number as well, and it is the width itself, not its logarithm."
    ),
}


def one_number(result: Any, x: Tensor, *_: Any) -> str | None:
    if isinstance(result, float):
        return (
            "Your function returns a plain number (`.item()`, `float`?). A number has no "
            "gradient; return the tensor."
        )
    if isinstance(result, Tensor) and result.shape in ((len(x),), (len(x), 1)):
        return "Your function returns one error for each point; their mean is missing."
    return None


def far_points_count(result: Tensor, x: Tensor, y: Tensor, width: float) -> str | None:
    """For two points, which have only each other to ask."""
    if torch.isclose(result, solutions.leave_one_out_error(x, y, width)):
        return None
    apart = (x[1] - x[0]).item() / width
    if result == 0:
        return (
            f"Your error is 0: these two points see themselves. At {apart:,.0f} widths "
            f"their score is {-(apart**2) / 2:.2g}, below the negative number that you hide "
            "with. Nothing is below -inf, and a mask needs no number at all."
        )
    says = "NaN" if result.isnan() else f"{result.item():.3g}"
    return (
        f"Your error is {says} for two points that are {apart:,.0f} widths apart. Think of the "
        "castle: in the computer their similarity is 0, but each has the other one to ask."
    )


def finite(result: Tensor, *_: Any) -> str | None:
    if result.isnan():
        return (
            "Your error is NaN. Infinity times 0 is NaN: choose entries with a mask instead of "
            "multiplying by zeros and ones."
        )
    if result.isinf():
        return "Your error is infinite: is the softmax missing between the scores and the values?"
    return None


def gives_what(mistake: Callable, why: str) -> Step:
    """``unlike`` on two points; three must agree, for among two several mistakes look alike."""
    on_three, on_two = unlike(mistake, why, THREE), unlike(mistake, why, TWO)
    return lambda attempt: on_three(attempt) and on_two(attempt)


def gradient_reaches_width(result: Tensor, x: Tensor, y: Tensor, width: Tensor) -> str | None:
    if not result.requires_grad:
        return (
            "No gradient reaches `width`. What cuts it off: `.item()`, `.detach()`, `float`, "
            "`torch.tensor(...)` around something computed, or `no_grad`?"
        )
    try:
        (got,) = torch.autograd.grad(result, width, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return (
            "The error is right, but its gradient breaks off: a tensor that the backward pass "
            "still needs was overwritten in place (`x[...] = ...`, `fill_diagonal_`)."
        )
    if got is None:
        return "Your error has a gradient, but `width` takes no part in it."
    (right,) = torch.autograd.grad(solutions.leave_one_out_error(x, y, width), width)
    if torch.isclose(got, right, rtol=1e-3, atol=1e-5):
        return None
    return (
        f"The error is right, but its gradient for `width` is {got.item():.3g}; it should be "
        f"{right.item():.3g}. Does every use of `width` keep its gradient?"
    )


write_leave_one_out = Exercise(
    id="2.5",
    title="The exam without the solution on the desk",
    task=(
        "Complete `leave_one_out_error(x, y, width)` for `x` and `y` of shape (K,), K ≥ 2, and a "
        "`width` above 0, a number or a tensor: the mean squared error of Gaussian attention "
        "pooling when each point is predicted from all the others. It returns a tensor of shape "
        "(), its gradient reaches `width`, and it stays right for points any number of widths "
        "apart."
    ),
    difficulty="hard",
    minutes=15,
    hints=[
        "Take `learn_width` of the chapter as a model: one line of its loop makes the scores, one "
        "the prediction, one the loss. Which mask goes in?",
        "`x[:, None]` makes a column of `x`. What shape does the prediction have, and what does "
        "(K, 1) minus (K,) give?",
        "Of the two routes, kernel and division or score and softmax, one survives 100 widths.",
    ],
    stub=stubs.leave_one_out_error,
    solution=solutions.leave_one_out_error,
    explanation=(
        "The mask hides each point from itself before the softmax, so the others share all the "
        "weight, and no score is too low for the softmax. The prediction has shape (K, 1), and "
        "its column [:, 0] is what stands against `y`."
    ),
    steps=[
        explains(ERRORS, [TWO]),
        holds(one_number, [TWO]),
        like(solutions.leave_one_out_error, [TWO, THREE]),
        holds(finite, [TWO]),
        gives_what(
            mistakes.sees_itself,
            "Every point still sees itself. (A score of 0 hides nothing: it is the highest that "
            "there is.)",
        ),
        gives_what(
            mistakes.sees_only_itself,
            "Your error is 0: every point sees itself and nothing else. True in a mask means "
            "'may attend'.",
        ),
        gives_what(
            mistakes.column_minus_row,
            "A prediction of shape (K, 1) minus `y` of shape (K,) is a table (K, K): every "
            "prediction is compared with every y.",
        ),
        gives_what(
            mistakes.mask_after_softmax,
            "You hid each point after the softmax, when it had already taken its share: the "
            "weights of the others no longer sum to 1.",
        ),
        gives_what(
            mistakes.sees_only_earlier,
            "Every point sees only those before it. All the others may be asked.",
        ),
        gives_what(mistakes.sum_of_squares, "You sum the squared errors; take their mean."),
        gives_what(
            mistakes.over_k_minus_1, "You divide by K - 1, and there are K errors to average."
        ),
        gives_what(mistakes.half_the_mean, "Your error is half the mean of the squared errors."),
        gives_what(
            mistakes.square_of_the_mean,
            "You square the mean error, in which too high and too low cancel. Square first.",
        ),
        gives_what(
            mistakes.mean_of_absolutes, "You average the absolute errors; square them instead."
        ),
        gives_what(
            mistakes.root_mean_square, "You took the root at the end; the mean itself is asked for."
        ),
        holds(far_points_count, [HUNDRED_WIDTHS, A_MILLION_WIDTHS]),
        unlike(
            mistakes.width_not_squared,
            "In your scores the squared distance is divided by the width; divide by its square.",
            THREE,
        ),
        unlike(
            mistakes.without_the_two,
            "Your scores are -|q - k|² / width²; the Gaussian has a 2 below the fraction as well.",
            THREE,
        ),
        unlike(
            mistakes.without_minus,
            "Far points count most: the score of the Gaussian has a minus in front.",
            THREE,
        ),
        unlike(
            mistakes.softmax_over_the_queries,
            "Your softmax runs over the queries. The scores are symmetric, so the shapes do not "
            "tell, but each query shares out its own attention over the keys.",
            THREE,
        ),
        unlike(
            mistakes.width_ignored, "Your error is that of width 1. Where is `width` used?", THREE
        ),
        unlike(
            mistakes.logarithm_for_tensors,
            "Your error is that of width e^width. `width` is the width itself, not its logarithm.",
            THREE,
        ),
        unlike(
            mistakes.all_at_the_same_place_hidden,
            "You hide every point with the same x. Two flats may have the same size; only itself "
            "is hidden from each.",
            SAME_PLACE,
        ),
        agrees(solutions.leave_one_out_error, [TWO, THREE, *RANDOM]),
        holds(gradient_reaches_width, [TRAINED, *RANDOM]),
    ],
    wrong=[
        Wrong(mistakes.sees_itself, "Every point still sees itself"),
        Wrong(mistakes.own_score_zero, "A score of 0 hides nothing"),
        Wrong(mistakes.sees_only_itself, "every point sees itself and nothing else"),
        Wrong(mistakes.mask_after_softmax, "no longer sum to 1"),
        Wrong(mistakes.column_minus_row, "every prediction is compared with every y"),
        Wrong(mistakes.sees_only_earlier, "only those before it"),
        Wrong(mistakes.sum_of_squares, "take their mean"),
        Wrong(mistakes.over_k_minus_1, "there are K errors to average"),
        Wrong(mistakes.half_the_mean, "half the mean"),
        Wrong(mistakes.square_of_the_mean, "too high and too low cancel"),
        Wrong(mistakes.mean_of_absolutes, "square them instead"),
        Wrong(mistakes.root_mean_square, "You took the root at the end"),
        Wrong(mistakes.times_infinity, "Infinity times 0 is NaN"),
        Wrong(mistakes.without_softmax, "is the softmax missing"),
        Wrong(mistakes.output_and_weights_as_one, "returns two results"),
        Wrong(mistakes.without_the_two, "has a 2 below the fraction"),
        Wrong(mistakes.without_minus, "has a minus in front"),
        Wrong(mistakes.softmax_over_the_queries, "runs over the queries"),
        Wrong(mistakes.one_error_a_point, "their mean is missing"),
        Wrong(mistakes.kernel_and_division, "Your error is NaN for two points"),
        Wrong(mistakes.loop_with_nadaraya_watson, "Think of the castle"),
        Wrong(mistakes.residual_over_one_minus_own_weight, "Your error is NaN for two points"),
        Wrong(mistakes.hidden_with_minus_a_hundred, "these two points see themselves"),
        Wrong(mistakes.hidden_with_minus_a_billion, "Nothing is below -inf"),
        Wrong(mistakes.width_not_squared, "divide by its square"),
        Wrong(mistakes.width_ignored, "Where is `width` used?"),
        Wrong(mistakes.width_as_logarithm, "not its logarithm"),
        Wrong(mistakes.logarithm_for_tensors, "not its logarithm"),
        Wrong(mistakes.plain_number, "A number has no gradient"),
        Wrong(mistakes.without_gradient, "No gradient reaches `width`"),
        Wrong(mistakes.overwritten_in_place, "overwritten in place"),
        Wrong(mistakes.all_at_the_same_place_hidden, "every point with the same x"),
        Wrong(mistakes.mask_of_floats, "your tensor holds floats"),
        Wrong(mistakes.vectors_for_matrices, "one row a key"),
        Wrong(mistakes.values_without_columns, "`y` has one axis"),
    ],
)
