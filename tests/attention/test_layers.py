import copy
import math
import pickle
import shutil
import sysconfig
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    additive_score,
    attention_mask,
    causal_mask,
)

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13
HIDDEN = 6  # a multiple of the heads, and no other size
LENS = {"none": None, "padded": torch.tensor([4, 0]), "per-query": torch.randint(0, 8, (2, 5))}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
LAYERS = {
    "dot": lambda dropout=0.0: DotProductAttention(dropout),
    "additive": lambda dropout=0.0: AdditiveAttention(HIDDEN, dropout),
    "multi-head": lambda dropout=0.0: MultiHeadAttention(HIDDEN, H, dropout, bias=True),
    "multi-head additive": lambda dropout=0.0: MultiHeadAttention(
        HIDDEN, H, dropout, attention=AdditiveAttention(HIDDEN, dropout)
    ),
}


def qkv(dtype=torch.float32, num_queries=Q, num_keys=K):
    shapes = (B, num_queries, D), (B, num_keys, D), (B, num_keys, V)
    return [torch.randn(shape).to(dtype) for shape in shapes]


@pytest.fixture(params=LAYERS)
def layer(request):
    """Any attention layer, its lazy parameters made."""
    layer = LAYERS[request.param]()
    layer(*qkv())
    return layer


class TestEveryLayer:
    def test_a_copy_of_a_compiled_layer_is_its_own(self, layer):
        inputs = qkv()
        torch.compiler.reset()
        layer.compile(backend="eager")
        expected = layer(*inputs)
        other = copy.deepcopy(layer)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(3)
        changed = not torch.equal(other(*inputs), expected)
        assert changed == bool(list(layer.parameters()))
        assert torch.equal(pickle.loads(pickle.dumps(layer))(*inputs), expected)

    def test_one_row_of_visible_keys_for_all(self, layer):
        inputs, mask = qkv(), torch.tensor([True, False, True, True, False, True, True])
        assert_close(layer(*inputs, mask=mask), layer(*inputs, mask=mask.expand(Q, K)))

    @pytest.mark.parametrize("sizes", [(1, 7), (5, 1), (1, 1)])
    def test_one_query_or_one_key(self, layer, sizes):
        num_queries, num_keys = sizes
        inputs = qkv(num_queries=num_queries, num_keys=num_keys)
        output, weights = layer(*inputs, need_weights=True)
        assert_close(layer(*inputs), output)
        assert output.shape[:2] == (B, num_queries)
        assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))

    @pytest.mark.parametrize(
        ("error", "message", "change", "options"),
        [
            (ValueError, "keys and values must come in pairs", {2: 1}, {}),
            (ValueError, "leading axes", {0: 0}, {}),
            (TypeError, "mask must be a boolean tensor", {}, {"mask": torch.ones(Q, K)}),
            (ValueError, "does not fit scores", {}, {"mask": torch.ones(K, Q) > 0}),
            (TypeError, "integers, got list", {}, {"valid_lens": [1, 2]}),
            (ValueError, "got values from 1 to 8", {}, {"valid_lens": torch.tensor([1, 8])}),
            (ValueError, "does not fit scores", {}, {"valid_lens": torch.tensor([1, 2, 3])}),
        ],
    )
    @pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "explicit"])
    def test_errors(self, layer, error, message, change, options, need_weights):
        inputs = qkv()
        for index, axis in change.items():
            inputs[index] = inputs[index].narrow(axis, 0, 1)
        with pytest.raises(error, match=message):
            layer(*inputs, **options, need_weights=need_weights)


@pytest.mark.parametrize("name", ["queries", "keys", "values"])
def test_inputs_that_are_no_floats(name):
    for make in LAYERS.values():
        for wrong, what in (
            (torch.ones(B, K, D, dtype=torch.int64), "torch.int64"),
            ([1.0], "list"),
        ):
            inputs = dict(zip(("queries", "keys", "values"), qkv(), strict=True)) | {name: wrong}
            with pytest.raises(TypeError, match=f"{name} must be a tensor of floats, got {what}"):
                make()(**inputs)


def test_dropout_belongs_to_the_attention_inside():
    with pytest.raises(ValueError, match="dropout=0.5 is for the default attention"):
        MultiHeadAttention(6, 3, 0.5, attention=AdditiveAttention(2, 0.5))


def test_dropout_with_lengths():
    """The fused path splits in two where lengths meet causality: both halves drop."""
    layer, ones = DotProductAttention(0.5), torch.ones(1, 400, 1)
    for options in ({}, {"is_causal": True}):
        output = layer(ones, ones, ones, torch.tensor([200]), **options)[0, :, 0]
        for rows in (slice(50, 200), slice(200, 400)):
            assert output[rows].std() > 0.01
            assert output[rows].mean().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("heads", [0, 4, -1, 2.0])
