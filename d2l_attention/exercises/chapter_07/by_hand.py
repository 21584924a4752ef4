"""7.1: one row of sines and cosines, worked out with a calculator."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_07 import sines
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers, number

POSITION, D = 3, 4

COUNTS = {
    1: "That is one number. A position has a row as wide as a token: four columns.",
    2: "That is two numbers. Four columns are two pairs, each with a sine and a cosine.",
    8: "That is eight numbers. Four columns are two pairs, each with one sine and one cosine.",
}

COPIED = {
    tuple(sines.right(2, D)): "that is the row of position 2, where the third token stands.",
    tuple(sines.right(1, D)): "that is the row of position 1, where the second token stands.",
}


def four_columns(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    return None if got is None else COUNTS.get(got.numel())


row_by_hand = Exercise(
    id="7.1",
    title="The fourth row",
    task=(
        "Tokens are d = 4 numbers wide. What does the sinusoidal encoding add to the fourth token, "
        "which stands at position 3? Use a calculator, not the package. Give a list of four "
        "numbers, to two decimals."
    ),
    difficulty="easy",
    minutes=4,
    hints=[
        "Four columns are two pairs. A pair has one angle: the position divided by its wavelength. "
        "The first of the two columns holds its sine, the second its cosine.",
        "10000^(0/4) is 1, and 10000^(2/4) is 100. So the two angles are 3 and 0.03, in radians.",
    ],
    stub=None,
    solution=[0.14, -0.99, 0.03, 1.0],
    explanation=(
        "The angles are 3 and 0.03: sin 3 = 0.14, cos 3 = -0.99, sin 0.03 = 0.03, cos 0.03 = 1.00. "
        "From token to token the first pair changes much, the second hardly. It takes 100 "
        "positions to turn the second pair as far as the first turns in one."
    ),
    steps=[
        four_columns,
        number(
            sines.right(POSITION, D),
            tolerance=0.006,
            mistakes={
                **{tuple(row(POSITION, D)): why for row, why in sines.MISTAKES.items()},
                **COPIED,
            },
        ),
    ],
    wrong=[
        Wrong([0.14, 0.03, -0.99, 1.0], "all sines stand first"),
        Wrong([-0.99, 0.14, 1.0, 0.03], "have changed places"),
        Wrong([-0.99, 1.0, 0.14, 0.03], "all cosines stand first"),
        Wrong([0.141, 0.955, 0.03, 1.0], "each column has a wavelength of its own"),
        Wrong([0.141, -0.99, 0.296, 0.955], "the exponent is j/d here"),
        Wrong([0.141, -0.99, 0.0003, 1.0], "already doubled"),
        Wrong([0.141, -0.99, 0.141, -0.99], "equally fast"),
        Wrong([0.141, -0.99, -1.0, -0.022], "not multiplied"),
        Wrong([0.0523, 0.9986, 0.0005, 1.0], "of degrees"),
        Wrong([0.141, 0.141, 0.03, 0.03], "sines in every column"),
        Wrong([3, 3, 0.03, 0.03], "those are the angles"),
        Wrong([-0.757, -0.654, 0.04, 0.9992], "one position too far"),
        Wrong([0.91, -0.42, 0.02, 1.0], "where the third token stands"),
        Wrong([0.84, 0.54, 0.01, 1.0], "where the second token stands"),
        Wrong([0, 1, 0, 1], "the row of position 0"),
        Wrong([0.14, -0.99], "two pairs"),
        Wrong([0.14, -0.99, 0.5, 1.0], "Entry [2], 0.5 is too large"),
        Wrong(0.14, "as wide as a token"),
        Wrong("sin 3", "Give a list of numbers"),
    ],
)
