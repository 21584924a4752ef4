"""Floats that are added to the scores: the mask contract holds with them, too."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    additive_score,
    attention_mask,
    dot_product_attention,
)

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13
LENS = {
    "none": None,
    "padded": torch.tensor([4, 0]),
    "per-query": torch.tensor([[1, 2, 3, 4, 5], [7, 0, 6, 2, 1]]),
}
SHAPES = {"Q, K": (Q, K), "H, Q, K": (H, Q, K), "B, H, Q, K": (B, H, Q, K), "1, K": (1, K)}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def qkv(dtype=torch.float32):
    return [torch.randn(B, H, *shape).to(dtype) for shape in ((Q, D), (K, D), (K, V))]


def attend(*inputs, need_weights, **options):
    result = dot_product_attention(*inputs, need_weights=need_weights, **options)
    return result[0] if need_weights else result


def explicit(queries, keys, values, bias, visible):
    """The formula in float64, a row of weights at a time."""
    scores = queries.double() @ keys.double().mT / math.sqrt(queries.shape[-1]) + bias.double()
    visible = (torch.tensor(True) if visible is None else visible).expand(scores.shape)
    weights = torch.zeros_like(scores)
    for place in visible.any(dim=-1).nonzero().tolist():
        row, seen = scores[tuple(place)], visible[tuple(place)]
        weights[tuple(place)][seen] = row[seen].softmax(dim=-1)
    return weights @ values.double(), weights


def test_by_hand():
    queries, keys, values = torch.zeros(1, 2), torch.zeros(2, 2), torch.eye(2)
    bias = torch.tensor([[0.0, math.log(3)]])
    output, weights = dot_product_attention(queries, keys, values, bias=bias, need_weights=True)
    assert_close(weights, torch.tensor([[0.25, 0.75]]))
    assert_close(output, torch.tensor([[0.25, 0.75]]))
    assert_close(dot_product_attention(queries, keys, values, bias=bias), output)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
def test_explicit_formula(shape, lens, is_causal, masked):
    inputs, bias = qkv(), 3 * torch.randn(shape)
    mask = torch.rand(B, H, Q, K) < 0.5 if masked else None
    options = dict(mask=mask, is_causal=is_causal, bias=bias)
    visible = attention_mask((B, H, Q, K), lens, mask, is_causal)
    expected, expected_weights = explicit(*inputs, bias, visible)
    output, weights = dot_product_attention(*inputs, lens, need_weights=True, **options)
    fused = dot_product_attention(*inputs, lens, **options)
    assert_close(weights.double(), expected_weights, atol=1e-6, rtol=1e-5)
    assert_close(output.double(), expected, atol=1e-5, rtol=1e-5)
    assert_close(fused.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "explicit"])
class TestBothPaths:
    @pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
    def test_gradients_are_those_of_the_formula(self, lens, need_weights):
        bias = torch.randn(H, Q, K, dtype=torch.float64)
        *inputs, bias = given = [x.requires_grad_() for x in (*qkv(torch.float64), bias)]
        output = attend(*inputs, lens, bias=bias, need_weights=need_weights)
        expected, _ = explicit(*given, attention_mask((B, H, Q, K), lens))
        upstream = torch.randn_like(output)
        found, expected = (torch.autograd.grad(Y, given, upstream) for Y in (output, expected))
        assert_close(found, expected)

    @pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
    def test_what_nobody_sees_changes_nothing(self, is_causal, need_weights):
        lens, bias = torch.tensor([4, 0]), torch.randn(H, Q, K)
        clean = qkv()
        dirty = [x.clone() for x in clean]
        for b, length in enumerate(lens):
            for x in dirty[1:]:
                x[b, :, length:] = math.nan
        results = []
        for inputs in (clean, dirty):
            inputs = [x.requires_grad_() for x in inputs]
            options = dict(bias=bias, is_causal=is_causal, need_weights=need_weights)
            output = attend(*inputs, lens, **options)
            output.square().sum().backward()
            results.append([output, *(x.grad for x in inputs)])
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)
            assert one.isfinite().all()
            assert (one[1] == 0).all()  # the sequence of length 0

    @pytest.mark.parametrize("hidden", [0, 2, Q - 1])
    def test_one_empty_row_among_others(self, hidden, need_weights):
        """Its neighbours see keys, so keys and values are there: only the row itself is 0."""
        mask = torch.ones(Q, K, dtype=torch.bool)
        mask[hidden] = False
        inputs = [x.requires_grad_() for x in qkv()]
        options = dict(mask=mask, bias=torch.randn(H, Q, K), need_weights=need_weights)
        output = attend(*inputs, **options)
        assert (output[:, :, hidden] == 0).all()
        output.square().sum().backward()
        assert (inputs[0].grad[:, :, hidden] == 0).all()
        assert all(x.grad.isfinite().all() for x in inputs)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_dtypes_whatever_that_of_the_bias(self, dtype, need_weights):
        inputs, bias, lens = qkv(dtype), torch.randn(H, Q, K), torch.tensor([4, 0])
        visible = attention_mask((B, H, Q, K), lens)
        expected, _ = explicit(*inputs, bias.to(dtype), visible)
        output = attend(*inputs, lens, bias=bias, need_weights=need_weights)
        assert output.dtype == dtype
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype)
        tolerance = tolerance or 8 * torch.finfo(dtype).eps
        assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)

    def test_errors(self, need_weights):
        bad = [
            (TypeError, "bias must be a tensor of floats, got torch.bool", torch.ones(Q, K) > 0),
            (TypeError, "bias must be a tensor of floats, got float", 1.0),
            (ValueError, r"bias of shape \(7, 5\) does not fit scores of", torch.ones(K, Q)),
            (ValueError, r"bias of shape \(2, 5, 7\) does not fit", torch.ones(B, Q, K)),
            (ValueError, r"bias of shape \(7,\) does not fit", torch.ones(K)),
            (ValueError, "does not fit", torch.ones(1, B, H, Q, K)),
        ]
        for error, message, bias in bad:
            with pytest.raises(error, match=message):
                attend(*qkv(), bias=bias, need_weights=need_weights)
        with pytest.raises(ValueError, match=r"bias of shape \(7, 5\) does not fit"):
            layer = AdditiveAttention(6, 0.0)
            layer(*(x[:, 0] for x in qkv()), bias=torch.ones(K, Q), need_weights=need_weights)


def test_no_row_that_the_kernel_gets_is_hidden_whole(monkeypatch):
    """Softmax of a row of -inf is NaN: that some kernels make it 0 is nothing to build on."""
    given = []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F,
        "scaled_dot_product_attention",
        lambda *args, **options: given.append(options["attn_mask"]) or kernel(*args, **options),
    )
    for lens in (LENS["padded"], LENS["per-query"]):
        dot_product_attention(*qkv(), lens, bias=torch.randn(H, Q, K), is_causal=True)
    assert len(given) == 2
    assert all(bias.isfinite().any(dim=-1).all() for bias in given)


def test_the_fused_kernel_keeps_one_bias_for_all_sequences():
    n, sizes = 61, []
    inputs = [torch.randn(B, H, n, D, requires_grad=True) for _ in range(3)]
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: sizes.append(tensor.numel()) or tensor, lambda tensor: tensor
    ):
        dot_product_attention(*inputs, bias=torch.randn(H, n, n), is_causal=True)
    assert max(sizes) == H * n * n  # the weights would be B times as many


@pytest.mark.parametrize("layer", [DotProductAttention(0.0), AdditiveAttention(6, 0.0)])
def test_layers_read_their_weights_with_the_bias(layer):
    inputs, lens, bias = [x[:, 0] for x in qkv()], torch.tensor([4, 0]), torch.randn(Q, K)
    output, weights = layer(*inputs, lens, bias=bias, need_weights=True)
    assert_close(layer(*inputs, lens, bias=bias), output)
    assert_close(layer.attention_weights, weights)
    assert not torch.allclose(layer(*inputs, lens), output)
    far = bias.clone()
    far[:, 2] += 100  # everybody who may looks at key 2
    _, weights = layer(*inputs, lens, bias=far, need_weights=True)
    assert_close(weights[0, :, 2], torch.ones(Q))


def test_additive_attention_adds_it_to_its_scores():
    queries, keys, values = (x[:, 0] for x in qkv())
    layer, bias = AdditiveAttention(6, 0.0), torch.randn(B, Q, K)
    output = layer(queries, keys, values, bias=bias)
    scores = additive_score(layer.W_q(queries), layer.W_k(keys), layer.w_v.weight[0])
    assert_close(output, F.softmax(scores + bias, dim=-1) @ values)
