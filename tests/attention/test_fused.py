"""Dropout on the weights, a head at a time where there are many weights."""

import pytest
import torch

from d2l_attention import MultiHeadAttention, dot_product_attention
from d2l_attention.attention import fused
from d2l_attention.variants import GroupedQueryAttention

ALMOST_NONE = 1e-12  # takes the way of dropout and drops nothing


@pytest.fixture(autouse=True, params=[0, 10**6], ids=["heads", "whole"])
def many_weights(request, monkeypatch):
    """From how many weights on a head is computed at a time."""
    monkeypatch.setattr(fused, "MANY_WEIGHTS", request.param)


def inputs(num_queries=13, num_keys=11):
    torch.manual_seed(1)
    shapes = (2, 3, num_queries, 4), (2, 3, num_keys, 4), (2, 3, num_keys, 5)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize(
    "visible",
    [
        {},
        {"is_causal": True},
        {"valid_lens": torch.tensor([7, 0])},
        {"valid_lens": torch.tensor([7, 11]), "is_causal": True},
        {"valid_lens": torch.arange(26).reshape(2, 13) % 12},
        {"mask": torch.arange(13 * 11).reshape(13, 11) % 3 == 0},
        {"mask": torch.arange(2 * 11).reshape(2, 1, 1, 11) % 3 == 0, "is_causal": True},
        {"mask": torch.arange(6 * 13 * 11).reshape(2, 3, 13, 11) % 5 > 1},
        {"bias": torch.arange(13.0 * 11).reshape(13, 11).sin()},
        {"bias": torch.arange(3.0).reshape(3, 1, 1).expand(3, 1, 11), "is_causal": True},
    ],
    ids=lambda visible: " ".join(visible) or "all",
)
def test_a_head_sees_what_it_sees_among_all(visible):
    given = inputs()
    expected = dot_product_attention(*given, **visible)
    output = dot_product_attention(*given, **visible, dropout=ALMOST_NONE)
    torch.testing.assert_close(output, expected)
    upstream = torch.randn_like(output)
    torch.testing.assert_close(
        torch.autograd.grad(output, given, upstream), torch.autograd.grad(expected, given, upstream)
    )


def test_the_backward_pass_drops_the_same_weights():
    given = [X[:1].detach().requires_grad_() for X in inputs(2, 3)]

    def attend(*given):
        torch.manual_seed(2)
        return dot_product_attention(*given, dropout=0.4)

    assert torch.autograd.gradcheck(attend, given)


def test_half_of_the_weights_are_dropped_and_the_others_doubled():
    queries, keys, _ = (X.detach() for X in inputs(400, 11))
    values = torch.eye(11, dtype=torch.float64).expand(2, 3, 11, 11)  # the output is the weights
    weights = dot_product_attention(queries, keys, values)
    torch.manual_seed(3)
    dropped = dot_product_attention(queries, keys, values, dropout=0.5)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * weights[kept])
    assert 0.48 < kept.double().mean() < 0.52


def test_only_dropout_in_training_goes_by_heads(monkeypatch):
    layer = MultiHeadAttention(12, 3, 0.5).double()
    X = torch.randn(2, 13, 12, dtype=torch.float64)
    used, by_heads = [], fused._one_head_at_a_time
    monkeypatch.setattr(
        fused, "_one_head_at_a_time", lambda *a, **o: used.append(1) or by_heads(*a, **o)
    )
    layer.eval()(X, X, X)
    MultiHeadAttention(12, 3, 0.0).double()(X, X, X)
    assert not used
    layer.train()(X, X, X)
    assert bool(used) == (fused.MANY_WEIGHTS == 0)


def test_groups_of_heads_share_keys_with_dropout_too():
    layer = GroupedQueryAttention(12, 6, 2, ALMOST_NONE).double()
    X = torch.randn(2, 13, 12, dtype=torch.float64)
    for is_causal in (False, True):
        dropping = layer.train()(X, X, X, is_causal=is_causal)
        torch.testing.assert_close(dropping, layer.eval()(X, X, X, is_causal=is_causal))


def test_a_bias_with_fewer_axes_than_the_scores():
    queries, keys, values = (X.detach()[None].expand(2, -1, -1, -1, -1) for X in inputs())
    bias = torch.arange(3 * 13 * 11.0).reshape(3, 13, 11).sin()
    expected = dot_product_attention(queries, keys, values, bias=bias)
    output = dot_product_attention(queries, keys, values, bias=bias, dropout=ALMOST_NONE)
    torch.testing.assert_close(output, expected)


def test_dropout_in_one_graph():
    """The compiler cannot be asked whether a tensor is wrapped by ``torch.func``."""
    queries, keys, values = (X.detach() for X in inputs())

    def attend(dropout):
        return dot_product_attention(queries, keys, values, dropout=dropout)

    torch.compiler.reset()
    compiled = torch.compile(attend, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(ALMOST_NONE), attend(0.0))
