"""The student's answer under observation, and how its errors are told."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.engine.show import show, show_case, show_error, student_line
from d2l_attention.exercises.exercise import Exercise
from d2l_attention.system.workers import Clock

SEED = 0
CALLER = __file__  # below this file's frames stand those of the student's code


class NotAttempted(Exception):
    """The answer turned out to be a blank when it ran."""


class Raised(Exception):
    """The student's code raised ``error``; the text explains it."""

    def __init__(self, error: BaseException, message: str):
        super().__init__(message)
        self.error = error


class Attempt:
    """The answer; calling it runs the student's function on copies of the inputs.

    A step sees no difference to the function itself, except that errors arrive as
    ``Raised`` with an explanation, and that changed inputs are noticed. ``answer`` is the
    bare answer, ``names`` are what its inputs are called, and ``clock`` is what counts its time.
    Steps that look at a value need no ``exercise``.
    """

    def __init__(self, answer: Any, exercise: Exercise | None = None, clock: Clock | None = None):
        self.answer = answer
        self.exercise = exercise
        self.clock = clock
        self.names = exercise.input_names if exercise else ()
        self.changed: str | None = None
        self.shown: Sequence[Any] | None = None  # the case that the finding tells of
        self.mistake: str | None = None  # its short name, where the finding has one
        self.share = 0.0  # how much of the exercise is right all the same
        self.away: torch.device | None = None  # where a result was, if not on the CPU
        self._run = exercise.run if exercise else None
        self._first: tuple[tuple, dict, Any] | None = None

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        given, given_named = copied(inputs), copied(named)
        # A function that draws random numbers draws the same ones in every call, so what
        # still differs between two calls is memory.
        torch.default_generator.manual_seed(SEED)
        output = self._guarded(lambda: self._home(self.answer(*given, **given_named)), inputs)
        if output is ...:
            raise NotAttempted
        self._watch((inputs, named), (given, given_named))
        if self._first is None:
            self._first = (copied(inputs), copied(named), copied(output))
        return output

    def play(self, inputs: Sequence[Any]) -> Any:
        """What comes out for a case: ``run(function, *inputs)``, or the function's result."""
        if self._run is None:
            return self(*inputs)
        return self._guarded(lambda: self._home(self._run(self, *inputs)), inputs)

    def error(self, *inputs: Any) -> BaseException | None:
        """The error that ends the student's code on these inputs, if one does."""
        try:
            self(*inputs)
        except Raised as failure:
            return failure.error
        return None

    def as_code(self, inputs: Sequence[Any]) -> str:
        """A case's inputs as the student should read them, in code: ``scores = [[0, 1]]``."""
        return f"`{show_case(self.names, inputs)}`"

    def memory(self) -> str | None:
        """What to say if the first call, made again, now gives something else."""
        if self._first is None:
            return None
        inputs, named, before = self._first
        try:
            now = self(*inputs, **named)
        except Raised as failure:
            outcome = f"raises `{show_error(failure.error)}`"
        else:
            if unchanged(before, now):
                return None
            outcome = f"gives {show(now)}"
        return (
            f"The same input gave {show(before)} at first and now {outcome}. Something outlives "
            "the call: a global variable, a list as a default value, an attribute? "
            f"The input: {self.as_code(inputs)}."
        )

    def _guarded(self, work: Callable[[], Any], inputs: Sequence[Any]) -> Any:
        try:
            return work()
        except (Raised, NotAttempted):
            raise
        except NotImplementedError as error:
            if error.args:
                raise Raised(error, self._explained(error, inputs)) from error
            raise NotAttempted from error
        except BaseException as error:  # SystemExit as well
            raise Raised(error, self._explained(error, inputs)) from error

    def _home(self, value: Any) -> Any:
        """A result with its tensors on the CPU, where the inputs are: on a GPU it is as right."""
        if isinstance(value, Tensor) and value.device.type not in ("cpu", "meta"):
            self.away = value.device
            return value.cpu()
        return each(self._home, value)

    def _watch(self, inputs: tuple[tuple, dict], given: tuple[tuple, dict]) -> None:
        """Note what a call has changed: ``inputs`` as they were, and what was ``given``."""
        if self.changed is not None:
            return
        (before, before_named), (now, now_named) = inputs, given
        unnamed = (f"input {number}" for number in range(len(self.names) + 1, len(before) + 1))
        names = *self.names[: len(before)], *unnamed, *before_named
        values = (*before, *before_named.values()), (*now, *now_named.values())
        for name, before, now in zip(names, *values, strict=True):
            if not unchanged(before, now):
                self.changed = (
                    f"Your function changes its input: `{name}` was {show(before)} before the call "
                    f"and is {show(now)} after it. Whoever called you still needs it; work on a "
                    "new tensor (`masked_fill` instead of `masked_fill_`, no `x[...] = ...`)."
                )
                return

    def _explained(self, error: BaseException, inputs: Sequence[Any]) -> str:
        what = explained(error, student_line(error, CALLER))
        return f"{what} It happened for {self.as_code(inputs)}." if inputs else what


def explained(error: BaseException, line: str | None) -> str:
    """One or two sentences on an error of the student's code."""
    where = f" in {line}" if line else ""
    said = f"`{show_error(error)}`"
    if isinstance(error, SystemExit):
        return f"Your code ends Python{where} (`exit`, `quit` or `sys.exit`). Return a value."
    if isinstance(error, RecursionError):
        return f"Your function calls itself without end{where}: a case that stops is missing."
    if isinstance(error, MemoryError) or "allocate memory" in said:
        return f"Your code asks for more memory than a check may use{where}: {said}."
    if isinstance(error, NameError):
        return f"Your code raised {said}{where}. Has the cell that defines it been run?"
    if isinstance(error, TypeError) and not line and "argument" in said:
        return f"Your function could not be called: {said}."
    return f"Your code raised {said}{where}."


def copied(value: Any) -> Any:
    """A copy that can be changed without changing ``value``; gradients still flow through."""
    return value.clone() if isinstance(value, Tensor) else each(copied, value)


def each(function: Callable[[Any], Any], value: Any) -> Any:
    """The function's results for the entries of a list, tuple or dict; anything else as it is."""
    if type(value) in (list, tuple):
        return type(value)(map(function, value))
    if type(value) is dict:
        return {key: function(entry) for key, entry in value.items()}
    return value


def tensor_unchanged(before: Tensor, now: Tensor) -> bool:
    if before.is_meta:
        return True
    try:
        if (before.shape, before.dtype, before.device) != (now.shape, now.dtype, now.device):
            return False
        return bool(((before == now) | ((before != before) & (now != now))).all())
    except (RuntimeError, NotImplementedError):  # nested or sparse
        return True


def unchanged(before: Any, now: Any) -> bool:
    """Equal entry for entry, NaN to NaN. What cannot be compared counts as equal."""
    if isinstance(before, Tensor) and isinstance(now, Tensor):
        return tensor_unchanged(before, now)
    if type(before) is not type(now):
        return False
    if isinstance(before, list | tuple):
        return len(before) == len(now) and all(map(unchanged, before, now))
    if isinstance(before, dict):
        return before.keys() == now.keys() and all(unchanged(before[k], now[k]) for k in before)
    if isinstance(before, int | float | complex | str | None):
        return before == now or before != before
    return True
