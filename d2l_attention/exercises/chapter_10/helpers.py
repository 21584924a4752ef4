"""What several exercises of this chapter use: answers that are several numbers in a row."""

import math
from collections.abc import Mapping, Sequence

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import as_numbers

# What is asked, the right number, and what typical wrong ones come from.
Question = tuple[str, float, Mapping[float, str]]


def near(value: float, other: float) -> bool:
    """To a hundredth: nobody has to write down more digits."""
    return math.isclose(value, other, rel_tol=0.01)


def one_by_one(questions: Sequence[Question], wanted: str, otherwise: str) -> Step:
    """The first number that is wrong, and why; ``otherwise`` where the mistake is not known."""

    def step(attempt: Attempt) -> str | None:
        got = as_numbers(attempt.answer)
        if got is None or got.numel() != len(questions):
            return f"Give {wanted}. Your answer is {show(attempt.answer)}."
        for value, (what, right, reasons) in zip(got.flatten().tolist(), questions, strict=True):
            if not near(value, right):
                why = (why for wrong, why in reasons.items() if near(value, wrong))
                return f"{what}, {show(value)}: {next(why, otherwise)}"
        return None

    return step
