"""7.1: one row of sines and cosines, worked out with a calculator."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_07 import sines
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers, number

POSITION, D = 1, 4

COUNTS = {
    1: "That is one number. A position has a row as wide as a token: four columns.",
    2: "That is two numbers. Four columns are two pairs, each with a sine and a cosine.",
    8: "That is eight numbers. Four columns are two pairs, each with one sine and one cosine.",
}


def four_columns(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    return None if got is None else COUNTS.get(got.numel())


row_by_hand = Exercise(
    id="7.1",
    title="The second row",
    task=(
        "Tokens are d = 4 numbers wide. What does the sinusoidal encoding add to the second token, "
        "which stands at position 1? Use a calculator, not the package. Give a list of four "
        "numbers, to two decimals."
    ),
    difficulty="easy",
    minutes=4,
    hints=[
        "Four columns are two pairs. A pair has one angle: the position divided by its wavelength. "
        "The first of the two columns holds its sine, the second its cosine.",
        "10000^(0/4) is 1, and 10000^(2/4) is 100. So the two angles are 1 and 0.01, in radians.",
    ],
    stub=None,
    solution=[0.84, 0.54, 0.01, 1.0],
    explanation=(
        "The angles are 1 and 0.01: sin 1 = 0.84, cos 1 = 0.54, sin 0.01 = 0.01, cos 0.01 = 1.00. "
        "Of the next token the first pair says much, the second almost nothing. It takes 100 "
        "positions to turn the second pair as far as the first turns in one."
    ),
    steps=[
        four_columns,
        number(
            sines.right(POSITION, D),
            tolerance=0.006,
            mistakes={tuple(row(POSITION, D)): why for row, why in sines.MISTAKES.items()},
        ),
    ],
    wrong=[
        Wrong([0.84, 0.01, 0.54, 1.0], "all sines stand first"),
        Wrong([0.54, 0.84, 1.0, 0.01], "have changed places"),
        Wrong([0.54, 1.0, 0.84, 0.01], "all cosines stand first"),
        Wrong([0.841, 0.995, 0.01, 1.0], "each column has a wavelength of its own"),
        Wrong([0.841, 0.54, 0.0998, 0.995], "the exponent is j/d here"),
        Wrong([0.841, 0.54, 0.0001, 1.0], "already doubled"),
        Wrong([0.841, 0.54, 0.841, 0.54], "equally fast"),
        Wrong([0.841, 0.54, -0.506, 0.862], "not multiplied"),
        Wrong([0.01745, 0.99985, 0.00017, 1.0], "of degrees"),
        Wrong([0.841, 0.841, 0.01, 0.01], "sines in every column"),
        Wrong([1, 1, 0.01, 0.01], "those are the angles"),
        Wrong([0.909, -0.416, 0.02, 0.9998], "one position too far"),
        Wrong([0, 1, 0, 1], "the row of position 0"),
        Wrong([0.84, 0.54], "two pairs"),
        Wrong([0.84, 0.54, 0.5, 1.0], "Entry [2], 0.5 is too large"),
        Wrong(0.84, "as wide as a token"),
        Wrong("sin 1", "Give a list of numbers"),
    ],
)
