import math

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import DotProductAttention, MultiHeadAttention, attention_mask
from d2l_attention.variants.sinks import SinkAttention

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13
LENS = {"none": None, "padded": torch.tensor([4, 0]), "per query": torch.randint(0, K + 1, (B, Q))}
MASKS = {"none": None, "one": torch.rand(Q, K) < 0.6, "per head": torch.rand(B, H, Q, K) < 0.5}


def inputs():
    sizes = ((Q, D), (K, D), (K, V))
    return [torch.randn(B, H, *size, dtype=torch.float64, requires_grad=True) for size in sizes]


def layer(sinks=None):
    made = SinkAttention(H, 0.0).double()
    if sinks is not None:
        made.sinks.data[:] = torch.tensor(sinks)
    return made


def by_the_formula(queries, keys, values, sinks, mask, bias):
    scores = queries @ keys.mT / math.sqrt(D) + bias
    exponentials = scores.exp() if mask is None else scores.exp() * mask
    weights = exponentials / (exponentials.sum(-1, keepdim=True) + sinks.exp()[:, None, None])
    return weights @ values, weights


@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
def test_the_formula(lens, mask, is_causal, biased):
    given, made = inputs(), layer([-1.0, 0.3, 2.0])
    bias = torch.randn(H, Q, K, dtype=torch.float64) * biased
    options = dict(valid_lens=lens, mask=mask, is_causal=is_causal)
    extra = dict(bias=bias) if biased else {}
    whole = attention_mask((B, H, Q, K), **options)
    output, weights = by_the_formula(*given, made.sinks, whole, bias)
    mine = made(*given, **options, **extra)
    assert_close(mine, output)
    assert_close(made.attention_weights, weights.detach())
    both = made(*given, **options, **extra, need_weights=True)
    assert_close(both, (output, weights))
    expected = torch.autograd.grad(output.square().sum(), (*given, made.sinks))
    for gradient, right in zip(
        torch.autograd.grad(mine.square().sum(), (*given, made.sinks)), expected, strict=True
    ):
        assert_close(gradient, right)


def test_no_sink_is_plain_attention():
    given = inputs()
    output = layer([-math.inf] * H)(*given, torch.tensor([4, 7]), is_causal=True)
    assert_close(output, DotProductAttention(0.0)(*given, torch.tensor([4, 7]), is_causal=True))


def test_by_hand():
    """Two keys with score 0 and a sink of ln 2: a quarter each, and half for the sink."""
    zeros, values = torch.zeros(1, 1, 1, 2), torch.tensor([[[[8.0], [4.0]]]])
    made = SinkAttention(1, 0.0)
    made.sinks.data[:] = math.log(2)
    output, weights = made(zeros, torch.zeros(1, 1, 2, 2), values, need_weights=True)
    assert_close(weights, torch.full((1, 1, 1, 2), 0.25))
    assert output.item() == pytest.approx(3)


def test_in_the_heads_of_multi_head_attention_token_by_token():
    from d2l_attention import KeyValueCache

    torch.manual_seed(0)
    heads = MultiHeadAttention(12, H, 0.0, attention=SinkAttention(H, 0.0)).double()
    X = torch.randn(B, 6, 12, dtype=torch.float64)
    whole, cache = heads(X, X, X, is_causal=True), KeyValueCache()
    steps = [heads(x, x, x, is_causal=True, cache=cache) for x in X.split(1, dim=1)]
    assert_close(torch.cat(steps, dim=1), whole)
    assert heads.attention_weights.shape == (B, H, 1, 6)
    assert (heads.attention_weights.sum(-1) < 1).all()


def test_a_query_that_two_masks_leave_nothing_may_hold_anything():
    given, made = inputs(), layer()
    options = dict(mask=torch.arange(K) > 0, is_causal=True)  # padding on the left
    clean = made(*given, **options).detach()
    with torch.no_grad():
        given[0][:, :, 0] = torch.nan
    output = made(*given, **options)
    assert torch.equal(output, clean) and not output[:, :, 0].any()
    for gradient in torch.autograd.grad(output.sum(), given):
        assert torch.isfinite(gradient).all()


def test_lengths_of_any_whole_numbers():
    given = [torch.randn(1, H, 255, D) for _ in range(3)]
    made, lens = SinkAttention(H, 0.0), torch.tensor([255])
    assert torch.equal(made(*given, lens.to(torch.uint8)), made(*given, lens))


def test_errors():
    given = inputs()
    with pytest.raises(ValueError, match="number of keys, 7, got values from 8 to 8"):
        layer()(*given, torch.tensor([8, 8]))
    with pytest.raises(ValueError, match=r"must have shape \(B, 3, Q, D\), .*got \(2, 4, 5, 11\)"):
        SinkAttention(3, 0.0)(*(torch.ones(2, 4, 5, 11) for _ in range(3)))
    with pytest.raises(ValueError, match=r"D from 1 on, got \(2, 3, 5, 0\)"):
        layer()(*(torch.ones(2, 3, 5, 0) for _ in range(3)))
    with pytest.raises(ValueError, match="num_heads must be a whole number"):
        SinkAttention(0, 0.0)
