import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    dot_product_attention,
)
from d2l_attention.attention.masks import attention_mask
from d2l_attention.attention.visibility import visibility

B, H, K = 2, 3, 7
N, HIDDEN = 64, 32


@given(
    st.lists(st.integers(0, K), min_size=B, max_size=B) | st.none(),
    st.integers(1, 9),
    st.booleans(),
    st.integers(0, 2**16) | st.none(),
    st.booleans(),
)
def test_the_same_as_the_whole_mask(lens, num_queries, is_causal, seed, per_query):
    lens = None if lens is None else torch.tensor(lens)
    if per_query and lens is not None:
        lens = lens[:, None].repeat(1, num_queries)
        lens[:, -1] = 1
    mask = None
    if seed is not None:
        torch.manual_seed(seed)
        mask = torch.rand(num_queries, K) < 0.4
    shape = (B, H, num_queries, K)
    whole = attention_mask(shape, lens, mask, is_causal)
    whole = torch.ones(shape, dtype=torch.bool) if whole is None else whole.expand(shape)

    visible = visibility(shape, lens, mask, is_causal)
    assert not whole[..., visible.longest :].any()
    kept = whole[..., : visible.longest]
    everything = torch.tensor(True)
    matrix, seeing, seen = (
        everything if part is None else part
        for part in (visible.matrix(), visible.seeing, visible.seen)
    )
    assert torch.equal(matrix.expand(kept.shape), kept)
    assert torch.equal(seeing.expand(kept.shape[:-1]), kept.any(dim=-1))
    assert torch.equal(seen.expand(B, H, visible.longest), kept.any(dim=-2))


def test_lengths_and_causality_build_no_matrix():
    visible = visibility((2, 3, 500, 700), torch.tensor([5, 400]), None, is_causal=True)
    assert visible.longest == 400 and visible.is_causal and visible.mask is None
    assert visible.lengths.numel() == 2 * 400 and visible.seen.numel() == 2 * 400
    assert visible.seeing is None


@pytest.mark.parametrize(("lens", "longest"), [([3, 3], 3), ([7, 7], 7), (None, 7)])
def test_equal_lengths_leave_nothing_to_mask(lens, longest):
    visible = visibility((B, H, 5, K), None if lens is None else torch.tensor(lens))
    assert visible.longest == longest and visible.matrix() is None and visible.seen is None


def test_where_nothing_is_visible_one_key_stays():
    visible = visibility((B, H, 5, K), torch.tensor([0, 0]))
    assert visible.longest == 1 and not visible.matrix().any() and not visible.seeing.any()


@pytest.mark.parametrize("lens", [[3, 3, 3], [4], [7] * 7], ids=str)
def test_equal_lengths_of_another_batch_are_refused_too(lens):
    X = torch.randn(B, K, HIDDEN)
    for layer in layers().values():
        with pytest.raises(ValueError, match="valid_lens .* does not fit scores"):
            layer(X, X, X, torch.tensor(lens))
    with pytest.raises(ValueError, match="valid_lens .* does not fit scores"):
        dot_product_attention(X[0], X[0], X[0], torch.tensor([3]))  # no batch to count along


def test_a_traced_layer_serves_other_lengths():
    layer, X = layers()["heads"], torch.randn(B, K, HIDDEN)
    layer(X, X, X)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the tracer warns of every size that it turns into a number
        traced = torch.jit.trace(layer, (X, X, X, torch.tensor([3, 3])), check_trace=False)
    lens = torch.tensor([5, 2])
    torch.testing.assert_close(traced(X, X, X, lens), layer(X, X, X, lens))


def layers():
    torch.manual_seed(0)
    return {
        "dot": DotProductAttention(0.0),
        "additive": AdditiveAttention(HIDDEN, 0.0),
        "heads": MultiHeadAttention(HIDDEN, 4, 0.0),
    }


@pytest.mark.parametrize("name", layers())
@pytest.mark.parametrize("hidden", ["lengths", "future"])
def test_keys_that_nobody_sees_are_not_computed(name, hidden):
    layer = layers()[name]
    queries, keys, values = torch.randn(3, 2, N, HIDDEN)
    few, options = queries, {"valid_lens": torch.tensor([N // 4, 3])}
    if hidden == "future":  # 16 queries in the causal order see the first 16 keys at most
        few, options = queries[:, : N // 4], {"is_causal": True}
    layer(few, keys, values, **options)

    def flops(*inputs, **options):
        with FlopCounterMode(display=False) as counter:
            layer(*inputs, need_weights=True, **options)  # the fused kernel is not counted
        return counter.get_total_flops()

    short = flops(few, keys[:, : N // 4], values[:, : N // 4])
    assert 0 < flops(few, keys, values, **options) == short < flops(few, keys, values)


@pytest.mark.parametrize("name", layers())
def test_weights_have_all_keys_again(name):
    layer = layers()[name]
    X = torch.randn(B, K, HIDDEN)
    lens = torch.tensor([3, 2])
    _, weights = layer(X, X, X, lens, need_weights=True)
    assert weights.shape[-2:] == (K, K) == layer.attention_weights.shape[-2:]
    torch.testing.assert_close(layer.attention_weights, weights.detach())
    assert (weights[..., 3:] == 0).all() and (weights[1, ..., 2:] == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
