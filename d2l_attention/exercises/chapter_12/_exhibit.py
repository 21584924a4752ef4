"""An exhibit of the museum: a right function and the edit that breaks it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from d2l_attention.exercises.authoring import (
    Blind,
    Exercise,
    Mistake,
    Suspect,
    catches,
    with_mistakes,
)


@dataclass(frozen=True)
class Exhibit:
    """``right`` and ``broken`` differ by one edit."""

    right: Callable
    broken: Callable


MUSEUM: dict[str, Exhibit] = {}


def fails(*_: Any, **__: Any) -> None:
    """An implementation that no test accepts, where a constant would pass as right."""
    raise AssertionError


def exhibit(
    *,
    id: str,
    right: Callable,
    bug: Mapping[str, str],
    what: str,
    also_right: Sequence[Callable] = (),
    blind: Blind = (),
    more: Sequence[Suspect] = (),
    name: str | None = None,
    test_options: Mapping[str, Any] | None = None,
    **exercise: Any,
) -> Exercise:
    """The exercise 'write the test that catches it' on an exhibit, which joins ``MUSEUM``.

    ``right`` is plain code, and ``bug`` the edit of its source that breaks it; ``what`` goes on
    after 'an implementation that'. ``also_right`` are right ones in other words, where a test
    could ask for more than the task says, such as the same dropout for the same seed. ``blind``
    is as in ``Suspect``; ``more`` are other broken ones that the test has to catch as well, and
    ``test_options`` go to ``catches``. ``name`` is what the test calls ``right``, if that is a
    class. All else is ``Exercise``'s.
    """
    name = name or right.__name__
    broken = with_mistakes(right, Mistake(bug, what), name=right.__name__)
    MUSEUM[id] = Exhibit(right, broken)
    return Exercise(
        id=id,
        steps=[
            catches(
                right,
                Suspect(bug, what, blind),
                *more,
                name=name,
                also_right=also_right,
                **(test_options or {}),
            )
        ],
        **exercise,
    )
