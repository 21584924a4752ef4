import copy

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import ALiBi, KeyValueCache, MultiHeadAttention, RotaryEncoding
from d2l_attention.variants import GroupedQueryAttention

B, H, N, K, HIDDEN = 2, 6, 5, 7, 24  # heads of 4
GROUPS = [1, 2, 3, 6]
LENS = {"none": None, "padded": torch.tensor([4, 0]), "per query": torch.randint(0, K + 1, (B, N))}
MASKS = {
    "none": None,
    "one": torch.rand(N, K) < 0.6,
    "per sequence": torch.rand(B, N, K) < 0.6,
    "per head": torch.rand(B, H, N, K) < 0.6,
}


def twins(num_kv_heads, positions=None, bias=True):
    """A grouped layer, and multi-head attention whose heads of a group are equal."""
    grouped = GroupedQueryAttention(
        HIDDEN, H, num_kv_heads, 0.0, bias, positions=copy.deepcopy(positions)
    ).double()
    plain = MultiHeadAttention(HIDDEN, H, 0.0, bias, positions=copy.deepcopy(positions)).double()
    X = torch.randn(B, N, HIDDEN, dtype=torch.float64)
    grouped(X, X, X), plain(X, X, X)
    plain.load_state_dict(
        {name: spread(name, given, num_kv_heads) for name, given in grouped.state_dict().items()}
    )
    return grouped, plain


def spread(name, rows, num_kv_heads):
    """The projection of each group, once for each of its heads."""
    if name[:3] not in ("W_k", "W_v"):
        return rows
    return (
        rows.unflatten(0, (num_kv_heads, -1)).repeat_interleave(H // num_kv_heads, 0).flatten(0, 1)
    )


def gathered(name, grad, num_kv_heads):
    """The way back of ``spread``: the gradients of a group's heads add up."""
    if name[:3] not in ("W_k", "W_v"):
        return grad
    return grad.unflatten(0, (num_kv_heads, H // num_kv_heads, -1)).sum(dim=1).flatten(0, 1)


def inputs(num_queries=N, num_keys=K):
    sizes = (num_queries, num_keys, num_keys)
    return [torch.randn(B, n, HIDDEN, dtype=torch.float64, requires_grad=True) for n in sizes]


@pytest.mark.parametrize("num_kv_heads", GROUPS)
@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_multi_head_attention_with_repeated_projections(num_kv_heads, lens, mask, is_causal):
    grouped, plain = twins(num_kv_heads)
    X = inputs()
    options = dict(valid_lens=lens, mask=mask, is_causal=is_causal)
    output, expected = grouped(*X, **options), plain(*X, **options)
    assert_close(output, expected, atol=1e-10, rtol=1e-10)
    assert_close(grouped.attention_weights, plain.attention_weights, atol=1e-10, rtol=1e-10)
    explicit, weights = grouped(*X, **options, need_weights=True)
    assert_close(explicit, expected, atol=1e-10, rtol=1e-10)
    assert weights.shape == (B, H, N, K)
    assert_close(weights.detach(), grouped.attention_weights)

    grads = torch.autograd.grad(output.square().sum(), (*X, *grouped.parameters()))
    expected = torch.autograd.grad(expected.square().sum(), (*X, *plain.parameters()))
    names = ["queries", "keys", "values", *(name for name, _ in plain.named_parameters())]
    for name, one, other in zip(names, grads, expected, strict=True):
        assert_close(one, gathered(name, other, num_kv_heads), atol=1e-10, rtol=1e-10)


def test_special_cases_by_their_shapes():
    X = torch.randn(B, N, HIDDEN)
    for num_kv_heads, rows in ((1, 4), (2, 8), (H, HIDDEN)):
        layer = GroupedQueryAttention(HIDDEN, H, num_kv_heads, 0.0)
        layer(X, X, X)
        assert layer.W_q.weight.shape == layer.W_o.weight.shape == (HIDDEN, HIDDEN)
        assert layer.W_k.weight.shape == layer.W_v.weight.shape == (rows, HIDDEN)


def test_as_many_groups_as_heads_load_a_multi_head_layer():
    plain, grouped = MultiHeadAttention(HIDDEN, H, 0.0), GroupedQueryAttention(HIDDEN, H, H, 0.0)
    X = torch.randn(B, N, HIDDEN)
    expected = plain(X, X, X, is_causal=True)
    grouped.load_state_dict(plain.state_dict(), strict=True)
    assert_close(grouped(X, X, X, is_causal=True), expected)


def test_pytorch_agrees():
    layer = GroupedQueryAttention(HIDDEN, H, 2, 0.0)
    X = torch.randn(B, N, HIDDEN)
    output = layer(X, X, X, is_causal=True)
    queries, keys, values = (
        W(X).unflatten(-1, (-1, 4)).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v)
    )
    heads = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, is_causal=True, enable_gqa=True
    )
    assert_close(output, layer.W_o(heads.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("num_kv_heads", GROUPS)
@pytest.mark.parametrize(
    "positions", [None, RotaryEncoding(4), ALiBi(H)], ids=["", "rotary", "alibi"]
)
@pytest.mark.parametrize("sizes", [[1] * 7, [3, 1, 3], [7]], ids=str)
def test_token_by_token_behind_a_cache(num_kv_heads, positions, sizes):
    grouped, plain = twins(num_kv_heads, positions)
    X, cache, start = torch.randn(B, 7, HIDDEN, dtype=torch.float64), KeyValueCache(), 0
    expected = plain(X, X, X, is_causal=True)
    for x in X.split(sizes, dim=1):
        rows = slice(start, start := start + x.shape[1])
        output = grouped(x, x, x, is_causal=True, cache=cache)
        assert_close(output, expected[:, rows], atol=1e-10, rtol=1e-10)
        weights = plain.attention_weights[:, :, rows, :start]
        assert_close(grouped.attention_weights, weights, atol=1e-10, rtol=1e-10)
    assert cache.keys.shape == cache.values.shape == (B, num_kv_heads, 7, 4)


def test_masks_for_each_head_behind_a_cache():
    grouped, plain = twins(3)
    X, mask = torch.randn(B, 7, HIDDEN, dtype=torch.float64), torch.rand(B, H, 4, 7) < 0.6
    outputs = []
    for layer in (grouped, plain):
        cache = KeyValueCache()
        layer(X[:, :3], X[:, :3], X[:, :3], cache=cache)
        outputs.append(layer(X[:, 3:], X[:, 3:], X[:, 3:], mask=mask, cache=cache))
    assert_close(*outputs, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("num_kv_heads", [0, 4, 12, -1, 2.0])
def test_groups_that_do_not_divide(num_kv_heads):
    with pytest.raises(ValueError, match=f"num_heads=6 and num_kv_heads={num_kv_heads}"):
        GroupedQueryAttention(HIDDEN, H, num_kv_heads, 0.0)


def test_other_errors():
    with pytest.raises(ValueError, match="num_hiddens=25 and num_heads=6"):
        GroupedQueryAttention(25, 6, 2, 0.0)
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\), got 1"):
        GroupedQueryAttention(HIDDEN, H, 2, 1.0)
    with pytest.raises(AttributeError, match="attention_weights"):
        _ = GroupedQueryAttention(HIDDEN, H, 2, 0.0).attention_weights
