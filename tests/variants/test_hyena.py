"""Hyena: the transform against the sum, and the operator against its definition."""

import pytest
import torch
from torch.testing import assert_close

from d2l_attention.variants import HyenaOperator, long_convolution

B, N, C, MAX_LEN = 2, 13, 6, 29
EXACT = {"atol": 1e-10, "rtol": 1e-10}
ONES = torch.ones(5, 3)


def direct_sum(X, filters):
    """Y[t] = sum_s filters[s] X[t - s], as it is written."""
    rows = []
    for t in range(X.shape[-2]):
        terms = [filters[s] * X[..., t - s, :] for s in range(min(t + 1, len(filters)))]
        rows.append(torch.stack(terms).sum(0))
    return torch.stack(rows, dim=-2)


def make(order=2, **options):
    return HyenaOperator(C, MAX_LEN, order=order, **options).double()


def tokens(length=N):
    return torch.randn(B, length, C, dtype=torch.float64)


@pytest.mark.parametrize("taps", [1, 5, N, 17])
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)], ids=str)
def test_the_transform_equals_the_direct_sum(taps, leading):
    given = [torch.randn(*leading, N, C).double(), torch.randn(taps, C).double()]
    results = []
    for convolve in (long_convolution, direct_sum):
        X, filters = (x.clone().requires_grad_() for x in given)
        output = convolve(X, filters)
        (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
        results.append([output, X.grad, filters.grad])
    for one, other in zip(*results, strict=True):
        assert_close(one, other, **EXACT)


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33])
def test_lengths_around_a_power_of_two(length):
    X, filters = torch.randn(length, 3).double(), torch.randn(length, 3).double()
    assert_close(long_convolution(X, filters), direct_sum(X, filters), **EXACT)


def test_by_hand():
    X, filters = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [10.0]])
    assert_close(long_convolution(X, filters), torch.tensor([[1.0], [12.0], [23.0]]))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_equals_its_definition(order):
    layer, X = make(order), tokens()
    short = layer.short.weight[:, 0].flip(-1).T  # the last tap belongs to the token itself
    projected = direct_sum(X @ layer.W_in.weight.T, short)
    Z, *gates = projected.split(C, dim=-1)
    assert len(gates) == order
    for i, gate in enumerate(gates):
        Z = gate * direct_sum(Z, layer.filters(N)[i])
    assert_close(layer(X), Z @ layer.W_o.weight.T, **EXACT)


def test_filters_fade_and_do_not_depend_on_the_number_of_taps():
    filters = make().filters
    assert filters(MAX_LEN).shape == (2, MAX_LEN, C)
    assert_close(filters(5), filters(MAX_LEN)[:, :5], **EXACT)
    with torch.no_grad():
        filters.outer.weight.zero_()
        filters.outer.bias.fill_(1)
    assert_close(filters(MAX_LEN)[1].square().sum(dim=0), torch.ones(C).double(), atol=1e-6, rtol=0)
    window = filters(MAX_LEN)[1] * filters.norm
    assert_close(window[0], torch.ones(C).double())
    assert (window.diff(dim=0) < 0).all()  # later taps are smaller
    assert (window[1:].diff(dim=1) > 0).all()  # the last column fades last
    place = torch.arange(MAX_LEN) / MAX_LEN
    assert_close(window[:, -1], (0.01**place).double(), atol=1e-6, rtol=1e-5)


def test_a_new_layer_is_as_loud_at_any_length():
    torch.manual_seed(3)
    X = torch.randn(2, 1009, 64)
    short, long = (HyenaOperator(64, n)(X[:, :n]).std().item() for n in (29, 1009))
    assert 1e-4 < short < 2 * long < 4 * short


def test_a_filter_is_more_than_its_window():
    filters = make().filters
    window = torch.exp(-filters.rates * torch.arange(MAX_LEN)[:, None] / MAX_LEN)
    shape = filters(MAX_LEN) / window  # what the network says of each place
    assert (shape.std(dim=1) > 1e-2 * shape.abs().mean(dim=1)).all()


def test_parameters_do_not_grow_with_the_length():
    short, long = (
        sum(p.numel() for p in HyenaOperator(C, length).parameters()) for length in (10, 10_000)
    )
    assert short == long


def test_every_parameter_learns():
    layer = make()
    layer(tokens()).square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in layer.parameters())


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "same columns", lambda: long_convolution(ONES, ONES[:, :2])),
        (ValueError, "same columns", lambda: long_convolution(ONES[:, 0], ONES[:, :1])),
        (ValueError, "same columns", lambda: long_convolution(ONES, ONES[:0])),
        (TypeError, "X must be", lambda: long_convolution(ONES.int(), ONES)),
        (TypeError, "filters must be", lambda: long_convolution(ONES, [[1.0]])),
        (ValueError, "order must be a whole number from 1 on, got 0", lambda: make(0)),
        (ValueError, "max_len must be .* got 2.5", lambda: HyenaOperator(C, 2.5)),
        (ValueError, r"\(B, n, 6\), got \(13, 6\)", lambda: make()(tokens()[0])),
        (ValueError, r"got \(2, 13, 5\)", lambda: make()(tokens()[..., :5])),
        (ValueError, "max_len=29 tokens, got 31", lambda: make()(tokens(31))),
        (TypeError, "X must be a tensor of floats", lambda: make()(tokens().int())),
        (ValueError, "from 1 to 14", lambda: make()(tokens(), torch.tensor([1, 14]))),
        (ValueError, "valid_lens", lambda: make()(tokens(), torch.tensor([1, 2, 3]))),
        (ValueError, "valid_lens", lambda: make()(tokens(), torch.ones(B, N).int())),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()
