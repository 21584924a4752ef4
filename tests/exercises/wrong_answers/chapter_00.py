"""Answers to chapter 0 in a student's own voice: wrong ones with their words, and right ones."""

import torch

RIGHT = {
    "0.1": [torch.tensor(1.0)],
}
WRONG = {
    "0.1": [
        (0.77 + 6 * 0.04, "before rounding"),
        ([0.77] + 6 * [0.04], "holds 7 numbers"),
    ],
}
