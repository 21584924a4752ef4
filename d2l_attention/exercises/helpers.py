"""What exercises of several chapters use to make and to judge their cases."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.compare import form_differs, value_differs
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.steps import holds


def normal(seed: int, *shapes: Sequence[int]) -> tuple[Tensor, ...]:
    """Tensors of these shapes, the same at each call."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def alike(got: Any, right: Any) -> bool:
    return not (form_differs(got, right) or value_differs(got, right, 1e-5))


def because(why: str, check: Step) -> Step:
    """``why`` before what ``check`` finds or what the student's code raises in it.

    For cases that differ in one thing from earlier ones, which went well.
    """

    def step(attempt: Attempt) -> str | None:
        try:
            found = check(attempt)
        except Raised as failure:
            return f"{why} {failure}"
        return f"{why} {found}" if found else None

    return step


def outcome(attempt: Attempt, *inputs: Any) -> BaseException | None:
    """The error that ends the student's code on these inputs, if one does."""
    try:
        attempt(*inputs)
    except Raised as failure:
        return failure.error
    return None


def calls_it(name: str, make_spy: Callable[[], Any]) -> Step:
    """For exercises that ask for a test: it must call what it tests, and speak by failing.

    A spy is a right implementation that keeps a list of its ``calls``.
    """

    def step(attempt: Attempt) -> str | None:
        spy = make_spy()
        try:
            returned = attempt(spy)
        except Raised:
            return None  # the next steps tell
        if isinstance(returned, bool):
            return (
                f"Your test returned {returned}, and nobody looks at that. A test speaks by "
                "failing: `assert` what must hold, and return nothing."
            )
        if spy.calls:
            return None
        return (
            f"Your test passes without ever calling `{name}`, so it would accept anything. Call it "
            "with inputs of your choice and look at what comes back."
        )

    return step


def one_by_one(step: Callable, sentence: Any) -> Iterator[tuple[tuple, Any]]:
    """Inputs and result of each step of a decoder; each gets the state that the last returned.

    ``sentence`` has a length, an ``empty()`` state and the ``inputs(t, state)`` of a step.
    """
    state = sentence.empty()
    for t in range(len(sentence)):
        inputs = sentence.inputs(t, state)
        result = step(*inputs)
        yield inputs, result
        state = result[1]


def row(*tokens: list[float]) -> Tensor:
    """Tokens as one sequence of one head: (1, 1, n, D)."""
    return torch.tensor([[list(tokens)]], dtype=torch.float32)


def none_of(mistakes: Mapping[Callable, str], case: tuple) -> Step:
    """Like ``unlike`` for each of ``mistakes``, with a single call of the student's function."""

    def matches(got: Any, *inputs: Any) -> str | None:
        for mistake, why in mistakes.items():
            if alike(got, mistake(*inputs)):
                return why
        return None

    return holds(matches, [case])
