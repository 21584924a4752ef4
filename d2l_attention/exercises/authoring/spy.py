"""A right implementation that notes how a student's test calls it."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Spy:
    """A right implementation that notes what it was called with."""

    def __init__(self, right: Callable):
        self.calls: list[dict] = []
        self.__name__ = "another_right_one"
        self._right = right
        self._signature = inspect.signature(right.forward if is_module(right) else right)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        with_names = self._signature.bind(*inputs, **named)
        with_names.apply_defaults()
        call = {name: held(value) for name, value in with_names.arguments.items()}
        if is_module(self._right):
            call["training"] = self._right.training
        self.calls.append(call)
        return self._right(*inputs, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._right, name)
        if not is_module(self._right) or not inspect.ismethod(found):
            return found

        def method(*inputs: Any, **named: Any) -> Any:
            given = found(*inputs, **named)
            return self if given is self._right else given  # as ``eval`` gives the module back

        return method

    def always(self, rule: Callable[..., Any]) -> bool:
        """Whether ``rule``, of arguments by their names and of ``first``, is true of all calls."""
        wanted = inspect.signature(rule).parameters
        calls = [{**call, "first": self.calls[0]} for call in self.calls]
        return all(rule(**{name: call[name] for name in wanted}) for call in calls)


def is_module(right: Any) -> bool:
    return isinstance(right, nn.Module)


def held(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def replay(implementation: Callable, call: dict) -> Any:
    named = dict(call)
    if "training" in named and is_module(implementation):
        implementation.train(named.pop("training"))
    return implementation(**named)


class Operations(TorchFunctionMode):
    """Notes PyTorch's functions and what they make. ``TorchDispatchMode`` imports the compiler."""

    def __init__(self):
        super().__init__()
        self.seen: list[tuple[Callable, Any]] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        self.seen.append((function, made))
        return made
