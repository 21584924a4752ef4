"""Answers to chapter 0 in a student's own voice: wrong ones with their words, and right ones."""

from fractions import Fraction

import numpy as np
import torch

RIGHT = {
    "0.1": [1, np.float32(1), torch.tensor(1.0), [1.0], Fraction(7, 7)],
}
WRONG = {
    "0.1": [
        (7, "how many there are"),
        (0.77 + 6 * 0.04, "before rounding"),
        ([0.77] + 6 * [0.04], "holds 7 numbers"),
        (100, "percentage"),
        ("1.0", "Give a number"),
        (True, "Give a number"),
    ],
}
