"""The same computation here and there: on the CPU and on the device under test."""

import contextlib
import copy

import torch
from pretended import tensors
from torch import nn
from torch.nn.parameter import is_lazy
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# What hands a number, or how many there are, to Python.
READS = {
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.is_nonzero.default,
    aten.masked_select.default,
    aten.nonzero.default,
}


class NothingIsRead(TorchDispatchMode):
    """Refuses what would make Python wait for the device."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        here = any(isinstance(X, torch.Tensor) and X.device.type != "cpu" for X in args)
        assert not (here and operation in READS), f"{operation} waits for the device"
        result = operation(*args, **(kwargs or {}))
        if operation is aten._to_copy.default and here:
            assert result.device.type != "cpu", "a copy to the CPU waits for the device"
        return result


def same_on(device, run, *things, reads=True):
    """``run(*things)`` gives the CPU's numbers on ``device``, and the CPU's gradients.

    Without ``reads`` no number may come back before all is done, forward and backward.

    ``things`` are modules and tensors, also in lists and dicts, which are copied and moved. What
    comes out is to be on the device. Returns what came out there.
    """
    modules = [thing for thing in things if isinstance(thing, nn.Module)]
    if any(is_lazy(parameter) for module in modules for parameter in module.parameters()):
        with torch.no_grad():
            run(*things)  # now the weights are there, to be the same on both
    here, gradients_here = results(torch.device("cpu"), run, things)
    with contextlib.nullcontext() if reads else NothingIsRead():
        there, gradients_there = results(device, run, things)
    assert {X.device.type for X in there} <= {device.type}
    assert_close([X.cpu() for X in there], here, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert gradients_there.keys() == gradients_here.keys()
    for name, gradient in gradients_there.items():
        assert gradient.device.type == device.type, name
        expected = gradients_here[name]
        assert_close(
            gradient.cpu(), expected, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    return there


def results(device, run, things):
    """What comes out, and the gradient of everything that has one, by its name."""
    things = [moved(thing, device) for thing in things]
    outputs = list(tensors(run(*things)))
    learned = [X for X in outputs if X.requires_grad]
    if learned:
        sum((X * ramp(X)).sum() for X in learned).backward()
    gradients = {}
    for number, thing in enumerate(things):
        if isinstance(thing, nn.Module):
            named = dict(thing.named_parameters())
        else:
            named = {str(i): X for i, X in enumerate(tensors(thing))}
        for name, X in named.items():
            if X.grad is not None:
                gradients[f"{number}.{name}"] = X.grad
    return [X.detach() for X in outputs], gradients


def ramp(X):
    """Numbers that differ from entry to entry, so that no two gradients are the same."""
    return torch.linspace(-1, 1, X.numel()).reshape(X.shape).to(X)


def moved(thing, device):
    """A copy on ``device``, of which floats ask for a gradient."""
    if isinstance(thing, nn.Module):
        return copy.deepcopy(thing).to(device)
    if isinstance(thing, torch.Tensor):
        there = thing.detach().clone().to(device)
        return there.requires_grad_(there.is_floating_point())
    if isinstance(thing, dict):
        return {name: moved(part, device) for name, part in thing.items()}
    return [moved(part, device) for part in thing] if isinstance(thing, list) else thing
