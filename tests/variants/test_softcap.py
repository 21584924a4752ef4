import math

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import DotProductAttention, MultiHeadAttention, attention_mask
from d2l_attention.variants.softcap import SoftCappedAttention, soft_capped

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13
MASKS = {"none": None, "one": torch.rand(Q, K) < 0.6, "per head": torch.rand(B, H, Q, K) < 0.5}


def inputs():
    sizes = ((Q, D), (K, D), (K, V))
    return [3 * torch.randn(B, H, *size, dtype=torch.float64, requires_grad=True) for size in sizes]


def test_by_hand():
    assert soft_capped(torch.tensor(0.0), 3.0) == 0
    assert soft_capped(torch.tensor(2.0 * math.atanh(0.5)), 2.0).item() == pytest.approx(1.0)
    assert soft_capped(torch.tensor([-1e9, 1e9]), 5.0).tolist() == [-5.0, 5.0]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
def test_the_formula(mask, biased):
    queries, keys, values = inputs()
    lens, layer = torch.tensor([4, 0]), SoftCappedAttention(1.5, 0.0)
    bias = torch.randn(H, Q, K, dtype=torch.float64) if biased else torch.zeros(H, Q, K)
    scores = 1.5 * torch.tanh(queries @ keys.mT / math.sqrt(D) / 1.5) + bias
    visible = attention_mask((B, H, Q, K), lens, mask)
    exponentials = scores.exp() * visible
    sums = exponentials.sum(-1, keepdim=True)
    weights = exponentials / torch.where(sums > 0, sums, 1.0)
    extra = {"bias": bias} if biased else {}
    mine = layer(queries, keys, values, lens, mask=mask, **extra)
    assert_close(mine, weights @ values)
    assert_close(layer.attention_weights, weights.detach())
    both = layer(queries, keys, values, lens, mask=mask, **extra, need_weights=True)
    assert_close(both, (weights @ values, weights))


def test_a_high_cap_is_plain_attention_and_a_low_one_nearly_the_mean():
    given, lens = inputs(), torch.tensor([4, 7])
    plain = DotProductAttention(0.0)(*given, lens, is_causal=True)
    assert_close(SoftCappedAttention(1e6, 0.0)(*given, lens, is_causal=True), plain)
    low = SoftCappedAttention(1e-9, 0.0)(*given)
    assert_close(low, given[2].mean(-2, keepdim=True).expand_as(low))


def test_no_weight_is_much_larger_than_another():
    queries, keys, values = inputs()
    _, weights = SoftCappedAttention(0.5, 0.0)(100 * queries, keys, values, need_weights=True)
    highest, lowest = weights.amax(-1), weights.amin(-1)
    assert_close(highest / lowest, torch.full_like(highest, math.exp(1.0)))


def test_in_the_heads_of_multi_head_attention():
    heads = MultiHeadAttention(12, H, 0.0, attention=SoftCappedAttention(1.0, 0.0))
    X = torch.randn(B, 6, 12)
    assert heads(X, X, X, is_causal=True).shape == (B, 6, 12)
    assert heads.attention_weights.shape == (B, H, 6, 6)


def test_padding_that_is_not_a_number():
    given, layer = [X.detach() for X in inputs()], SoftCappedAttention(1.5, 0.0)
    clean = layer(*given, torch.tensor([4, 0]))
    for X in given[1:]:
        X[0, :, 4:], X[1] = torch.nan, torch.nan
    given[0][1] = torch.nan
    assert torch.equal(layer(*given, torch.tensor([4, 0])), clean)


@pytest.mark.parametrize("cap", [0, -1.0, math.nan])
def test_errors(cap):
    with pytest.raises(ValueError, match=f"cap must be positive, got {cap}"):
        SoftCappedAttention(cap, 0.0)
