"""What an exercise is: plain data that a chapter's file declares and the engine reads."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from d2l_attention.exercises.attempt import Attempt

DIFFICULTIES = ("easy", "medium", "hard")

State = Literal["solved", "not yet", "not attempted", "trouble"]

# One step of a check: it looks at the student's answer and says what is wrong, or nothing.
Step = Callable[["Attempt"], str | None]


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that students really give, and words of the diagnosis it must get."""

    answer: Any
    diagnosis: str


@dataclass(frozen=True)
class Verdict:
    """What a check found: ``state`` and a sentence for the student."""

    state: State
    message: str


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise, complete: what is asked, what helps, what is right, what goes wrong.

    ``stub`` is what the notebook hands out and ``solution`` what it should become: a
    function, a class or a value. ``explanation`` says why the solution is right and stands
    below it. ``steps`` run in order, the most likely mistake first; the first that finds
    something decides. ``wrong`` holds answers that the tests run through the check.
    ``seconds`` is how long a check may take.

    Errors: ``ValueError`` that names the field.
    """

    id: str
    title: str
    task: str
    difficulty: Literal["easy", "medium", "hard"]
    minutes: int
    hints: Sequence[str]
    stub: Any
    solution: Any
    explanation: str
    steps: Sequence[Step]
    wrong: Sequence[Wrong]
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+\.\d+", self.id):
            raise ValueError(f"id must be 'chapter.number', such as '4.1', got {self.id!r}")
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"difficulty must be one of {DIFFICULTIES}, got {self.difficulty!r}")
        if self.minutes < 1:
            raise ValueError(f"minutes must be 1 or more, got {self.minutes}")
        if not 1 <= len(self.hints) <= 3:
            raise ValueError(f"hints must be 1 to 3 sentences, got {len(self.hints)}")
        if not self.steps:
            raise ValueError("steps must hold at least one step, got none")

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the solution's inputs, for showing a case; none for a value."""
        if not callable(self.solution):
            return ()
        return tuple(inspect.signature(self.solution).parameters)


def sort_key(exercise_id: str) -> tuple[int, ...]:
    """Puts 4.10 behind 4.9."""
    return tuple(int(part) for part in exercise_id.split("."))
