"""What exercises of several chapters use to make and to judge their cases."""

from collections.abc import Callable, Mapping, Sequence
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


def none_of(mistakes: Mapping[Callable, str], case: tuple) -> Step:
    """Like ``unlike`` for each of ``mistakes``, with a single call of the student's function."""

    def matches(got: Any, *inputs: Any) -> str | None:
        for mistake, why in mistakes.items():
            if alike(got, mistake(*inputs)):
                return why
        return None

    return holds(matches, [case])
