"""Runs an exercise's steps on an answer, here and now. ``sandbox.py`` decides where."""

import inspect
from typing import Any

import torch

from d2l_attention.exercises.attempt import CALLER, Attempt, NotAttempted, Raised
from d2l_attention.exercises.exercise import Exercise, Verdict
from d2l_attention.exercises.limits import TimeLimit
from d2l_attention.exercises.show import show_error, student_line

NOT_ATTEMPTED = Verdict("not attempted", "Not attempted yet.")


def examine(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on ``answer``; whatever it does, no exception comes out."""
    limit = TimeLimit(exercise.seconds)
    verdict, stopped_at = NOT_ATTEMPTED, None
    try:
        with limit, torch.random.fork_rng(devices=[]), torch.device("cpu"):
            verdict = run_steps(exercise, answer)
    except KeyboardInterrupt as stop:
        stopped_at = stop
    # Also when the answer caught the stop itself and went on.
    if limit.passed:
        return out_of_time(exercise, stopped_at)
    if stopped_at is not None:
        return Verdict("trouble", "You stopped the check.")
    return verdict


def run_steps(exercise: Exercise, answer: Any) -> Verdict:
    attempt = Attempt(answer, exercise.input_names)
    try:
        found = wrong_kind(exercise, answer) or first_finding(exercise, attempt)
    except NotAttempted:
        return NOT_ATTEMPTED
    except Raised as failure:
        found = str(failure)
    except Exception as error:
        # A step that did not expect what the answer gave it.
        return Verdict(
            "trouble",
            f"The check cannot make sense of your answer (`{show_error(error)}`). If you think "
            "that it is right, the check is at fault: please report it.",
        )
    if found is None:
        return Verdict("solved", f"Solved. {exercise.explanation}")
    return Verdict("not yet", f"Not yet. {found}")


def first_finding(exercise: Exercise, attempt: Attempt) -> str | None:
    found = next(filter(None, (step(attempt) for step in exercise.steps)), None)
    # Memory first: where a function remembers, what the steps saw misleads.
    return attempt.memory() or found or attempt.changed


def wrong_kind(exercise: Exercise, answer: Any) -> str | None:
    """A function where a value is asked for, or the other way round."""
    if inspect.isclass(exercise.solution) and not inspect.isclass(answer):
        return f"`check` needs your class itself, without brackets; it got {a(answer)}."
    if callable(exercise.solution) and not callable(answer):
        return (
            "`check` needs your function itself, not its result: write its name without "
            f"brackets. It got {a(answer)}."
        )
    if not callable(exercise.solution) and inspect.isroutine(answer):
        return "This exercise asks for a value, and your answer is a function: call it first."
    return None


def a(answer: Any) -> str:
    return f"a {type(answer).__name__}"


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
