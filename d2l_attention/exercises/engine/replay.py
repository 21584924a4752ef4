"""Leaves the case that a check has found where ``watch("6.4")`` looks for it."""

from typing import Any

from d2l_attention.exercises.engine.examine import Verdict, neutral, replayable
from d2l_attention.exercises.engine.ladder import outcome
from d2l_attention.exercises.engine.stubs import is_stub
from d2l_attention.exercises.exercise import Exercise
from d2l_attention.system.workers import as_written
from d2l_attention.views.replays import Replay, replays


def remember(exercise: Exercise, answer: Any, verdict: Verdict) -> str:
    """The words to end a check's message with; empty where there is nothing to step through.

    To find the bug in code that was handed out is the exercise: no line is pointed at there.
    """
    replays.pop(exercise.id, None)
    if verdict.case_number is None or not is_stub(exercise.stub, None):
        return ""
    inputs = replayable(exercise)[verdict.case_number]

    def run(function: Any) -> Any:
        with neutral():
            found = outcome(exercise, function, inputs)
        if found.error is not None:
            raise found.error
        return found.result

    # The answer is not looked at before the student asks for it.
    replays[exercise.id] = lambda: Replay(as_written(answer), exercise.solution, run)
    return (
        " To step through your answer on that case: `from d2l_attention.exercises import watch`, "
        f'then `watch("{exercise.id}")`'
    )