def test_heads_that_do_not_divide(heads):
    with pytest.raises(ValueError, match=f"num_hiddens=6 and num_heads={heads}"):
        MultiHeadAttention(6, heads, 0.0)


def test_gradient_reaches_every_parameter_through_the_weights_too():
    layer = MultiHeadAttention(HIDDEN, H, 0.0, attention=AdditiveAttention(4, 0.0))
    _, weights = layer(*qkv(), need_weights=True)
    weights.square().sum().backward()
    for name in ("W_q", "W_k", "attention.W_q", "attention.W_k", "attention.w_v"):
        assert layer.get_submodule(name).weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize("bias", [False, True])
def test_a_query_that_sees_nothing_gets_the_bias_of_the_last_projection(bias):
    layer = MultiHeadAttention(HIDDEN, H, 0.0, bias=bias)
    output, weights = layer(*qkv(), torch.tensor([0, 4]), need_weights=True)
    expected = layer.W_o.bias if bias else torch.zeros(HIDDEN)
    assert_close(output[0], expected.expand(Q, HIDDEN))
    assert not weights[0].any() and "the bias of ``W_o``" in layer.__doc__


@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
def test_multi_head_is_pytorchs_own(lens):
    """nn.MultiheadAttention, with our weights; its masks are True = ignore."""
    ours = MultiHeadAttention(12, H, 0.0, bias=True)
    queries, keys, values = (torch.randn(B, n, 12) for n in (Q, K, K))
    output, weights = ours(queries, keys, values, lens, need_weights=True)
    theirs = nn.MultiheadAttention(12, H, batch_first=True)
    layers = [ours.W_q, ours.W_k, ours.W_v]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        theirs.out_proj.bias.copy_(ours.W_o.bias)
    visible = attention_mask((B, Q, K), lens)
    hidden = None
    if visible is not None:
        hidden = ~visible.expand(B, Q, K).repeat_interleave(H, dim=0)
    expected, expected_weights = theirs(
        queries, keys, values, attn_mask=hidden, average_attn_weights=False
    )
    rows = slice(None) if visible is None else visible.expand(B, Q, K).any(-1)
    assert_close(output[rows], expected[rows])  # theirs is NaN where nothing is visible
    assert_close(weights.transpose(1, 2)[rows], expected_weights.transpose(1, 2)[rows])


def test_a_mask_for_each_sequence_is_not_one_for_each_head():
    """With as many sequences as heads, a (B, Q, K) mask must not land on the heads."""
    layer = MultiHeadAttention(HIDDEN, H, 0.0)
    queries, keys, values = (torch.randn(H, n, D) for n in (Q, K, K))
    mask = torch.rand(H, Q, K) < 0.5
    _, weights = layer(queries, keys, values, mask=mask, need_weights=True)
    for b in range(H):
        alone, _ = layer(queries[[b]], keys[[b]], values[[b]], mask=mask[b], need_weights=True)
        together = layer(queries, keys, values, mask=mask)
        assert_close(together[b], alone[0])
    assert (weights[~mask[:, None].expand(weights.shape)] == 0).all()
    with pytest.raises(ValueError, match="does not fit scores"):
        DotProductAttention(0.0)(*(torch.randn(H, H, 5, D),) * 3, mask=torch.ones(H, 5, 5) > 0)


def test_a_mask_for_each_head():
    layer = MultiHeadAttention(HIDDEN, H, 0.0)
    mask = torch.rand(B, H, Q, K) < 0.4
    mask[:, :, :, 3] = False
    queries, keys, values = qkv()
    output, weights = layer(queries, keys, values, mask=mask, need_weights=True)
    heads = [layer.W_q(queries), layer.W_k(keys), layer.W_v(values)]
    heads = F.scaled_dot_product_attention(*map(layer.split_heads, heads), attn_mask=mask)
    assert_close(output, layer.W_o(layer.merge_heads(heads)))
    assert_close(layer(queries, keys, values, mask=mask), output)
    assert (weights[~mask] == 0).all()
    keys[:, 3] = values[:, 3] = math.nan  # no head may look there
    assert_close(layer(queries, keys, values, mask=mask), output)


def test_head_split_keeps_tokens_together():
    layer = MultiHeadAttention(HIDDEN, H, 0.0)
    X = torch.arange(2 * 5 * 6).reshape(2, 5, 6)
    heads = layer.split_heads(X)
    assert heads.shape == (2, 3, 5, 2)
    assert heads[1, 2, 4].tolist() == X[1, 4, 4:6].tolist()
    assert torch.equal(layer.merge_heads(heads), X)
    mixed = X.view(2, 3, 5, 2)  # the mistake: the same shape, other tokens
    assert mixed[0, 0, 1].tolist() == X[0, 0, 2:4].tolist()  # still the first token
    assert heads[0, 0, 1].tolist() == X[0, 1, 0:2].tolist()


