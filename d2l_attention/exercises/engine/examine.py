"""The verdict on an answer, here and now. ``sandbox.py`` decides where."""

import contextlib
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from d2l_attention.exercises.engine.attempt import CALLER, Attempt, NotAttempted, Raised
from d2l_attention.exercises.engine.clock import Clock
from d2l_attention.exercises.engine.ladder import first_finding
from d2l_attention.exercises.engine.show import show_error, student_line, type_in_words
from d2l_attention.exercises.engine.stubs import is_stub
from d2l_attention.exercises.exercise import Exercise


@dataclass(frozen=True)
class Verdict:
    """What a check found: ``state``, a sentence for the student, and which ``replayable`` case."""

    state: Literal["solved", "not yet", "not attempted", "trouble"]
    message: str
    case_number: int | None = None


NOT_ATTEMPTED = Verdict("not attempted", "Not attempted yet.")


@contextlib.contextmanager
def neutral() -> Iterator[None]:
    """Torch as it is when Python starts, whatever a notebook has set."""
    before = torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        if torch.get_default_device().type != "cpu":
            # Only then: it makes every operation of torch slower.
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        if "torch._dynamo" in sys.modules:
            # Compilers start processes and threads, which a copy of a process has not got.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def examine(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on ``answer``; whatever it does, no exception comes out."""
    clock = Clock(exercise.seconds)
    verdict, stopped_at = NOT_ATTEMPTED, None
    try:
        with clock, neutral():
            verdict = judged(exercise, answer, clock)
    except KeyboardInterrupt as stop:
        stopped_at = stop
    # Also when the answer caught the stop itself and went on.
    if clock.passed:
        return out_of_time(exercise, stopped_at)
    if stopped_at is not None:
        return Verdict("trouble", "You stopped the check.")
    return verdict


def judged(exercise: Exercise, answer: Any, clock: Clock) -> Verdict:
    case_number = None
    try:
        if is_stub(answer, exercise.stub):
            return NOT_ATTEMPTED
        found, case_number = finding(exercise, as_written(answer), clock)
    except NotAttempted:
        return NOT_ATTEMPTED
    except Raised as failure:
        found = str(failure)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        # A step that did not expect what the answer gave it.
        return Verdict(
            "trouble",
            f"The check cannot make sense of your answer (`{show_error(error)}`). If you think "
            "that it is right, the check is at fault: please report it.",
        )
    if found is None:
        return Verdict("solved", f"Solved. {exercise.explanation}")
    return Verdict("not yet", f"Not yet. {found}", case_number)


def finding(exercise: Exercise, answer: Any, clock: Clock) -> tuple[str | None, int | None]:
    """What is wrong, and the number of the case that shows it, where it is one."""
    attempt = Attempt(answer, exercise, clock)
    found = wrong_kind(exercise, answer) or first_finding(exercise, attempt)
    cases = enumerate(replayable(exercise))
    return found, next((i for i, inputs in cases if inputs is attempt.shown), None)


def replayable(exercise: Exercise) -> list[Sequence[Any]]:
    """All inputs that a finding may tell of."""
    return [*(case.inputs for case in exercise.cases), *exercise.show]


def as_written(answer: Any) -> Any:
    """A compiled function or module as it was before it was compiled."""
    for name in ("_torchdynamo_orig_callable", "_orig_mod"):
        if (original := getattr(answer, name, None)) is not None:
            return original
    return answer


def wrong_kind(exercise: Exercise, answer: Any) -> str | None:
    """A function where a value is asked for, or the other way round."""
    if isinstance(exercise.solution, type) and not isinstance(answer, type):
        return f"`check` needs your class itself, without brackets; it got {type_in_words(answer)}."
    if callable(exercise.solution) and not callable(answer):
        return (
            "`check` needs your function itself, not its result: write its name without "
            f"brackets. It got {type_in_words(answer)}."
        )
    routines = types.FunctionType, types.BuiltinFunctionType, types.MethodType
    if not callable(exercise.solution) and isinstance(answer, routines):
        return "This exercise asks for a value, and your answer is a function: call it first."
    return None


def out_of_time(exercise: Exercise, stop: BaseException | None) -> Verdict:
    """``stop`` is the interrupt that ended the answer, if one could."""
    line = student_line(stop, CALLER) if stop else None
    where = f" It was in {line}." if line else ""
    return Verdict(
        "not yet",
        f"Not yet. Your code was still running after {exercise.seconds:g} seconds and was "
        f"stopped.{where} Look for a loop that never ends, or for one that a tensor operation "
        "can replace.",
    )
