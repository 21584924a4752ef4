"""The step for a test that the student writes: ``catches`` of ``Suspect``."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from d2l_attention.exercises.authoring.spy import Spy, replay
from d2l_attention.exercises.authoring.stand_ins import (
    derived,
    only_one_zero,
    other_last_digits,
    zeros_like,
)
from d2l_attention.exercises.engine.attempt import Attempt, Raised
from d2l_attention.exercises.engine.compare import alike
from d2l_attention.exercises.engine.edits import wrong_function
from d2l_attention.exercises.engine.show import show, show_error
from d2l_attention.exercises.exercise import Mistake, Step

Blind = Sequence[tuple[Callable[..., Any], str]]


@dataclass(frozen=True)
class Suspect:
    """A broken implementation that the student's test must fail on.

    ``wrong`` is an edit of the right implementation, as in ``Mistake``, or an implementation
    itself. ``what`` goes on after 'on an implementation that'. ``blind`` is a pair, a predicate
    and a sentence: where the predicate holds in every call that the test made, the test could not
    have seen this bug, and the sentence says so. The predicate takes some of a call's arguments, by
    their names; ``training`` of a module; and ``first``, the first call: ``first["queries"]``.
    """

    wrong: Mapping[str, str] | Callable
    what: str
    blind: Blind = ()
    everywhere: bool = False


def catches(
    right: Callable,
    *suspects: Suspect,
    name: str,
    blind: Blind = (),
    also_right: Sequence[Callable] = (),
    beliefs: Sequence[Suspect] = (),
    nothing: Callable | None = None,
    little: Callable | None = None,
    little_why: str = "It even passes where all outputs are 0: it looks at the shape alone, or at "
    "too little. Work out what should come back, and compare.",
    notice: str = "Work out the whole output in another way, and compare.",
    rounding: str = "Compute in float64, or with smaller numbers.",
    fresh: bool = False,
) -> Step:
    """The student's test passes on ``right`` and fails on each suspect, by an ``assert``.

    ``name`` is what the test calls the implementation. ``blind`` holds for all suspects,
    ``beliefs`` are wrong ones that a test may expect and need not catch. ``nothing`` is an
    implementation that only a test that looks at nothing accepts, ``little`` one for a test that
    looks at too little; without them zeros are given back. ``fresh``: ``right``, suspects and
    others are makers of implementations, one for each run.
    """
    original, called = right, None if fresh else name  # as its callers know it
    if isinstance(right, FunctionType):
        right = wrong_function(right, Mistake({}, ""), name=called)
    make = (lambda given: given()) if fresh else (lambda given: given)
    nothing = nothing or ((lambda: only_one_zero) if fresh else only_one_zero)
    little = little or derived(zeros_like, right, fresh)
    nudged = derived(other_last_digits, right, fresh)
    broken = {
        wrong_function(original, Mistake(each.wrong, each.what, each.everywhere), name=called): each
        for each in (*suspects, *beliefs)
    }
    to_catch = [wrong for wrong, each in broken.items() if each in suspects]

    def ending(attempt: Attempt, implementation: Callable) -> BaseException | None:
        return attempt.error(make(implementation))

    def step(attempt: Attempt) -> str | None:
        return calls(attempt) or wrong_belief(attempt) or accepts(attempt) or rejects(attempt)

    def calls(attempt: Attempt) -> str | None:
        spy = Spy(make(right))
        try:
            returned = attempt(spy)
        except Raised:
            if ending(attempt, right) is None:
                return (
                    "Your test passes on one right implementation and fails on another. Look at "
                    "what an implementation returns, not at which one it is."
                )
            return None  # the next ones tell
        if returned is not None:
            return (
                f"Your test returned {show(returned)}, and nobody looks at that. A test speaks by "
                "failing: `assert` what must hold, and return nothing."
            )
        if spy.calls:
            return None
        return (
            f"Your test passes without ever calling `{name}`, so it would accept anything. Call it "
            "with inputs of your choice and look at what comes back."
        )

    def wrong_belief(attempt: Attempt) -> str | None:
        error = ending(attempt, right)
        if error is None and isinstance(ending(attempt, nudged), AssertionError):
            return (
                "Your test wants every digit to agree: it fails on a right implementation that "
                "sums in another order, so that the last digits differ. "
                "`torch.testing.assert_close` allows for that."
            )
        if not isinstance(error, AssertionError):
            return None
        for wrong, suspect in broken.items():
            if ending(attempt, wrong) is None:
                return (
                    f"Your test fails on the right implementation and passes on one that "
                    f"{suspect.what}: the mistake is in what you expect."
                )
        found = re.search(r"Greatest absolute difference: (\S+)", str(error))
        if found and float(found[1]) < 1e-2:
            return (
                f"Your test fails on a right implementation by no more than {found[1]}: rounding. "
                f"{rounding}"
            )
        return None

    def accepts(attempt: Attempt) -> str | None:
        for implementation in (right, *also_right):
            try:
                attempt(make(implementation))
            except Raised as failure:
                if isinstance(failure.error, AssertionError):
                    return f"Your test fails on a right implementation. {failure}"
                reasons = attempt.exercise.errors.items()
                found = (why for words, why in reasons if words in str(failure.error))
                return f"{next(found, '')} {failure}".strip()
        return None

    def rejects(attempt: Attempt) -> str | None:
        for wrong in to_catch:
            suspect, error = broken[wrong], ending(attempt, wrong)
            if isinstance(error, AssertionError):
                continue
            if error is not None:
                return (
                    f"On an implementation that {suspect.what} your test breaks off with "
                    f"`{show_error(error)}`; let an `assert` say what is wrong."
                )
            passes = f"Your test passes on an implementation that {suspect.what}."
            why = clue(attempt, wrong, suspect)
            attempt.mistake = f"passes where it {suspect.what}"
            caught = sum(isinstance(ending(attempt, each), AssertionError) for each in to_catch)
            attempt.share = caught / len(to_catch)
            count = f" It catches {caught} of {len(to_catch)} bugs." if caught else ""
            return f"{passes} {why}{count}"
        return None

    def clue(attempt: Attempt, wrong: Callable, suspect: Suspect) -> str:
        if ending(attempt, nothing) is None:
            return (
                "It passes whatever comes back. Is there an `assert` that nothing catches, and "
                "does it compare with something other than the implementation itself?"
            )
        if ending(attempt, little) is None:
            return little_why
        spy = Spy(make(right))
        attempt(spy)
        for rule, why in (*blind, *suspect.blind):
            if spy.always(rule):
                return why
        if all(alike(replay(make(wrong), call), replay(make(right), call)) for call in spy.calls):
            return (
                "In all your calls it gives what a right one gives. Are your inputs, or parts of "
                "them (tokens, columns of a matrix), all alike? Random numbers are not."
            )
        return (
            "In your calls its output differs from the right one, and your test does not notice. "
            f"{notice}"
        )

    return step
