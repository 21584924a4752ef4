"""Steps for answers that are worked out by hand: ``number``, ``choice``, ``parts`` of ``Part``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.engine.attempt import Attempt
from d2l_attention.exercises.engine.compare import as_numbers
from d2l_attention.exercises.engine.show import show
from d2l_attention.exercises.exercise import Step


def number(
    expected: Any,
    *,
    tolerance: float = 0.005,
    mistakes: Mapping[Any, str] | None = None,
    counts: Mapping[int, str] | None = None,
) -> Step:
    """A number worked out by hand, or a list of them, within ``tolerance``.

    ``mistakes`` maps typical wrong numbers (lists as tuples) to what went wrong, ``counts``
    wrong numbers of numbers.
    """
    right = torch.as_tensor(expected, dtype=torch.float64)

    def step(attempt: Attempt) -> str | None:
        got = as_numbers(attempt.answer)
        if got is None:
            wanted = "a number, such as `0.5`" if right.ndim == 0 else "a list of numbers"
            return f"Give {wanted}; your answer is {show(attempt.answer)}."
        if got.numel() != right.numel():
            counts_differ = f"Your answer holds {counted(got)}; it should hold {counted(right)}."
            return (counts or {}).get(got.numel(), counts_differ)
        got = got.reshape(right.shape)
        if close(got, right, tolerance):
            return None
        for typical, why in (mistakes or {}).items():
            if close(got, torch.as_tensor(typical, dtype=torch.float64), tolerance):
                return f"{show(attempt.answer)}: {why}"
        if close(got, 100 * right, 100 * tolerance):
            return "Your answer looks like a percentage: divide it by 100."
        return off_by(got, right, tolerance)

    return step


def off_by(got: Tensor, right: Tensor, tolerance: float) -> str:
    """Says where and in which direction, without giving the number away."""
    if close(got, right, 5 * tolerance):
        return f"{show(got.tolist())} is very close. Round at the very end, not on the way."
    far = ~torch.isclose(got, right, rtol=0, atol=tolerance)
    place = tuple(far.nonzero()[0].tolist())
    direction = "large" if got[place] > right[place] else "small"
    entry = f"Entry {list(place)}, " if place else ""
    return f"{entry}{show(got[place].item())} is too {direction}."


def counted(numbers: Tensor) -> str:
    return "one number" if numbers.numel() == 1 else f"{numbers.numel()} numbers"


def close(got: Tensor, right: Tensor, tolerance: float) -> bool:
    return got.shape == right.shape and torch.allclose(got, right, rtol=0, atol=tolerance)


def choice(right: Any, reasons: Mapping[Any, str]) -> Step:
    """One of several given answers; ``reasons`` says of each wrong one why it is wrong."""
    options = sorted([right, *reasons], key=str)

    def step(attempt: Attempt) -> str | None:
        answer = attempt.answer
        answer = answer.strip().lower() if isinstance(answer, str) else answer
        if isinstance(answer, Tensor) or answer not in options:
            return f"Choose one of {', '.join(map(repr, options))}; you gave {show(answer)}."
        return None if answer == right else f"{answer}: {reasons[answer]}"

    return step


@dataclass(frozen=True)
class Part:
    """One of several numbers: what it is called, its value, and why typical wrong ones are wrong.

    ``tolerance`` is absolute; without it, half a thousandth of the number. ``otherwise`` is said
    of a wrong number that has no reason of its own.
    """

    name: str
    right: float
    mistakes: Mapping[float, str]
    tolerance: float | None = None
    otherwise: str | None = None

    def fault(self, value: float, otherwise: str) -> str | None:
        if self.near(value, self.right):
            return None
        found = (why for wrong, why in self.mistakes.items() if self.near(value, wrong))
        return f"{self.name}, {value:.7g}: {next(found, self.otherwise or otherwise)}"

    def near(self, value: float, wanted: float) -> bool:
        most = 0.0005 * abs(wanted) if self.tolerance is None else self.tolerance
        return abs(value - wanted) <= most


def parts(*several: Part, give: str, otherwise: str) -> Step:
    """Several numbers, as a list, a tuple or nested pairs; the first wrong one is told.

    ``give`` asks for the form, such as 'three numbers, such as `(1, 1, 0.5)`'; ``otherwise`` is
    said of a wrong number without a reason.
    """

    def step(attempt: Attempt) -> str | None:
        got = as_numbers(attempt.answer)
        if got is None or got.numel() != len(several):
            return f"Give {give}. Your answer is {show(attempt.answer)}."
        pairs = zip(several, got.flatten().tolist(), strict=True)
        return next(filter(None, (part.fault(value, otherwise) for part, value in pairs)), None)

    return step
