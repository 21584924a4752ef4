"""What several exercises of this chapter use to make and to judge their cases."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.compare import form_differs, value_differs
from d2l_attention.exercises.exercise import Step


def normal(seed: int, *shapes: Sequence[int]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def alike(got: Any, right: Any) -> bool:
    return not (form_differs(got, right) or value_differs(got, right, 1e-5))


def stops(attempt: Attempt, case: tuple) -> bool:
    try:
        attempt(*case)
    except Raised:
        return True
    return False


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


def mask_on_heads(mistake: Callable, equal: tuple, unequal: tuple, shape: str) -> Step:
    """Sentence h's mask on head h, named by what the student wrote.

    Two mistakes give the same numbers where batch and heads are ``equal`` in size: an axis
    that is missing, which stops where they are ``unequal``, and copies in the wrong order.
    """

    def step(attempt: Attempt) -> str | None:
        if not alike(attempt(*equal), mistake(*equal)):
            return None
        if stops(attempt, unequal):
            why = (
                f"Your mask has no axis for the heads. Beside scores (B, H, Q, K) a mask {shape} "
                "is read as (1, B, ...): where B = H nothing stops, and the second head of every "
                "sentence gets the second sentence's mask. (Where they differ, you see an error.)"
            )
        else:
            why = (
                "Your copies of the masks stand in the wrong order: the second head of the first "
                "sentence gets the second sentence's mask. With the heads folded into the batch, "
                "the first sentence comes H times before the second: of lengths 7 and 9 "
                "`repeat_interleave` makes 7 7 9 9, `repeat` 7 9 7 9."
            )
        return f"{why} Smallest case that shows it: {attempt.case(equal)}."

    return step
