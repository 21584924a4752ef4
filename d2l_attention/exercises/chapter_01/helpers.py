"""What several exercises of this chapter use to make and to judge their cases."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.compare import form_differs, value_differs
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.rules import rows_sum_to_one
from d2l_attention.exercises.steps import holds


def normal(seed: int, *shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


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


def none_of(mistakes: Mapping[Callable, str], case: tuple) -> Step:
    """Like ``unlike`` for each of ``mistakes``, with a single call of the student's function."""

    def matches(got: Any, *inputs: Any) -> str | None:
        for mistake, why in mistakes.items():
            wrong = mistake(*inputs)
            if not (form_differs(got, wrong) or value_differs(got, wrong, 1e-5)):
                return why
        return None

    return holds(matches, [case])


def one_tensor(output: Any, queries_or_scores: Tensor, *inputs: Tensor) -> str | None:
    """For outputs (Q, V): what two results and a forgotten axis of queries look like."""
    if isinstance(output, tuple | list) and len(output) == 2:
        return "Your function returns two results. Only the output is asked for, one row a query."
    size = inputs[-1].shape[-1]
    if isinstance(output, Tensor) and output.shape in ((size,), (1, size)):
        return (
            f"{len(queries_or_scores)} queries ask, and one output comes back. Every query has a "
            "row of weights of its own."
        )
    return None


def rows_of_weights(output: Tensor, *_: Tensor) -> str | None:
    """For cases with the identity as values."""
    found = rows_sum_to_one(output)
    return found and f"The values here are the identity, so the output is your weights. {found}"


OTHER_DTYPE = (
    "The same numbers in float64 go wrong. A tensor that your code makes itself is float32 unless "
    "you say otherwise: give it the dtype of the inputs (`torch.zeros_like`, `dtype=values.dtype`)."
)
