"""2.5: the error of pooling when no point may see itself."""

import torch
from torch import Tensor

from d2l_attention import attention_pooling, gaussian_score
from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def leave_one_out_error(x, y, width):
    """Mean squared error of each point predicted from the others: x (K,), y (K,) -> ().

    Two points have only each other: x = [0, 1] and y = [1, 4] give 9 at any width.
    """
    ...


def leave_one_out_error_solution(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width)
    others = ~torch.eye(len(x), dtype=torch.bool)
    prediction, _ = attention_pooling(scores, y[:, None], mask=others)
    return (prediction[:, 0] - y).square().mean()


SCORES, POOLED = "gaussian_score(x", "attention_pooling(scores, y[:, None], mask=others)"


def points(x, y, width, **more):
    return Case((torch.tensor(x), torch.tensor(y), width), **more)


def shapes(result, x, *_):
    if isinstance(result, float):
        return "Your function returns a plain number. A number has no gradient; return the tensor."
    if isinstance(result, Tensor) and result.shape in ((len(x),), (len(x), 1)):
        return "Your function returns one error for each point; their mean is missing."


def finite(result, *_):
    if result.isnan():
        return "Your error is NaN. Infinity times 0 is NaN: choose entries with a mask instead."
    if result.isinf():
        return "Your error is infinite: is the softmax missing between the scores and the values?"


def far_points_count(result, x, y, width):
    if result == 0:
        return (
            "Your error is 0: these two points see themselves. They are so far apart that their "
            "score lies below the number that you hide with. Nothing is below -inf."
        )
    return (
        f"Your error is {'NaN' if result.isnan() else result.item()} for two points far apart. "
        "Think of the castle: their similarity is 0, but each still has the other one."
    )


COLUMN = "The package wants columns, one row per key: `x` has one axis, and `y` has one axis."

write_leave_one_out = Exercise(
    **heading("2.5", "The exam without the solution on the desk", "medium", minutes=10),
    section="Leave-one-out: hide each point from itself",
    stub=leave_one_out_error,
    solution=leave_one_out_error_solution,
    explanation="The mask hides each point from itself before the softmax, so the others share all "
    "the weight, and no score is too low for the softmax. The prediction has shape (K, 1), and "
    "its column [:, 0] is compared with `y`.",
    hints=[
        "Take `other_points` and `learn_width` of the chapter as models. Which mask goes in, and "
        "what is compared with `y`?",
        "`x[:, None]` makes a column of `x`. What shape does the prediction have, and what does "
        "(K, 1) minus (K,) give?",
        "Of the two routes, kernel and division or score and softmax, one survives 100 widths.",
    ],
    cases=[
        points([0.0, 1, 3], [1.0, 4, 2], torch.tensor(2.0)),
        points([0.0, 1], [1.0, 4], 1.0, errors={"float": "`width` may be a plain number as well."}),
        points([0.0, 0, 1], [1.0, 4, 2], 1),
        points([0.0, 100], [1.0, 4], 1.0, rules=[far_points_count]),
        points([0.0, 100], [1.0, 4], torch.tensor(0.0001), rules=[far_points_count]),
        Case((*normal(0, (7,), (7,)), torch.tensor(0.4))),
        Case((*normal(1, (41,), (41,)), torch.tensor(1.5))),
    ],
    mistakes=[
        *instead_of(
            "mask=others",
            {
                "mask=None": "Every point still sees itself. (A score of 0 hides nothing.)",
                "mask=~others": "Your error is 0: every point sees itself and nothing else. True "
                "in a mask means 'may attend'.",
                "mask=others.tril()": "Every point sees only those before it. Use all others.",
            },
        ),
        *instead_of(
            POOLED,
            {
                "scores.softmax(dim=-1) * others @ y[:, None], None": "You hid each point after "
                "the softmax: the weights of the others no longer sum to 1.",
                "scores.masked_fill(~others, -torch.inf).softmax(dim=0) @ y[:, None], None": "Your "
                "softmax runs over the queries. Each query shares out its attention over the keys.",
            },
        ),
        Mistake(
            {"prediction[:, 0]": "prediction"},
            "(K, 1) minus (K,) is a table (K, K): every prediction is compared with every y.",
        ),
        *instead_of(
            ".square().mean()",
            {
                ".square().sum()": "You sum the squared errors; take their mean.",
                ".square().sum() / (len(x) - 1)": "You divide by K - 1, and there are K errors to "
                "average.",
                ".square().mean() / 2": "Your error is half the mean of the squared errors.",
                ".mean().square()": "In a mean error too high and too low cancel. Square first.",
                ".abs().mean()": "You average the absolute errors; square them instead.",
                ".square().mean().sqrt()": "You took the root at the end; leave it out.",
            },
        ),
        *instead_of(
            "width)\n",
            {
                "width**0.5)\n": "In your scores the width is not squared; divide by its square.",
                "width / 2**0.5)\n": "The Gaussian's score has a 2 below the fraction as well.",
                "1.0)\n": "Your error is that of width 1. Where is `width` used?",
                "torch.as_tensor(width).exp())\n": "`width` is the width itself, not its "
                "logarithm.",
            },
        ),
        Mistake({SCORES: f"-{SCORES}"}, "The score of the Gaussian has a minus in front."),
        Mistake(
            {"~torch.eye(len(x), dtype=torch.bool)": "x[:, None] != x"},
            "You hide every point with the same x. Two flats may have the same size.",
        ),
    ],
    shapes=shapes,
    errors={
        "operator.invert": "`~` swaps True and False; your tensor holds floats. Give a `dtype`.",
        "must be matrices of rows": COLUMN,
        "one row for each key": COLUMN,
        "tuple indices must be": "`attention_pooling` returns two results: output, weights.",
    },
    rules=[finite],
    steps=[authoring.gradients_flow("width", why="No width could be learned.")],
)
