"""Where two runs differ first."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from d2l_attention.views.recorder import Recording

MASKED = 5e3  # a score so far below the others has the weight 0: -1e4, -1e6 or -1e9, give or take
NUMBER = int | float | complex | np.number | np.bool_


def first_difference(mine: Recording, theirs: Recording) -> tuple[str, int, int] | None:
    """The first name that differs in two runs, and the steps that gave it its value.

    What counts is the last value of a name with a shape: a name may be built up in several lines,
    and have other shapes on its way. Only the outermost call is looked at.
    """
    ours, others = last_values(mine), last_values(theirs)
    for key, (here, value, changed_input) in sorted(ours.items(), key=lambda item: item[1][0]):
        there, right, changed_theirs = others.get(key, (here, value, changed_input))
        # An input's name is free for another value, but the input itself must stay as it is.
        comparable = bool(here) == bool(there) or changed_input or changed_theirs
        if comparable and not alike(value, right):
            return key[0], here, there
    return None


def last_values(recording: Recording) -> dict[tuple, tuple[int, Any, bool]]:
    """Each name and shape -> the step of its last value, the value, whether that is an input."""
    found, rebound = {}, set()
    steps = [step for step in recording.steps if step.call == 0]
    inputs = set(steps[0].changed) if steps else set()
    for number, step in enumerate(recording.steps):
        if step.call:
            continue
        rebound |= set(step.changed) - set(step.in_place) if number else set()
        for name, value in step.changed.items():
            if name != "return" and not isinstance(value, Tensor | np.ndarray):
                continue  # a number or a list may well have another meaning there
            changed_input = number > 0 and name in inputs - rebound
            found[name, form(value)] = number, value, changed_input
    return found


def form(value: Any) -> Any:
    """What two values must share to be compared: the shape."""
    if isinstance(value, Tensor | np.ndarray) and not getattr(value, "is_nested", False):
        return tuple(value.shape)
    if type(value) in (list, tuple):
        return tuple(map(form, value))
    return "number" if isinstance(value, NUMBER) else type(value).__name__


def alike(value: Any, other: Any) -> bool:
    """Equal but for rounding, which whole numbers do not know; what cannot be compared is equal."""
    if type(value) in (list, tuple):
        return all(map(alike, value, other))
    if not isinstance(value, Tensor | np.ndarray | NUMBER):
        return True
    if isinstance(value, int) and isinstance(other, int):  # of any size
        return value == other
    try:
        value, other = (torch.as_tensor(each).detach().cpu() for each in (value, other))
        if not any(each.is_floating_point() or each.is_complex() for each in (value, other)):
            return value.tolist() == other.tolist()
        value, other = (each.to(torch.complex128) for each in (value, other))  # real ones, too
        finite = other[other.isfinite()].abs()
        # Rounding is as large as what is not masked: beside -1e9 all scores would be alike.
        usual = finite[finite < MASKED]
        finite = usual if usual.numel() else finite
        near = 1e-5 * max(finite.max().item() if finite.numel() else 0.0, 0.1)
        return torch.allclose(value, other, rtol=1e-4, atol=near, equal_nan=True)
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, nested, without numbers
        return True
