"""An exhibit of the museum: a right function, the edit that breaks it, and where it was seen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from d2l_attention.exercises.authoring import Exercise, Suspect, catches
from d2l_attention.exercises.authoring.exercise import Mistake
from d2l_attention.exercises.engine.edits import wrong_function


@dataclass(frozen=True)
class Exhibit:
    """``right`` and ``broken`` differ by one edit; ``sources`` are the threads that it is
    modelled on."""

    right: Callable
    broken: Callable
    what: str
    sources: Sequence[str]


MUSEUM: dict[str, Exhibit] = {}


def fails(*_: Any) -> None:
    """An implementation that no test accepts, where a constant would pass as right."""
    raise AssertionError


def exhibit(
    *,
    id: str,
    right: Callable,
    bug: Mapping[str, str],
    what: str,
    sources: Sequence[str],
    also_right: Sequence[Callable] = (),
    blind: Mapping[str, str] | None = None,
    more: Sequence[Suspect] = (),
    everywhere: bool = False,
    crashes: bool = False,
    name: str | None = None,
    test_options: Mapping[str, Any] | None = None,
    **exercise: Any,
) -> Exercise:
    """The exercise 'write the test that catches it' on an exhibit, which joins ``MUSEUM``.

    ``right`` is plain code, and ``bug`` the edit of its source that breaks it; ``what`` goes on
    after 'an implementation that'. ``also_right`` are right ones in other words, where a test
    could ask for more than the task says, such as the same dropout for the same seed. ``blind``
    maps what may be true of all calls of a test to the sentence for it, as in ``Suspect``, and
    ``crashes``, too; ``more`` are other broken ones that the test has to catch as well, and
    ``test_options`` go to ``catches``. ``name`` is what the test calls ``right``, if that is a
    class. All else is ``Exercise``'s.
    """
    name = name or right.__name__
    broken = wrong_function(right, Mistake(bug, what, everywhere), name=right.__name__)
    MUSEUM[id] = Exhibit(right, broken, what, sources)
    return Exercise(
        id=id,
        steps=[
            catches(
                right,
                Suspect(bug, what, blind or {}, everywhere, crashes),
                *more,
                name=name,
                also_right=also_right,
                **(test_options or {}),
            )
        ],
        **exercise,
    )
