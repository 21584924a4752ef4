"""The verdict on an answer, here and now. ``sandbox.py`` decides where."""

import contextlib
import math
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from d2l_attention.exercises.engine.attempt import Attempt, NotAttempted, Raised
from d2l_attention.exercises.engine.ladder import first_finding
from d2l_attention.exercises.engine.show import show_error, type_in_words
from d2l_attention.exercises.engine.stubs import is_stub
from d2l_attention.exercises.exercise import Exercise
from d2l_attention.system.workers import Clock


@dataclass(frozen=True)
class Verdict:
    """What a check found: ``state``, a sentence for the student, and which ``replayable`` case.

    ``mistake`` is the short name of a mistake that has one. ``share`` is what the answer is worth:
    1 where it is solved, and for a test that the student writes the share of the bugs it catches.
    """

    state: Literal["solved", "not yet", "not attempted", "trouble"]
    message: str
    case_number: int | None = None
    mistake: str | None = None
    share: float = 0.0


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
            # Compiling takes longer than a check may.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def examine(exercise: Exercise, answer: Any, seconds: float = math.inf) -> Verdict:
    """The verdict on ``answer``; whatever it does, no exception comes out.

    With ``seconds`` this process ends when the answer takes longer.
    """
    with neutral(), Clock(seconds) as clock:
        return judged(exercise, answer, clock)


def judged(exercise: Exercise, answer: Any, clock: Clock) -> Verdict:
    attempt = Attempt(answer, exercise, clock)
    try:
        if is_stub(answer, exercise.stub):
            return NOT_ATTEMPTED
        found = wrong_kind(exercise, answer) or first_finding(exercise, attempt)
    except NotAttempted:
        return NOT_ATTEMPTED
    except Raised as failure:
        found = str(failure)
    except BaseException as error:
        # A step that did not expect what the answer gave it.
        return Verdict(
            "trouble",
            f"The check cannot make sense of your answer (`{show_error(error)}`). If you think "
            "that it is right, the check is at fault: please report it.",
        )
    if found is None:
        home = f" Your result on {attempt.away} was compared on the CPU." if attempt.away else ""
        return Verdict("solved", f"Solved.{home} {exercise.explanation}", share=1.0)
    cases = enumerate(replayable(exercise))
    number = next((i for i, inputs in cases if inputs is attempt.shown), None)
    return Verdict("not yet", f"Not yet. {found}", number, attempt.mistake, attempt.share)


def replayable(exercise: Exercise) -> list[Sequence[Any]]:
    """All inputs that a finding may tell of."""
    return [*(case.inputs for case in exercise.cases), *exercise.show]


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
