"""What distinguishes a student's result from the right one, as a sentence or None."""

import decimal
import fractions
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from d2l_attention.exercises.engine.show import kind, show, show_both, type_in_words

PRECISION = 1e-5  # relative to the largest number of a result; what float32 leaves after sums


def form_differs(got: Any, right: Any) -> str | None:
    """Type, shape, dtype and device, in the order in which a student should mend them."""
    if got is None and right is not None:
        return "Your function returned `None`. Is the `return` missing?"
    if isinstance(right, tuple | list):
        return entries_differ(got, right)
    if isinstance(right, Tensor):
        return tensor_form_differs(got, right)
    if isinstance(right, bool):
        return None if is_truth(got) else returned(got, "True or False")
    if is_number(right):
        return None if is_number(got) else returned(got, "a number")
    return None if isinstance(got, type(right)) else returned(got, type_in_words(right))


def entries_differ(got: Any, right: tuple | list) -> str | None:
    if not isinstance(got, tuple | list):
        several = f"{len(right)} results (`return a, b`)"
        return returned(got, several if isinstance(right, tuple) else "a list")
    what = "results" if isinstance(right, tuple) else "entries"
    if len(got) != len(right):
        return f"Your function returned {len(got)} {what}; it should return {len(right)}."
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
    if got.dtype != right.dtype and not (whole(got) and whole(right)):  # int32 counts as well
        return (
            f"Your result is {kind(got.dtype)}; for these inputs it should be {kind(right.dtype)}."
        )
    if got.device != right.device:
        return f"Your result lives on {got.device}; the inputs live on {right.device}."
    return None


def whole(numbers: Tensor) -> bool:
    """Whether it holds integers, of whatever size."""
    others = numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool
    return not others


def value_differs(got: Any, right: Any, tolerance: float = PRECISION) -> str | None:
    """The first entry that is off, for results of the same form."""
    if isinstance(right, tuple | list):
        pairs = zip(got, right, strict=True)
        found = (value_differs(mine, theirs, tolerance) for mine, theirs in pairs)
        return next(filter(None, found), None)
    if isinstance(right, Tensor):
        return tensor_differs(got, right, tolerance)
    if is_number(right):
        got = float(got)
        wrong = off(torch.tensor(got, dtype=torch.float64), as_double(right), tolerance)
    else:
        wrong = bool(got != right)
    return (
        "Your function gives {}; it should be {}.".format(*show_both(got, right)) if wrong else None
    )


def tensor_differs(got: Tensor, right: Tensor, tolerance: float) -> str | None:
    got, right = got.detach(), right.detach()
    wrong = off(got, right, tolerance)
    if not wrong.any():
        return None
    if right.numel() <= 9:
        return "Your function gives {}; it should be {}.".format(*show_both(got, right))
    place = tuple(wrong.nonzero()[0].tolist())
    shown = show_both(got[place].item(), right[place].item())
    entry = ", ".join(map(str, place))
    return "Entry [{}] of your result is {}; it should be {}.".format(entry, *shown)


def off(got: Tensor, right: Tensor, tolerance: float) -> Tensor:
    """Which entries differ by more than rounding; NaN equals NaN."""
    if not (right.is_floating_point() or right.is_complex()):
        return got != right
    got, right = as_double(got), as_double(right)
    finite = right[right.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 0.0
    # Sums round relative to what was summed up: next to large numbers, and below them, zeros.
    near = torch.isclose(got, right, rtol=0, atol=tolerance * max(largest, 0.1), equal_nan=True)
    return ~near


def alike(got: Any, right: Any, tolerance: float = PRECISION) -> bool:
    """Of the same form and, but for rounding, of the same value."""
    return not (form_differs(got, right) or value_differs(got, right, tolerance))


def tolerance_for(right: Any, inputs: Any) -> float:
    """How far right results lie apart: by float32's precision, at the inputs' size.

    In float32 a score of 1,000 is known to 1e-4, and so is its exponential, relatively.
    """
    results = [X for X in tensors(right) if X.is_floating_point()]
    size = max(map(usual_size, tensors(inputs)), default=0.0)
    precision = max((torch.finfo(X.dtype).eps for X in results), default=0.0)
    return max(PRECISION, 2 * 1.2e-7 * size, 8 * precision)


def usual_size(X: Tensor) -> float:
    """The largest number; larger ones than 10,000 stand there to be hidden."""
    if X.is_meta or not X.is_floating_point():
        return 0.0
    sizes = X.detach().abs()
    usual = sizes[sizes <= 1e4]
    return usual.max().item() if usual.numel() else 0.0


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from tensors(entry)


def as_double(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        return torch.tensor(float(value), dtype=torch.float64)
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


NUMBERS = (int, float, fractions.Fraction, decimal.Decimal, np.number)


def is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype != torch.bool
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and np.issubdtype(value.dtype, np.number)
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def is_truth(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype == torch.bool
    return isinstance(value, bool | np.bool_)


def as_numbers(answer: Any) -> Tensor | None:
    """An answer by hand as float64: numbers, nested lists of them, arrays; else None."""
    try:
        got = torch.tensor(plain(answer), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return got if got.isfinite().all() else None


def plain(answer: Any) -> Any:
    """As nested lists of Python's floats. Errors: ``TypeError`` for anything else."""
    if isinstance(answer, Tensor):
        answer = answer.detach().cpu()
        return plain(answer.tolist()) if answer.numel() > 1 or answer.ndim else float(answer)
    if isinstance(answer, np.ndarray):
        return plain(answer.tolist())
    if isinstance(answer, list | tuple):
        return [plain(entry) for entry in answer]
    if is_number(answer):
        return float(answer)
    raise TypeError(f"not a number: {show(answer)}")


def returned(got: Any, wanted: str) -> str:
    return f"Your function returned {type_in_words(got)}; it should return {wanted}."
