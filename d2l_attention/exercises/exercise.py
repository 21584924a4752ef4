"""What an exercise is: plain data that one file declares and the engine reads."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

DIFFICULTIES = ("easy", "medium", "hard")

# Looks at an ``engine.attempt.Attempt``, the student's answer, and says what is wrong, or nothing.
Step = Callable[[Any], str | None]
# ``rule(result, *inputs)`` says what is wrong with a result, or nothing.
Rule = Callable[..., str | None]


@dataclass(frozen=True)
class Case:
    """Inputs on which the student's function is compared with the solution.

    ``because`` is said before whatever first shows on this case. ``errors`` and ``rules`` hold
    for this case and come before those of the exercise. ``shown`` tells the case in words where
    its inputs, written out, would not.

    Errors: ``TypeError`` for inputs that are no tuple.
    """

    inputs: tuple
    because: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    tolerance: float | None = None
    shown: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.inputs, tuple):
            kind = type(self.inputs).__name__
            raise TypeError(f"inputs must be a tuple, such as (scores,) for one, got {kind}")


@dataclass(frozen=True)
class Mistake:
    """What students write instead of a piece of the solution, and the sentence to say.

    ``wrong`` maps pieces of the solution's source to what stands there instead; each piece
    occurs exactly once, or ``everywhere``. For the few mistakes that are no edit of the
    solution ``wrong`` is a function (a class, for classes). ``name`` is what a class report calls
    it; without one it is told by its edit, so that a sentence may be reworded.
    """

    wrong: Mapping[str, str] | Callable
    why: str
    everywhere: bool = False
    name: str = ""

    @property
    def short_name(self) -> str:
        if self.name or callable(self.wrong):
            return self.name or self.wrong.__name__.replace("_", " ")
        return "; ".join(
            f"{one_line(instead)} instead of {one_line(piece)}"
            if instead.strip()
            else f"without {one_line(piece)}"
            for piece, instead in self.wrong.items()
            if not piece.startswith("#")  # a comment of the solution that would give it away
        )


def one_line(code: str) -> str:
    return f"`{' '.join(code.split())}`"


def instead_of(piece: str, wrong: Mapping[str, str]) -> list[Mistake]:
    """Several mistakes in one piece of the solution: what stands there instead -> the sentence."""
    return [Mistake({piece: instead}, why) for instead, why in wrong.items()]


def heading(id: str, title: str, difficulty: str, *, minutes: int) -> dict[str, Any]:
    """What the page says above the task, for ``Exercise(**heading(...), ...)``."""
    return {"id": id, "title": title, "difficulty": difficulty, "minutes": minutes}


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise, complete. The task itself stands in the notebook and nowhere else.

    ``stub`` is what the notebook hands out (none for a value), ``solution`` what it should become:
    a function, a class or a value. ``explanation`` says why the solution is right. A check goes up
    this ladder, the first finding decides:

    1. ``before``: steps for what has to be said first.
    2. The ``cases`` in order, smallest and most telling first. On each: an error, explained by
       ``errors`` (words of the message -> sentence); a named mistake; the form, explained by
       ``shapes`` (wrong shape -> sentence, or a rule, for a result that has another form than
       the solution's); ``rules``, which explain wrong values; the first entry that is off.
    3. ``steps``: what else is asked (``gradients_flow()``), and all of an exercise by hand.

    ``run(function, *inputs)`` says how an answer is used on a case where it is more than
    ``function(*inputs)``: a loop over steps, a class that is made and called, shares that are
    added up. ``show`` holds small inputs only to show a named mistake on. ``tolerance`` is
    relative to the largest number of the result; without it it follows from the dtype and the
    size of the inputs. ``pairs`` looks for two mistakes at once on the first case.
    ``seconds`` is how long a check may take. ``section`` is the chapter's heading that teaches what
    the exercise asks for: a class report says what to teach again.

    Errors: ``ValueError`` that names exercise and field.
    """

    id: str
    title: str
    difficulty: Literal["easy", "medium", "hard"]
    minutes: int
    solution: Any
    explanation: str
    hints: Sequence[str]
    stub: Any = None
    cases: Sequence[Case] = ()
    mistakes: Sequence[Mistake] = ()
    shapes: Mapping[tuple, str] | Rule | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    before: Sequence[Step] = ()
    steps: Sequence[Step] = ()
    run: Callable[..., Any] | None = None
    show: Sequence[tuple] = ()
    tolerance: float | None = None
    pairs: bool = True
    seconds: float = 10.0
    section: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+\.\d+", self.id):
            raise ValueError(f"id must be 'chapter.number', such as '4.1', got {self.id!r}")
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(
                f"{self.id}: difficulty must be one of {DIFFICULTIES}, got {self.difficulty!r}"
            )
        if self.minutes < 1:
            raise ValueError(f"{self.id}: minutes must be 1 or more, got {self.minutes}")
        if not 1 <= len(self.hints) <= 3:
            raise ValueError(f"{self.id}: hints must be 1 to 3 sentences, got {len(self.hints)}")
        if not (self.cases or self.steps or self.before):
            raise ValueError(f"{self.id}: cases or steps must hold at least one, got none")
        if (self.mistakes or self.cases) and not callable(self.solution):
            raise ValueError(f"{self.id}: cases and mistakes are for functions; use `steps`")

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of a case's inputs, for showing it; none for a value."""
        if not callable(self.solution):
            return ()
        names = tuple(inspect.signature(self.run or self.solution).parameters)
        return names[1:] if self.run else names
