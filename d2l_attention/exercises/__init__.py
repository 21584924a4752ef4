"""Exercises that say what is wrong: ``check``, ``hint``, ``solution``, ``progress``, ``watch``.

Each returns an object that a notebook shows when it stands on a cell's last line, like any
other value; ``print`` shows it elsewhere. So a result can also be kept and asked:
``check("4.1", answer).solved``.
"""

from dataclasses import replace
from typing import Any

from d2l_attention.exercises.engine import store
from d2l_attention.exercises.engine.display import Page, ProgressTable, Result, heading
from d2l_attention.exercises.engine.edits import renamed, source_of
from d2l_attention.exercises.engine.examine import Verdict
from d2l_attention.exercises.engine.registry import (
    UnknownExercise,
    all_chapters,
    find,
    is_private,
    private_folders,
)
from d2l_attention.exercises.engine.replay import remember
from d2l_attention.exercises.engine.sandbox import run

# An instructor's own chapters: see `use_private`. Here, so that new processes find them, too.
__path__ += private_folders()

__all__ = ["check", "hint", "progress", "solution"]  # and watch, which views documents

CANNOT_BE_READ = "The exercises cannot be read"

_hints_given: dict[str, int] = {}


def check(exercise_id: str, answer: Any = None) -> Result:
    """What is right or wrong with ``answer``: a value, or your function itself.

    Whatever your function does, this only ever answers: it never raises.
    """
    result = judge(exercise_id, answer)
    if (state := result.verdict.state) in ("solved", "not yet"):
        kept = "solved" if state == "solved" else "attempted"
        result = replace(result, note=store.record(exercise_id.strip(), kept))
    return result


def judge(exercise_id: str, answer: Any) -> Result:
    """As ``check``, for grading: it is no part of anybody's progress."""
    try:
        exercise = find(exercise_id)
    except UnknownExercise as unknown:
        return Result("Unknown exercise", Verdict("trouble", str(unknown)))
    except OSError as error:
        return Result("No exercise", Verdict("trouble", f"{CANNOT_BE_READ} ({error})."))
    verdict, printed = run(exercise, answer)
    verdict = replace(verdict, message=verdict.message + remember(exercise, answer, verdict))
    return Result(heading(exercise), verdict, printed)


def __getattr__(name: str):
    """``watch`` is a view, and imported when it is first asked for: that takes a second."""
    if name != "watch":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from d2l_attention.views import watch

    return watch


def hint(exercise_id: str) -> Page:
    """The next hint; each call gives one more, until the kernel restarts."""
    try:
        exercise = find(exercise_id)
    except UnknownExercise as unknown:
        return Page("Unknown exercise", str(unknown))
    number = min(_hints_given.get(exercise.id, 0) + 1, len(exercise.hints))
    _hints_given[exercise.id] = number
    text = exercise.hints[number - 1]
    if number == len(exercise.hints):
        text += f' That was the last hint; `solution("{exercise.id}")` shows the way.'
    return Page(f"{exercise.id} · Hint {number} of {len(exercise.hints)}", text)


def solution(exercise_id: str) -> Page:
    """The solution, and why it is right."""
    try:
        exercise = find(exercise_id)
    except UnknownExercise as unknown:
        return Page("Unknown exercise", str(unknown))
    if is_private(exercise):
        return Page(heading(exercise), "The solution of this exercise is your instructor's.")
    answer = exercise.solution
    if callable(answer):
        # Under the student's name, so that it works where the stub stood.
        code = renamed(source_of(answer), answer, exercise.stub.__name__).rstrip()
    else:
        code = f"answer = {answer!r}"
    return Page(heading(exercise), f"```python\n{code}\n```\n\n{exercise.explanation}")


def progress() -> ProgressTable:
    """What you have solved and tried so far, chapter by chapter.

    It depends on the student: in a notebook of the course its cell carries the tag
    ``nbval-ignore-output``.
    """
    states, note = store.load()
    try:
        return ProgressTable(all_chapters(), states, note)
    except OSError as error:
        return ProgressTable([], states, f"{CANNOT_BE_READ} ({error}).")
