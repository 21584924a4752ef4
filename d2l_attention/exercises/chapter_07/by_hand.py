"""7.1: one row of sines and cosines, worked out with a calculator."""

import torch

from d2l_attention.exercises.authoring import Exercise, heading, number, with_mistakes
from d2l_attention.exercises.chapter_07.add_positions import WRONG_ROWS, add_positions_solution

POSITION = 3


def row(*mistakes):
    """What 7.3 adds at this position, with these mistakes in it."""
    add = with_mistakes(add_positions_solution, *mistakes)
    return tuple(add(torch.zeros(1, POSITION + 1, 4), 0)[0, POSITION].tolist())


MISTAKES = {
    **{row(mistake): mistake.why for mistake in WRONG_ROWS},
    (0.91, -0.42, 0.02, 1): "that is the row of position 2, where the third token is.",
    (0.84, 0.54, 0.01, 1): "that is the row of position 1, where the second token is.",
    (0, 1, 0, 1): "that is the row of position 0, where all angles are 0.",
}
COUNTS = {
    1: "That is one number. A position has a row as wide as a token: four columns.",
    2: "That is two numbers. Four columns are two pairs, each with a sine and a cosine.",
    8: "That is eight numbers. Four columns are two pairs, each with one sine and one cosine.",
}

row_by_hand = Exercise(
    **heading("7.1", "The fourth row", "easy", minutes=4),
    section="Sines and cosines",
    hints=[
        "Four columns are two pairs. A pair has one angle: the position divided by its wavelength. "
        "The first of the two columns holds its sine, the second its cosine.",
        "10000^(0/4) is 1, and 10000^(2/4) is 100. So the two angles are 3 and 0.03, in radians.",
    ],
    solution=[0.14, -0.99, 0.03, 1.0],
    explanation="The angles are 3 and 0.03: sin 3 = 0.14, cos 3 = -0.99, sin 0.03 = 0.03, cos 0.03 "
    "= 1.00. From token to token the first pair changes much, the second hardly. It takes 100 "
    "positions to turn the second pair as far as the first turns in one.",
    steps=[number(row(), tolerance=0.006, mistakes=MISTAKES, counts=COUNTS)],
)
