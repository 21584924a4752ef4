"""Steps that several exercises of this chapter use."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.steps import as_numbers


def part(chosen: int | slice, name: str, step: Step) -> Step:
    """``step`` on a part of an answer that is a list of numbers; ``name`` says which part."""

    def on_part(attempt: Attempt) -> str | None:
        found = step(Attempt(as_numbers(attempt.answer)[chosen].tolist()))
        return f"{name}: {found}" if found else None

    return on_part
