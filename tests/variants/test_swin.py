"""Windows on feature maps against plain attention of the whole map under a mask."""

import math

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import MultiHeadAttention, Positions
from d2l_attention.variants import WindowAttention, merge_windows, partition_windows

B, C, H = 2, 6, 3
MAP = torch.ones(1, 6, 4, 2)
SIZES = [(7, 11), (3, 5), (1, 1), (8, 4), (13, 3)]
EXACT = {"atol": 1e-10, "rtol": 1e-10}


def make(window=4, shift=0, dtype=torch.float64):
    layer = WindowAttention(C, H, window, shift=shift)
    layer(torch.randn(1, 5, 5, C))
    with torch.no_grad():
        layer.attention.positions.table.normal_()
    return layer.to(dtype)


def neighbours(rows, columns, window, shift):
    """Who shares a window with whom, from the places where the windows are cut. (n, n)."""
    shifts = [shift if size > window else 0 for size in (rows, columns)]
    pixels = [(r, c) for r in range(rows) for c in range(columns)]
    cells = [tuple((x - s) // window for x, s in zip(p, shifts, strict=True)) for p in pixels]
    return torch.tensor([[one == other for other in cells] for one in cells])


class WholeMap(Positions):
    """The same table, read for every pair of pixels of the map."""

    def __init__(self, table, rows, columns, window):
        super().__init__()
        self.table, reach, size = table, window - 1, 2 * window - 1
        pixels = [(r, c) for r in range(rows) for c in range(columns)]
        clip = lambda way: max(-reach, min(reach, way)) + reach  # noqa: E731
        self.index = torch.tensor(
            [[clip(r - s) * size + clip(c - d) for s, d in pixels] for r, c in pixels]
        )

    def bias(self, num_queries, num_keys, *, offset=0):
        return self.table[self.index].permute(2, 0, 1)


def whole(layer, rows, columns):
    """Plain multi-head attention of the flattened map with the layer's own parameters."""
    table = layer.attention.positions.table
    positions = WholeMap(table, rows, columns, layer.window_size)
    plain = MultiHeadAttention(C, H, 0.0, positions=positions)
    for name in ("W_q", "W_k", "W_v", "W_o"):
        setattr(plain, name, getattr(layer.attention, name))
    return plain


def results(layer, run, X):
    """Output and the gradients of input and parameters."""
    X = X.clone().requires_grad_()
    layer.zero_grad()
    output = run(X)
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    return [output, X.grad, *(parameter.grad.clone() for parameter in layer.parameters())]


def test_windows_by_hand():
    X = torch.arange(24).reshape(1, 4, 6, 1)
    windows = partition_windows(X, 2)[..., 0].tolist()
    assert windows[:3] == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]
    assert windows[3:] == [[12, 13, 18, 19], [14, 15, 20, 21], [16, 17, 22, 23]]


@pytest.mark.parametrize(("batch", "rows", "columns", "window"), [(2, 6, 9, 3), (0, 4, 2, 2)])
def test_merging_undoes_the_partition(batch, rows, columns, window):
    X = torch.randn(batch, rows, columns, 5)
    windows = partition_windows(X, window)
    assert windows.shape == (batch * rows * columns // window**2, window**2, 5)
    assert torch.equal(merge_windows(windows, window, rows, columns), X)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_equals_plain_attention_under_a_mask(size, shift):
    layer, X = make(shift=shift), torch.randn(B, *size, C, dtype=torch.float64)
    plain, mask = whole(layer, *size), neighbours(*size, 4, shift)

    def masked(X):
        X = X.flatten(1, 2)
        return plain(X, X, X, mask=mask).unflatten(1, size)

    for one, other in zip(results(layer, layer, X), results(layer, masked, X), strict=True):
        assert_close(one, other, **EXACT)


def test_one_window_as_large_as_the_image_is_plain_attention():
    layer, X = make(window=5, shift=2), torch.randn(B, 5, 5, C, dtype=torch.float64)
    with torch.no_grad():
        layer.attention.positions.table.zero_()
    plain = MultiHeadAttention(C, H, 0.0).double()
    tokens = X.flatten(1, 2)
    plain(tokens, tokens, tokens)
    plain.load_state_dict(
        {name: x for name, x in layer.attention.state_dict().items() if "table" not in name}
    )
    output, weights = layer(X, need_weights=True)
    expected, expected_weights = plain(tokens, tokens, tokens, need_weights=True)
    assert_close(output.flatten(1, 2), expected, **EXACT)
    assert_close(weights, expected_weights, **EXACT)


@pytest.mark.parametrize("shift", [0, 2])
def test_a_pixel_hears_its_window_alone(shift):
    layer, X = make(shift=shift), torch.randn(1, 7, 11, C, dtype=torch.float64).requires_grad_()
    sees = neighbours(7, 11, 4, shift)
    for r, c in [(0, 0), (3, 4), (6, 10)]:
        (grad,) = torch.autograd.grad(layer(X)[0, r, c].square().sum(), X)
        assert torch.equal((grad[0] != 0).any(-1).flatten(), sees[r * 11 + c])


def test_nan_stays_in_its_window():
    layer, X = make(), torch.randn(1, 7, 11, C, dtype=torch.float64)
    clean = layer(X)
    X[0, 5, 9] = math.nan
    dirty, touched = layer(X), neighbours(7, 11, 4, 0)[5 * 11 + 9].reshape(1, 7, 11)
    assert torch.equal(dirty[~touched], clean[~touched])
    assert dirty[touched].isnan().any(-1).all()


@pytest.mark.parametrize("shift", [0, 2])
def test_weights_on_demand(shift):
    layer, X = make(shift=shift), torch.randn(B, 7, 11, C, dtype=torch.float64)
    with pytest.raises(AttributeError, match="attention_weights"):
        _ = WindowAttention(C, H, 4).attention_weights
    output = layer(X)
    explicit, weights = layer(X, need_weights=True)
    assert_close(output, explicit, **EXACT)
    assert_close(layer.attention_weights, weights.detach(), **EXACT)
    assert weights.shape == (B * 2 * 3, H, 16, 16)
    real = torch.ones(B, 7, 11, 1)
    padded = torch.zeros(B, 8, 12, 1)
    padded[:, :7, :11] = real
    real = partition_windows(padded.roll((-shift, -shift), (1, 2)), 4)[..., 0] > 0
    assert (weights.transpose(1, 3).transpose(2, 3)[~real] == 0).all()  # padding as a key
    sums = weights.sum(-1).transpose(1, 2)[real]
    assert_close(sums, torch.ones_like(sums))


def test_the_cost_grows_with_the_number_of_pixels():
    layer = make(shift=2)

    def flops(*size):
        with FlopCounterMode(display=False) as counter:
            layer(torch.randn(1, *size, C, dtype=torch.float64), need_weights=True)
        return counter.get_total_flops()

    assert 0 < 8 * flops(8, 8) == flops(16, 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtypes(dtype):
    layer, X = make(shift=1), torch.randn(B, 7, 5, C, dtype=torch.float64)
    expected, output = layer(X), layer.to(dtype)(X.to(dtype))
    assert output.dtype == dtype and layer.attention_weights.dtype == dtype
    tolerance = max(1e-5, 16 * torch.finfo(dtype).eps)
    assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)


def test_empty_batch_and_input_left_alone():
    layer, X = make(shift=1), torch.randn(B, 7, 5, C, dtype=torch.float64)
    copy = X.clone()
    assert layer(X).shape == X.shape
    assert torch.equal(X, copy)
    assert layer(X[:0]).shape == (0, 7, 5, C)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "window_size=3 does not divide", lambda: partition_windows(MAP, 3)),
        (ValueError, r"\(B, rows, columns, C\)", lambda: partition_windows(torch.ones(6, 6, 2), 3)),
        (ValueError, "whole number from 1 on, got 0", lambda: partition_windows(MAP, 0)),
        (ValueError, "fill maps of 6 rows and 4", lambda: merge_windows(MAP[0], 3, 6, 4)),
        (ValueError, "fill maps of 4 rows and 4", lambda: merge_windows(MAP[0], 2, 4, 4)),
        (ValueError, "got shift=4, window_size=4", lambda: WindowAttention(C, H, 4, shift=4)),
        (ValueError, "got shift=-1, window_size=4", lambda: WindowAttention(C, H, 4, shift=-1)),
        (ValueError, "got 2.0", lambda: WindowAttention(C, H, 2.0)),
        (ValueError, "num_heads=4", lambda: WindowAttention(C, 4, 2)),
        (ValueError, r"columns, 6\), got", lambda: make()(torch.ones(1, 4, 4, 5))),
        (ValueError, r"got \(4, 4, 6\)", lambda: make()(torch.ones(4, 4, 6))),
        (TypeError, "X must be a tensor of floats", lambda: make()(torch.ones(1, 4, 4, 6).int())),
        (TypeError, "X must be a tensor of floats", lambda: partition_windows([[1.0]], 1)),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()
