"""Runs a check in a worker: another process, which can be stopped whatever the answer does."""

import signal
import sys
from contextlib import suppress
from typing import Any

from d2l_attention.exercises.engine import workers
from d2l_attention.exercises.engine.attempt import CALLER
from d2l_attention.exercises.engine.examine import NOT_ATTEMPTED, Verdict, examine
from d2l_attention.exercises.engine.printing import printing_to
from d2l_attention.exercises.engine.show import last_line, shortened
from d2l_attention.exercises.engine.stubs import is_stub
from d2l_attention.exercises.exercise import Exercise
from d2l_attention.system.workers import CannotTravel, Gone, limit_memory, packed

PATIENCE = 120.0  # seconds on top of the student's: a slow start, our own work
MEMORY = 2 * 1024**3  # bytes that an answer may use


def run(exercise: Exercise, answer: Any) -> tuple[Verdict, str]:
    """The verdict and what the answer printed."""
    with suppress(Exception):  # an odd answer: the worker will say what it is
        if is_stub(answer, exercise.stub):
            return NOT_ATTEMPTED, ""
    printed: list[str] = []
    try:
        work = packed(examined, exercise, answer)
        with workers.worker() as worker:
            worker.give(work)
            verdict = worker.result(exercise.seconds + PATIENCE, MEMORY, printed.append)
    except CannotTravel as error:
        verdict = Verdict(
            "trouble",
            "A check runs in a process of its own, and your answer cannot be sent there "
            f"(`{shortened(str(error))}`). Files, generators and threads cannot be sent: make them "
            "inside your function.",
        )
    except Gone as gone:
        verdict = without_verdict(exercise, gone)
    except KeyboardInterrupt:
        verdict = Verdict("trouble", "You stopped the check.")
    except OSError as error:
        verdict = Verdict("trouble", f"No process can be started for the check ({error}).")
    except RuntimeError as error:  # it could not be unpacked there
        verdict = Verdict(
            "trouble",
            f"The check cannot make sense of your answer (`{shortened(str(error))}`). If you think "
            "that it is right, the check is at fault: please report it.",
        )
    return verdict, "".join(printed)


def examined(exercise: Exercise, answer: Any) -> Verdict:
    """``examine`` within limits, in the worker."""
    limit_memory(MEMORY)
    with printing_to(sys.stdout.write):
        return examine(exercise, answer, exercise.seconds)


def without_verdict(exercise: Exercise, gone: Gone) -> Verdict:
    """The verdict on an answer that ended its process, or had to be ended with it."""
    if gone.why in ("late", "silent"):
        line = last_line(gone.frames, CALLER)
        where = f" It was in {line}." if line else ""
        found = (
            f"Your code was still running after {exercise.seconds:g} seconds and was stopped."
            f"{where} Look for a loop that never ends, for one that a tensor operation can "
            "replace, or for an operation on far more numbers than you think."
        )
    elif gone.why == "memory":
        found = "Your code asks for more memory than a check may use."
    elif gone.exit_code is not None and gone.exit_code < 0:
        found = (
            f"Your code brought Python itself down ({signal.Signals(-gone.exit_code).name}). "
            "Endless recursion and far too much memory do that."
        )
    else:
        found = "Your code ended Python itself (`os._exit`?). Return a value instead."
    return Verdict("not yet", f"Not yet. {found}")
