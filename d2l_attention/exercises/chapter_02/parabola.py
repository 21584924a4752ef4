"""2.2: Epanechnikov's own kernel, for tensors of any shape."""

import torch

from d2l_attention.exercises.authoring import Case, Exercise, heading, in_dtype, instead_of, normal


def parabola(x):
    """max(1 - x², 0) of every entry: any shape -> the same shape and dtype.

    [-3, 0.5, 0.1] gives [0, 0.75, 0.99].
    """
    ...


def parabola_solution(x):
    return (1 - x**2).clamp(min=0)


def shapes(result, x):
    if isinstance(result, tuple) and hasattr(result, "indices"):
        return "`torch.max(a, 0)` is not the larger of a and 0: it goes along axis 0."


NEAR = "A key on the left of the query is as near as one on the right."
ONE_NUMBER = "`float`, `.item()` and `math` handle one number, and a tensor holds many."

write_parabola = Exercise(
    **heading("2.2", "Epanechnikov's own kernel", "easy", minutes=5),
    section="Four kernels",
    stub=parabola,
    solution=parabola_solution,
    explanation="Beyond distance 1 the parabola falls below 0, and `clamp` cuts it off, entry by "
    "entry, in a new tensor. `torch.where` and `torch.relu` do it as well.",
    hints=[
        "Work on the whole tensor at once. What is 1 - x² at x = -3, and what should it be?",
        "The chapter's `epanechikov` shows how the triangle is cut off at 0.",
    ],
    cases=[
        Case((torch.tensor([-3.0, 0.5, 0.1]),)),
        Case((torch.tensor([1.25, -0.5]),)),
        Case((torch.tensor(0.5),), "With one axis it is right, but not for shape ()."),
        Case((torch.tensor([[0.0, 0.5, -1.0], [2.0, -0.25, 0.75]]),)),
        *(Case(in_dtype(normal(1, (3, 4, 5)), dtype)) for dtype in (torch.float64, torch.float16)),
        Case((torch.tensor([300.0], dtype=torch.float16),)),
    ],
    mistakes=[
        *instead_of(
            "1 - x**2",
            {
                "x**2 - 1": "Your similarity grows with the distance: 8 at distance 3. Did you "
                "swap its two terms?",
                "1 - x.abs()": "That is the triangle, 1 - |x|; the parabola is above it at 0.5.",
                "1 - x": f"The square is missing: at -3 your function gives 4. {NEAR}",
                "1 - x.clamp(min=0) ** 2": f"At -3 your function gives 1. {NEAR}",
            },
        ),
        *instead_of(
            "(1 - x**2).clamp(min=0)",
            {
                "(1 - x**2)": "At -3 your function gives -8. A key that far away should have no "
                "say at all, and this one votes against its own value.",
                "(1 - x.clamp(max=1) ** 2)": "At -3 your function gives -8, and at 3 it gives 0: "
                f"it is cut off on one side only. {NEAR}",
                "(1 - x**2).abs()": "Your similarity grows with the distance: 8 at distance 3. Did "
                "you take the absolute value of 1 - x²?",
                "0.75 * (1 - x**2).clamp(min=0)": "You put the usual 3/4 in front. The weights do "
                "not care, but this exercise asks for the parabola without it.",
                "torch.exp(-(x**2) / 2)": "That is the Gaussian, which never ends.",
                "(1 - x**2) * (x.abs() < 1)": "In half precision 300² is infinity, and infinity "
                "times 0 (or False) is NaN: choose the 0 instead of multiplying by it.",
            },
        ),
    ],
    shapes=shapes,
    errors={
        "ambiguous": "Python's own `max` and `if` want a single yes or no, and a tensor has many.",
        "bitwise_xor": "In Python `^` is no power; x² is `x**2`.",
        "one element tensors": ONE_NUMBER,
        "cannot be converted to Scalar": ONE_NUMBER,
        "must be Tensor, not": "That function compares two tensors, and 0 is a number.",
        "0-d tensor": "A tensor of shape () cannot be looped over, and no loop is needed.",
    },
)
