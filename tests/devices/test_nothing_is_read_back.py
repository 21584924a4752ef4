"""No layer waits for the device: no number of it decides, forward or backward, what comes next.

The tests of all layers in test_layers_on_device.py ask the same.
"""

import pytest
import torch
from both import NothingIsRead, moved
from parts import CACHED, B, D, K

from d2l_attention import KeyValueCache


def ready(name, device):
    """A layer on the device, its weights made on the CPU."""
    layer = CACHED[name]()
    layer(*[torch.zeros(1, 1, D)] * 3)
    return moved(layer, device)


@pytest.mark.parametrize("name", CACHED)
def test_decoding(device, name):
    layer, X = ready(name, device), torch.randn(B, K, D, device=device)
    lens, cache = torch.tensor([K, 2, 0], device=device), KeyValueCache()
    with NothingIsRead(), torch.no_grad():
        for start, end in ((0, 3), (3, 4), (4, K)):
            Y = X[:, start:end]
            layer(Y, Y, Y, lens.clamp(max=end), is_causal=True, cache=cache)


def test_lengths_that_nobody_reads(device):
    """A negative length hides all, a large one nothing: on the CPU both are errors."""
    layer, X = ready("heads", device), torch.randn(B, K, D, device=device)
    odd, even = (torch.tensor(lens, device=device) for lens in ([-3, K + 9, 2], [0, K, 2]))
    torch.testing.assert_close(layer(X, X, X, odd).cpu(), layer(X, X, X, even).cpu())


@pytest.mark.parametrize(
    "read",
    [lambda X: int(X.sum()), lambda X: bool(X.any()), lambda X: X.cpu(), torch.Tensor.tolist],
)
def test_a_read_is_seen(device, read):
    X = torch.ones(2, device=device)
    with NothingIsRead(), pytest.raises(AssertionError, match="waits for the device"):
        read(X)
