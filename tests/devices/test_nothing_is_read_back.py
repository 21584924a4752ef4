"""No layer waits for the device: no number of it decides, forward or backward, what comes next."""

import pytest
import torch
from both import moved
from parts import ATTENTION, CACHED, MODES, OF_ONE_SEQUENCE, SELF_ATTENTION, B, D, K, Q
from torch.utils._python_dispatch import TorchDispatchMode

from d2l_attention import KeyValueCache

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
    def __init__(self, device):
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        here = any(isinstance(X, torch.Tensor) and X.device.type != "cpu" for X in args)
        assert not (here and operation in READS), f"{operation} waits for the device"
        result = operation(*args, **(kwargs or {}))
        if operation is aten._to_copy.default and here:
            assert result.device.type != "cpu", "a copy to the CPU waits for the device"
        return result


def ready(layer, device, call):
    """The layer on the device, its weights made on the CPU."""
    with torch.no_grad():
        call(layer)
    return moved(layer, device)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*ATTENTION, *SELF_ATTENTION])
def test_attention(device, name, mode):
    n = Q if name in ATTENTION else K
    inputs = [torch.randn(B, m, D) for m in (n, K, K)]
    options = MODES[mode](n)
    layer = ready((ATTENTION | SELF_ATTENTION)[name](), device, lambda made: made(*inputs))
    inputs, options = (
        moved(inputs, device),
        {
            key: moved(value, device) if isinstance(value, torch.Tensor) else value
            for key, value in options.items()
        },
    )
    with NothingIsRead(device):
        result = layer(*inputs, **options)
        output = result[0] if isinstance(result, tuple) else result
        output.sum().backward()
        layer.attention_weights  # noqa: B018


@pytest.mark.parametrize("name", CACHED)
def test_decoding(device, name):
    X = torch.randn(B, K, D)
    layer, X = ready(CACHED[name](), device, lambda made: made(X, X, X)), moved(X, device)
    lens, cache = torch.tensor([K, 2, 0], device=device), KeyValueCache()
    with NothingIsRead(device), torch.no_grad():
        for start, end in ((0, 3), (3, 4), (4, K)):
            Y = X[:, start:end]
            layer(Y, Y, Y, lens.clamp(max=end), is_causal=True, cache=cache)


@pytest.mark.parametrize("name", OF_ONE_SEQUENCE)
def test_one_sequence(device, name):
    make, options = OF_ONE_SEQUENCE[name]
    X, lens = torch.randn(B, K, D), torch.tensor([K, 2, 0])
    layer = ready(make(), device, lambda made: made(X, **options))
    X, lens = moved(X, device), lens.to(device)
    with NothingIsRead(device):
        result = layer(X, lens, **options)
        (result[0] if isinstance(result, tuple) else result).sum().backward()


def test_lengths_that_nobody_reads(device):
    """A negative length hides all, a large one nothing: on the CPU both are errors."""
    layer, X = (
        ready(CACHED["heads"](), device, lambda made: made(*[torch.zeros(1, 1, D)] * 3)),
        (torch.randn(B, K, D, device=device)),
    )
    odd, even = (torch.tensor(lens, device=device) for lens in ([-3, K + 9, 2], [0, K, 2]))
    torch.testing.assert_close(layer(X, X, X, odd).cpu(), layer(X, X, X, even).cpu())


@pytest.mark.parametrize(
    "read",
    [lambda X: int(X.sum()), lambda X: bool(X.any()), lambda X: X.cpu(), torch.Tensor.tolist],
)
def test_a_read_is_seen(device, read):
    X = torch.ones(2, device=device)
    with NothingIsRead(device), pytest.raises(AssertionError, match="waits for the device"):
        read(X)
