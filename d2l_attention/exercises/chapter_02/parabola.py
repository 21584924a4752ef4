"""Exercise 2.2: Epanechnikov's own kernel, for tensors of any shape."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.chapter_02 import solutions, stubs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike

FORMS = [
    (torch.tensor([-3.0, 0.5]),),
    (torch.tensor(0.5),),
    (torch.tensor([[0.0, 0.5, -1.0], [2.0, -0.25, 0.75]], dtype=torch.float64),),
    (torch.tensor([0.5, 2.0], dtype=torch.float16),),
    (torch.empty(0, 3),),
]
VALUES = [(torch.tensor([value]),) for value in (0.5, 1.25, -3.0)]
MANY = [(torch.linspace(-3, 3, 61),), (torch.linspace(-3, 3, 60).reshape(3, 4, 5).double(),)]

ONE_NUMBER = (
    "`float`, `.item()` and the functions of `math` handle one number, and a tensor holds many. "
    "Use operations of PyTorch on the whole tensor."
)
ERRORS = {
    "ambiguous": (
        "Python's own `max` and `if` want a single yes or no, and a tensor holds many. Use an "
        "operation of PyTorch that goes entry by entry."
    ),
    "bitwise_xor": "In Python `^` is no power; x² is `x**2`.",
    "one element tensors": ONE_NUMBER,
    "cannot be converted to Scalar": ONE_NUMBER,
    "must be Tensor, not": (
        "That function of PyTorch compares two tensors, and 0 is a number. There are others "
        "that take a number."
    ),
    "0-d tensor": "A tensor of shape () cannot be looped over, and no loop is needed.",
}


def no_indices(result: Any, *_: Tensor) -> str | None:
    if isinstance(result, tuple) and hasattr(result, "indices"):
        return (
            "`torch.max(a, 0)` is not the larger of a and 0: it looks for the largest entry "
            "along axis 0 and returns two tensors, values and indices."
        )
    return None


def not_negative(similarity: Tensor, x: Tensor) -> str | None:
    if (similarity >= 0).all():
        return None
    return (
        f"At {x.item():g} your function gives {similarity.item():g}. A key that far away should "
        "have no say at all, and this one votes against its own value."
    )


def same_on_both_sides(similarity: Tensor, x: Tensor) -> str | None:
    left, right = similarity.tolist()
    if abs(left - right) < 1e-3:
        return None
    return (
        f"At {x[0].item():g} your function gives {left:g}, at {x[1].item():g} it gives {right:g}. "
        "A key on the left of the query is as near as one on the right."
    )


def finite_where_squares_are_not(similarity: Tensor, *_: Tensor) -> str | None:
    if not similarity.isnan().any():
        return None
    return (
        "Your result is NaN. In half precision 300² is infinity, and infinity times 0 (or False) "
        "is NaN: choose the 0 instead of multiplying by it."
    )


def triangle(x):
    return (1 - x.abs()).clamp(min=0)


def never_cut_off(x):
    return 1 - x**2


def cut_on_one_side(x):
    return 1 - x.clamp(max=1) ** 2


def absolute_value(x):
    return (1 - x**2).abs()


def without_square(x):
    return (1 - x).clamp(min=0)


def only_positive_side(x):
    return (1 - x.clamp(min=0) ** 2).clamp(min=0)


def with_three_quarters(x):
    return 0.75 * (1 - x**2).clamp(min=0)


def times_the_boxcar(x):
    return (1 - x**2) * (x.abs() < 1)


def square_in_place(x):
    return (1 - x.square_()).clamp(min=0)


def cut_in_place(x):
    x[x.abs() > 1] = 1
    return 1 - x**2


def item_by_item(x):
    return max(1 - x.item() ** 2, 0)


def terms_swapped(x):
    return (x**2 - 1).clamp(min=0)


def python_max(x):
    return max(1 - x**2, 0)


def maximum_along_an_axis(x):
    return torch.max(1 - x**2, 0)


def maximum_with_a_number(x):
    return torch.maximum(1 - x**2, 0)


def power_sign(x):
    return (1 - x ^ 2).clamp(min=0)


def loop_over_entries(x):
    return torch.tensor([max(1 - entry.item() ** 2, 0) for entry in x])


def zeros_in_single_precision(x):
    return torch.maximum(1 - x**2, torch.zeros(x.shape))


write_parabola = Exercise(
    id="2.2",
    title="Epanechnikov's own kernel",
    task=(
        "Complete `parabola(x)`: max(1 - x², 0) for every entry of a tensor of any shape and "
        "floating dtype, as a new tensor of the same shape and dtype. At x = -3 it gives 0."
    ),
    difficulty="easy",
    minutes=5,
    hints=[
        "Work on the whole tensor at once. What is 1 - x² at x = -3, and what should stand there?",
        "`show_source(epanechikov)` shows how the triangle is cut off at 0.",
    ],
    stub=stubs.parabola,
    solution=solutions.parabola,
    explanation=(
        "Beyond distance 1 the parabola falls below 0, and `clamp` cuts it off, entry by entry, "
        "in a new tensor. `torch.where` and `torch.relu` do it as well."
    ),
    steps=[
        explains(ERRORS, FORMS[:2]),
        holds(no_indices, FORMS[:1]),
        like(solutions.parabola, FORMS),
        unlike(
            absolute_value,
            "Your similarity grows with the distance: 8 at distance 3. Did you take the absolute "
            "value of 1 - x², or swap its two terms?",
            (torch.tensor([-3.0]),),
        ),
        holds(not_negative, [(torch.tensor([-3.0]),), (torch.tensor([3.0]),)]),
        holds(same_on_both_sides, [(torch.tensor([-0.5, 0.5]),)]),
        unlike(
            triangle,
            "That is the triangle, 1 - |x|; the parabola is above it at this place.",
            (torch.tensor([0.5]),),
        ),
        unlike(
            with_three_quarters,
            "You put the usual 3/4 in front. The weights do not care, as the chapter shows, but "
            "this exercise asks for the parabola without it.",
            (torch.tensor([0.0]),),
        ),
        holds(finite_where_squares_are_not, [(torch.tensor([300.0], dtype=torch.float16),)]),
        agrees(solutions.parabola, [*VALUES, *MANY]),
    ],
    wrong=[
        Wrong(never_cut_off, "votes against its own value"),
        Wrong(cut_on_one_side, "At -3 your function gives -8"),
        Wrong(triangle, "That is the triangle"),
        Wrong(absolute_value, "grows with the distance"),
        Wrong(terms_swapped, "swap its two terms?"),
        Wrong(without_square, "A key on the left of the query"),
        Wrong(only_positive_side, "A key on the left of the query"),
        Wrong(with_three_quarters, "the usual 3/4 in front"),
        Wrong(square_in_place, "changes its input: `x`"),
        Wrong(cut_in_place, "changes its input: `x`"),
        Wrong(python_max, "want a single yes or no"),
        Wrong(item_by_item, "handle one number"),
        Wrong(maximum_along_an_axis, "is not the larger of a and 0"),
        Wrong(maximum_with_a_number, "compares two tensors"),
        Wrong(power_sign, "`^` is no power"),
        Wrong(loop_over_entries, "no loop is needed"),
        Wrong(zeros_in_single_precision, "is float32"),
        Wrong(times_the_boxcar, "infinity times 0"),
    ],
)
