"""Whether an exercise's mistakes are what their author meant."""

import builtins
import dis
import inspect
from collections.abc import Callable

from d2l_attention.exercises.engine.edits import AuthorError, wrong_function
from d2l_attention.exercises.engine.ladder import matters
from d2l_attention.exercises.exercise import Exercise


def unknown_name(function: Callable) -> str | None:
    """A global name in the function's code that neither its file nor Python knows."""
    codes = [getattr(function, "__code__", None)]
    for code in filter(None, codes):
        for instruction in dis.get_instructions(code):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                name = instruction.argval
                if name not in function.__globals__ and not hasattr(builtins, name):
                    return name
        codes += [inner for inner in code.co_consts if inspect.iscode(inner)]
    return None


def verified(exercise: Exercise) -> bool:
    """Whether each mistake can be made and changes something, for the tests.

    Errors: ``AuthorError`` that names the exercise and the edit.
    """
    for mistake in exercise.mistakes:
        try:
            wrong = wrong_function(exercise.solution, mistake)
        except AuthorError as error:
            raise AuthorError(f"{exercise.id}: {error}") from error
        if unknown := unknown_name(wrong):
            raise AuthorError(f"{exercise.id}: {mistake.wrong} uses an unknown name, `{unknown}`")
        if not any(matters(exercise, wrong, case.inputs) for case in exercise.cases):
            edit = getattr(mistake.wrong, "__name__", mistake.wrong)
            raise AuthorError(f"{exercise.id}: {edit} changes nothing on any case")
    return True
