"""Ready-made steps for a chapter's checks. A step says what is wrong, or None.

Values: ``number``, ``choice``. Functions: ``explains``, ``like``, ``agrees``, ``holds``,
``unlike``, on ``cases``, a list of inputs with the smallest first. Tests that the student
writes: ``passes_on``, ``fails_on``. Anything else is a function of one ``Attempt``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.compare import form_differs, value_differs
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.show import show, show_error

Cases = Sequence[tuple]


def number(
    expected: Any, *, tolerance: float = 0.005, mistakes: Mapping[Any, str] | None = None
) -> Step:
    """A number worked out by hand, or a list of them, within ``tolerance``.

    ``mistakes`` maps typical wrong numbers (lists as tuples) to what went wrong.
    """
    right = torch.as_tensor(expected, dtype=torch.float64)

    def step(attempt: Attempt) -> str | None:
        got = as_numbers(attempt.answer)
        if got is None:
            wanted = "a number, such as `0.5`" if right.ndim == 0 else "a list of numbers"
            return f"Give {wanted}; your answer is {show(attempt.answer)}."
        if got.numel() != right.numel():
            return f"Your answer holds {counted(got)}; it should hold {counted(right)}."
        got = got.reshape(right.shape)
        if close(got, right, tolerance):
            return None
        for typical, why in (mistakes or {}).items():
            if close(got, torch.as_tensor(typical, dtype=torch.float64), tolerance):
                return f"{show(attempt.answer)}: {why}"
        if close(got, 100 * right, 100 * tolerance):
            return "Your answer looks like a percentage: divide it by 100."
        return off_by(got, right, tolerance)

    return step


def off_by(got: Tensor, right: Tensor, tolerance: float) -> str:
    """Says where and in which direction, without giving the number away."""
    if close(got, right, 5 * tolerance):
        return f"{show(got.tolist())} is very close. Round at the very end, not on the way."
    far = ~torch.isclose(got, right, rtol=0, atol=tolerance)
    place = tuple(far.nonzero()[0].tolist())
    direction = "large" if got[place] > right[place] else "small"
    entry = f"Entry {list(place)}, " if place else ""
    return f"{entry}{show(got[place].item())} is too {direction}."


def counted(numbers: Tensor) -> str:
    return "one number" if numbers.numel() == 1 else f"{numbers.numel()} numbers"


def as_numbers(answer: Any) -> Tensor | None:
    if isinstance(answer, bool | str):
        return None
    try:
        got = torch.as_tensor(answer, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return got if got.isfinite().all() else None


def close(got: Tensor, right: Tensor, tolerance: float) -> bool:
    return got.shape == right.shape and torch.allclose(got, right, rtol=0, atol=tolerance)


def choice(right: Any, reasons: Mapping[Any, str]) -> Step:
    """One of several given answers; ``reasons`` says of each wrong one why it is wrong."""
    options = sorted([right, *reasons], key=str)

    def step(attempt: Attempt) -> str | None:
        answer = attempt.answer
        answer = answer.strip().lower() if isinstance(answer, str) else answer
        if isinstance(answer, Tensor) or answer not in options:
            return f"Choose one of {', '.join(map(repr, options))}; you gave {show(answer)}."
        return None if answer == right else f"{answer}: {reasons[answer]}"

    return step


def like(oracle: Callable, cases: Cases) -> Step:
    """The result has the type, shape, dtype and device of the oracle's."""

    def step(attempt: Attempt) -> str | None:
        return first(attempt, cases, lambda got, *inputs: form_differs(got, oracle(*inputs)))

    return step


def agrees(oracle: Callable, cases: Cases, *, tolerance: float = 1e-5) -> Step:
    """The result has the oracle's form and values."""

    def differs(got: Any, *inputs: Any) -> str | None:
        right = oracle(*inputs)
        return form_differs(got, right) or value_differs(got, right, tolerance)

    def step(attempt: Attempt) -> str | None:
        return first(attempt, cases, differs)

    return step


def holds(rule: Callable[..., str | None], cases: Cases) -> Step:
    """``rule(result, *inputs)`` finds nothing; it says what it found otherwise.

    A rule may take for granted what an earlier step has checked on the same cases.
    """

    def step(attempt: Attempt) -> str | None:
        return first(attempt, cases, rule)

    return step


def unlike(mistake: Callable, why: str, case: tuple) -> Step:
    """The result is not what ``mistake`` gives: for errors that no simpler rule shows."""

    def step(attempt: Attempt) -> str | None:
        def matches(got: Any, *inputs: Any) -> str | None:
            wrong = mistake(*inputs)
            differ = form_differs(got, wrong) or value_differs(got, wrong, 1e-5)
            return None if differ else why

        return first(attempt, [case], matches)

    return step


def explains(errors: Mapping[str, str], cases: Cases) -> Step:
    """Puts a reason before an error of the student's code, chosen by words of its message.

    Errors with other words are left to the steps behind, on the same cases.
    """

    def step(attempt: Attempt) -> str | None:
        for inputs in cases:
            try:
                attempt(*inputs)
            except Raised as failure:
                reasons = [why for words, why in errors.items() if words in str(failure.error)]
                if reasons:
                    return f"{reasons[0]} {failure}"
        return None

    return step


def first(attempt: Attempt, cases: Cases, rule: Callable[..., str | None]) -> str | None:
    """What ``rule`` finds in the first case in which it finds something, with that case."""
    for inputs in cases:
        if found := rule(attempt(*inputs), *inputs):
            return f"{found} Smallest case that shows it: {attempt.case(inputs)}."
    return None


def passes_on(right: Callable) -> Step:
    """The student's test accepts the right implementation."""

    def step(attempt: Attempt) -> str | None:
        try:
            returned = attempt(right)
        except Raised as failure:
            if isinstance(failure.error, AssertionError):
                return f"Your test fails on a right implementation. {failure}"
            raise
        if returned is not None:
            return (
                f"Your test returned {show(returned)}. A test speaks by failing: write "
                "`assert` and what must hold, and return nothing."
            )
        return None

    return step


def fails_on(
    broken: Callable, what: str, clue: Callable[[Callable, Attempt], str] | None = None
) -> Step:
    """The student's test fails, by an ``assert``, on an implementation that does ``what``.

    ``clue(broken, attempt)`` says to a test that passes what it overlooks.
    """

    def step(attempt: Attempt) -> str | None:
        try:
            attempt(broken)
        except Raised as failure:
            if isinstance(failure.error, AssertionError):
                return None
            return (
                f"On an implementation that {what} your test breaks off with "
                f"`{show_error(failure.error)}`; let an `assert` say what is wrong."
            )
        overlooked = "What would show it?" if clue is None else clue(broken, attempt)
        return f"Your test passes on an implementation that {what}. {overlooked}"

    return step
