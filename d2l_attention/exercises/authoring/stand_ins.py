"""Implementations that show how little a student's test looks at."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.authoring.spy import is_module


def derived(change: Callable, right: Callable, fresh: bool) -> Callable:
    """An implementation that gives the right results, changed."""

    def implementation(*inputs: Any, **named: Any) -> Any:
        return change(right(*inputs, **named))

    def maker() -> Callable:
        made = right()
        if is_module(made):
            made.register_forward_hook(lambda module, inputs, result: change(result))
            return made
        return lambda *inputs, **named: change(made(*inputs, **named))

    return maker if fresh else implementation


def only_one_zero(*_: Any, **__: Any) -> Tensor:
    return torch.zeros(1)


def zeros_like(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return type(result)(map(zeros_like, result))
    if isinstance(result, float):
        return 0.0
    return torch.zeros_like(result) if isinstance(result, Tensor) else result


def other_last_digits(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return type(result)(map(other_last_digits, result))
    if isinstance(result, float):
        return other_last_digits(torch.tensor(result, dtype=torch.float64)).item()
    if isinstance(result, Tensor) and result.is_floating_point():
        # Round numbers, such as a hidden key's weight 0, are exact in any order.
        is_round = (64 * result).frac() == 0
        # Same size, same noise: equal shapes must round equally.
        chance = torch.rand(result.shape, generator=torch.Generator().manual_seed(result.numel()))
        other = torch.where(chance < 0.5, torch.inf, -torch.inf).to(result)
        return torch.nextafter(result, torch.where(is_round, result, other))
    return result
