"""Answers that are several numbers, each with reasons for typical wrong ones: 9.1 and 9.2."""

from collections.abc import Mapping, Sequence

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import as_numbers

# What is asked, the right number, and why a wrong one is wrong.
Question = tuple[str, float, Mapping[float, str]]


def all_right(questions: Sequence[Question], *, otherwise: str) -> Step:
    """Names the first number that is wrong, with its reason or with ``otherwise``."""

    def step(attempt: Attempt) -> str | None:
        got = as_numbers(attempt.answer)
        if got is None or got.numel() != len(questions):
            example = tuple(range(1, len(questions) + 1))
            return (
                f"Give {len(questions)} numbers, such as `{example}`. Your answer is "
                f"{show(attempt.answer)}."
            )
        for value, (what, right, reasons) in zip(got.flatten().tolist(), questions, strict=True):
            if near(value, right):
                continue
            why = next((why for wrong, why in reasons.items() if near(value, wrong)), otherwise)
            return f"{what}, {value:.7g}: {why}"
        return None

    return step


def near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= 0.0005 * abs(wanted)
