"""Steps that several exercises of this chapter use."""

from collections.abc import Mapping

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.steps import Cases, as_numbers


def part(chosen: int | slice, name: str, step: Step) -> Step:
    """``step`` on a part of an answer that is a list of numbers; ``name`` says which part."""

    def on_part(attempt: Attempt) -> str | None:
        found = step(Attempt(as_numbers(attempt.answer)[chosen].tolist()))
        return f"{name}: {found}" if found else None

    return on_part


def explains(errors: Mapping[str, str], cases: Cases) -> Step:
    """Puts a reason before an error of the student's code, chosen by words of its message.

    Errors with other words are left to the steps behind, on the same cases.
    """

    def step(attempt: Attempt) -> str | None:
        for inputs in cases:
            try:
                attempt(*inputs)
            except Raised as failure:
                reasons = [why for words, why in errors.items() if words in str(failure.error)]
                if reasons:
                    return f"{reasons[0]} {failure}"
        return None

    return step
