"""What distinguishes a student's result from the right one, as a sentence or None."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.show import kind, show


def form_differs(got: Any, right: Any) -> str | None:
    """Type, shape, dtype and device, in the order in which a student should mend them."""
    if got is None:
        return "Your function returned `None`. Is the `return` missing?"
    if isinstance(right, tuple | list):
        return entries_differ(got, right)
    if isinstance(right, Tensor):
        return tensor_form_differs(got, right)
    if is_number(right):
        return None if is_number(got) else returned(got, "a number")
    return None if isinstance(got, type(right)) else returned(got, f"a {type(right).__name__}")


def entries_differ(got: Any, right: tuple | list) -> str | None:
    if not isinstance(got, tuple | list):
        return returned(got, f"{len(right)} results (`return a, b`)")
    if len(got) != len(right):
        return f"Your function returned {len(got)} results; it should return {len(right)}."
    for number, (mine, theirs) in enumerate(zip(got, right, strict=True), start=1):
        if found := form_differs(mine, theirs):
            return f"Result {number} of {len(right)}: {found}"
    return None


def tensor_form_differs(got: Any, right: Tensor) -> str | None:
    if not isinstance(got, Tensor):
        return returned(got, "a tensor")
    if got.is_nested or got.layout != right.layout:
        return "Your result is a sparse or nested tensor; it should be an ordinary one."
    if got.shape != right.shape:
        return f"Your result has shape {tuple(got.shape)}; it should be {tuple(right.shape)}."
    if got.dtype != right.dtype:
        return (
            f"Your result is {kind(got.dtype)}; for these inputs it should be {kind(right.dtype)}."
        )
    if got.device != right.device:
        return f"Your result lives on {got.device}; the inputs live on {right.device}."
    return None


def value_differs(got: Any, right: Any, tolerance: float) -> str | None:
    """The first entry that is off, for results of the same form."""
    if isinstance(right, tuple | list):
        pairs = zip(got, right, strict=True)
        found = (value_differs(mine, theirs, tolerance) for mine, theirs in pairs)
        return next(filter(None, found), None)
    if isinstance(right, Tensor):
        return entry_differs(got, right, tolerance)
    if is_number(right):
        return entry_differs(torch.as_tensor(got), torch.as_tensor(right), tolerance)
    return None if got == right else f"Your function gives {show(got)}; it should be {show(right)}."


def entry_differs(got: Tensor, right: Tensor, tolerance: float) -> str | None:
    got, right = got.detach(), right.detach()
    if not (right.is_floating_point() or right.is_complex()):
        off = got != right
    else:
        off = ~torch.isclose(got, right.to(got.dtype), tolerance, tolerance, equal_nan=True)
    if not off.any():
        return None
    if right.numel() <= 9:
        return f"Your function gives {show(got)}; it should be {show(right)}."
    place = tuple(off.nonzero()[0].tolist())
    entry = ", ".join(map(str, place))
    return (
        f"Entry [{entry}] of your result is {show(got[place].item())}; "
        f"it should be {show(right[place].item())}."
    )


def is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype != torch.bool
    return isinstance(value, int | float) and not isinstance(value, bool)


def returned(got: Any, wanted: str) -> str:
    return f"Your function returned a {type(got).__name__}; it should return {wanted}."
