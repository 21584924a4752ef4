"""Answers to chapter 0 in a student's own voice: wrong ones with their words, and right ones."""

import torch
from answers import right, wrong

right("0.1")(torch.tensor(1.0))
wrong("0.1", "before rounding")(0.77 + 6 * 0.04)
wrong("0.1", "holds 7 numbers")([0.77] + 6 * [0.04])