def test_multi_head_wants_a_batch():
    with pytest.raises(ValueError, match=r"shape \(B, Q, size\), got \(5, 6\)"):
        MultiHeadAttention(6, 3, 0.0)(*(torch.randn(5, 6),) * 3)


@pytest.mark.skipif(
    shutil.which("g++") is None
    or " " in torch.__file__
    or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="the compiler needs g++, Python's headers and a path without spaces",
)
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # torch's own
def test_compiled_for_real():
    """Once through the default compiler, not only its tracing front end."""
    layer = MultiHeadAttention(HIDDEN, H, 0.0)
    inputs, lens = qkv(), torch.tensor([4, 0])
    expected = layer(*inputs, lens)
    torch.compiler.reset()
    assert_close(torch.compile(layer)(*inputs, lens), expected)


@pytest.mark.parametrize("lens", [[0, 0], [0, 7], [7, 7], [3, 3], [2, 6], [7, 4]], ids=str)
@pytest.mark.parametrize("num_queries", [0, 1, 4, 7, 9])
def test_lengths_and_the_future_from_the_shortest_to_the_longest(lens, num_queries):
    shapes = (2, 3, num_queries, 5), (2, 3, 7, 5), (2, 3, 7, 11)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    lens = torch.tensor(lens)
    results = []
    for options in ({"is_causal": True}, {"mask": causal_mask(num_queries, 7)}):
        output = DotProductAttention(0.0)(*inputs, lens, **options)
        results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    assert_close(*results)


def test_hooks_on_the_attention_inside_the_heads_fire():
    layer, X, seen = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(2, 5, HIDDEN), []
    layer.attention.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    layer(X, X, X)
    assert seen == [(2, H, 5, HIDDEN // H)]


def test_only_a_layer_of_this_kind_serves_as_attention():
    with pytest.raises(TypeError, match="attention must be an AttentionLayer, got Linear"):
        MultiHeadAttention(HIDDEN, H, 0.0, attention=torch.nn.Linear(3, 3))


def test_a_score_of_ones_own_needs_the_formula_too():
    # Its output would be that of the old score, and its weights those of the new one.
    for layer in (DotProductAttention, AdditiveAttention):
        with pytest.raises(TypeError, match="Mine has its own score: it needs its own attend"):
            type("Mine", (layer,), {"score": staticmethod(additive_score)})


@pytest.mark.parametrize("make", [DotProductAttention, lambda p: AdditiveAttention(2, p)])
def test_an_attention_that_is_given_to_heads_stays_as_it_was(make):
    attention, clean = make(0.0), [torch.randn(B, n, 2) for n in (Q, K, K)]
    lens = torch.tensor([4, 0])
    dirty = [X.clone() for X in clean]
    for X in dirty[1:]:
        X[0, 4:] = X[1] = math.nan
    expected, before = attention(*clean, lens), dict(vars(attention), _last=None)
    layer = MultiHeadAttention(HIDDEN, H, 0.0, attention=attention)
    assert layer.attention is attention
    assert dict(vars(attention), _last=None) == before
    layer(*qkv(), lens)
    assert_close(layer.attention.attention_weights, layer.attention_weights)
    assert torch.equal(attention(*dirty, lens), expected)


def test_the_error_on_sizes_tells_the_shapes_that_were_given():
    X = torch.randn(2, 5, 8)
    with pytest.raises(ValueError, match=r"queries \(2, 5, 3\) and keys \(2, 5, 8\)"):
        DotProductAttention(0.0)(X[..., :3], X, X, torch.tensor([2, 3]))


class TestOddSizes:
    """What a reviewer broke once."""

    @pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64])
    def test_lengths_of_any_integer_type_for_more_tokens_than_the_type_counts(self, dtype):
        X, lens = torch.randn(2, 2, 300, 4), torch.tensor([3, 100])
        layer = DotProductAttention(0.0)
        expected = layer(X, X, X, lens, is_causal=True)
        assert torch.equal(layer(X, X, X, lens.to(dtype), is_causal=True), expected)

    def test_no_queries_with_lengths_and_the_future_hidden(self):
        layer, X = MultiHeadAttention(HIDDEN, H, 0.0), torch.randn(2, 5, HIDDEN)
        assert layer(X[:, :0], X, X, torch.tensor([3, 5]), is_causal=True).shape == (2, 0, HIDDEN)

    def test_a_negative_offset_is_an_error_everywhere(self):
        X = torch.randn(1, 3, 4)
        for layer in (DotProductAttention(0.0), AdditiveAttention(3, 0.0)):
            with pytest.raises(ValueError, match="offset must be 0 or more, got -1"):
                layer(X, X, X, offset=-1)
