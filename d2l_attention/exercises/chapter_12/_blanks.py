"""Implementations that only a test that looks at nothing, or at too little, accepts.

The zeros that ``catches`` takes by itself pass each test that compares two calls, or that looks
for hidden entries of 0, and such a test deserves a better clue.
"""

from collections.abc import Callable
from typing import Any

import torch

from d2l_attention.exercises.chapter_12._exhibit import fails


def noise(right: Callable) -> dict[str, Any]:
    """Options of ``catches``: noise comes back, other noise at each call."""
    return dict(
        nothing=lambda *_, **__: torch.randn(1),
        little=lambda *inputs, **named: torch.randn_like(right(*inputs, **named)),
        little_why="It even passes where noise comes back: it looks at the shape alone, or at too "
        "little. Work out what should come back, and compare.",
    )


def nan(right: Callable) -> dict[str, Any]:
    """Options of ``catches``: NaN comes back everywhere."""
    return dict(
        nothing=fails,
        little=lambda *inputs, **named: torch.full_like(right(*inputs, **named), torch.nan),
        little_why="It even passes where all that comes back is NaN. Is there an `assert`, and "
        "can it see NaN? Each of `<`, `>` and `==` is False with NaN; `isnan()`, `isfinite()` and "
        "`torch.testing.assert_close` notice it.",
    )
