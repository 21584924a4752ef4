"""Attention layers that know positions: every promise of the layer holds with each kind."""

import copy
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    ALiBi,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionalEncoding,
    RotaryEncoding,
    attention_mask,
    causal_mask,
)

B, H, N, K, HIDDEN = 2, 3, 7, 5, 12
HEAD = HIDDEN // H
LENS = {"none": None, "padded": torch.tensor([4, 0]), "per-query": torch.randint(0, 8, (2, 7))}
KINDS = {
    "sinusoidal": lambda: PositionalEncoding(HIDDEN, 0.0),
    "learned": lambda: LearnedPositionalEncoding(HIDDEN, 0.0),
    "rotary": lambda: RotaryEncoding(HEAD),
    "alibi": lambda: ALiBi(H),
}


class SelfAttention(nn.Module):
    """One object of positions for the embeddings and for the heads."""

    def __init__(self, positions, attention=None):
        super().__init__()
        self.positions = positions
        self.attention = MultiHeadAttention(
            HIDDEN, H, 0.0, attention=attention, positions=positions
        )

    def forward(self, X, *args, **options):
        X = self.positions(X)
        return self.attention(X, X, X, *args, **options)


@pytest.fixture(params=KINDS)
def model(request):
    model = SelfAttention(KINDS[request.param]())
    model(torch.randn(B, N, HIDDEN))
    return model


@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
def test_weights_on_demand_are_those_of_the_explicit_pass(model, lens, is_causal, masked):
    X, mask = torch.randn(B, N, HIDDEN), torch.rand(B, N, N) < 0.5 if masked else None
    options = dict(mask=mask, is_causal=is_causal)
    output = model(X, lens, **options)
    on_demand = model.attention.attention_weights
    explicit, weights = model(X, lens, need_weights=True, **options)
    assert_close(output, explicit)
    assert_close(on_demand, weights)
    visible = attention_mask((B, N, N), lens, mask, is_causal)
    visible = torch.tensor(True) if visible is None else visible
    visible = visible.expand(B, N, N)[:, None].expand(weights.shape)
    assert (weights[~visible] == 0).all()
    assert_close(weights.sum(-1), visible.any(-1).float())


def test_the_future_changes_nothing_before_it(model):
    X = torch.randn(B, N, HIDDEN)
    before = model(X, is_causal=True)
    X[:, 4:] += 1
    after = model(X, is_causal=True)
    assert_close(before[:, :4], after[:, :4], atol=0, rtol=1e-6)
    assert not torch.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_padding_changes_nothing_not_even_gradients(model, is_causal, need_weights):
    """Keys and values past the length hold NaN; the second sequence has no key at all."""
    lens, results = torch.tensor([4, 0]), []
    clean = [torch.randn(B, n, HIDDEN) for n in (N, N, N)]
    dirty = [x.clone() for x in clean]
    for b, length in enumerate(lens):
        for x in dirty[1:]:
            x[b, length:] = math.nan
    for inputs in (clean, dirty):
        inputs = [x.requires_grad_() for x in inputs]
        model.zero_grad()
        output = model.attention(*inputs, lens, is_causal=is_causal, need_weights=need_weights)
        output = output[0] if need_weights else output
        output.square().sum().backward()
        grads = [x.grad for x in (*inputs, *model.attention.W_o.parameters())]
        results.append([output, model.attention.attention_weights, *grads])
    for one, other in zip(*results, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)
    assert (results[0][0][1] == 0).all()


def test_order_matters_with_positions_and_not_without(model):
    X, order = torch.randn(B, N, HIDDEN), torch.tensor([3, 0, 6, 1, 2, 5, 4])
    plain = MultiHeadAttention(HIDDEN, H, 0.0)
    assert_close(plain(X[:, order], X[:, order], X[:, order]), plain(X, X, X)[:, order])
    assert not torch.allclose(model(X[:, order]), model(X)[:, order], atol=1e-3)


def in_heads(layer, X):
    return (layer.split_heads(W(X)) for W in (layer.W_q, layer.W_k, layer.W_v))


def test_rotary_turns_queries_and_keys_but_not_values():
    model, X = SelfAttention(RotaryEncoding(HEAD)), torch.randn(B, N, HIDDEN)
    output, layer, rotate = model(X), model.attention, model.positions.transform
    queries, keys, values = in_heads(layer, X)
    expected = F.scaled_dot_product_attention(rotate(queries), rotate(keys), values)
    assert_close(output, layer.W_o(layer.merge_heads(expected)))
    wrong = F.scaled_dot_product_attention(rotate(queries), rotate(keys), rotate(values))
    assert not torch.allclose(output, layer.W_o(layer.merge_heads(wrong)), atol=1e-3)


def test_alibi_adds_its_bias_to_the_scores_after_scaling():
    model, X = SelfAttention(ALiBi(H)), torch.randn(B, N, HIDDEN)
    output, layer = model(X, is_causal=True), model.attention
    queries, keys, values = in_heads(layer, X)
    bias = model.positions.bias(N, N).masked_fill(~causal_mask(N), -math.inf)
    expected = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
    assert_close(output, layer.W_o(layer.merge_heads(expected)))


@given(kind=st.sampled_from(sorted(KINDS)), shift=st.integers(1, 50), seed=st.integers(0, 2**16))
def test_who_counts_distances_alone_does_not_know_where_it_stands(kind, shift, seed):
    """The same tokens after a prefix that they cannot see: rotary and ALiBi tell no difference."""
    torch.manual_seed(seed)
    model, X = SelfAttention(KINDS[kind]()), torch.randn(B, N, HIDDEN)
    model.double()
    later = torch.cat((torch.randn(B, shift, HIDDEN), X), dim=1).double()
    mask = torch.arange(shift + N) >= shift
    here, there = model(X.double()), model(later, mask=mask)[:, shift:]
    assert torch.allclose(there, here, atol=1e-7) == (kind in ("rotary", "alibi"))


@pytest.mark.parametrize("kind", ["rotary", "alibi"])
def test_in_cross_attention_both_sequences_count_from_zero(kind):
    layer = MultiHeadAttention(HIDDEN, H, 0.0, positions=KINDS[kind]())
    queries, source = torch.randn(B, N, HIDDEN), torch.randn(B, K, HIDDEN)
    _, weights = layer(queries, source, source, need_weights=True)
    q, k = layer.split_heads(layer.W_q(queries)), layer.split_heads(layer.W_k(source))
    scores = layer.positions.transform(q) @ layer.positions.transform(k).mT / math.sqrt(HEAD)
    if kind == "alibi":
        distance = (torch.arange(N)[:, None] - torch.arange(K)).abs()
        scores = scores - layer.positions.slopes[:, None, None] * distance
    assert_close(weights, scores.softmax(dim=-1))


def test_alibi_inside_additive_attention():
    model = SelfAttention(ALiBi(H), AdditiveAttention(HEAD, 0.0))
    X = torch.randn(B, N, HIDDEN)
    output, weights = model(X, torch.tensor([4, 0]), need_weights=True)
    model.positions.slopes += 100  # so steep that each token sees itself alone
    assert_close(model.attention.attention_weights, weights)
    _, weights = model(X, need_weights=True)
    assert_close(weights, torch.eye(N).expand(B, H, N, N))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(model, dtype):
    X, lens = torch.randn(B, N, HIDDEN), torch.tensor([4, 2])
    expected = model(X, lens, is_causal=True)
    output = model.to(dtype)(X.to(dtype), lens, is_causal=True)
    assert output.dtype == model.attention.attention_weights.dtype == dtype
    tolerance = max(1e-5, 16 * torch.finfo(dtype).eps)
    assert_close(output.float(), expected, atol=tolerance, rtol=tolerance)


def test_mixed_precision(model):
    X = torch.randn(B, N, HIDDEN)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(X, torch.tensor([4, 2]), is_causal=True)
    assert_close(output.float(), model(X, torch.tensor([4, 2]), is_causal=True), atol=0.1, rtol=0.1)
    assert model.attention.attention_weights.shape == (B, H, N, N)


@pytest.mark.parametrize("kind", ["rotary", "alibi"])
def test_compiled_in_one_graph(kind):
    model, lens = SelfAttention(KINDS[kind]()), torch.tensor([4, 0])
    X = torch.randn(B, N, HIDDEN, requires_grad=True)
    expected = model(X, lens, is_causal=True)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    output = compiled(X, lens, is_causal=True)
    assert_close(output, expected)
    output.square().sum().backward()
    assert all(x.grad.isfinite().all() for x in (X, *model.parameters()))


def test_checkpoints_copies_and_pickles(model):
    X = torch.randn(B, N, HIDDEN)
    expected = model(X)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(X), expected)
        assert other.attention.positions is other.positions
    fresh = copy.deepcopy(model)
    for parameter in fresh.parameters():
        nn.init.zeros_(parameter)
    fresh.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(fresh(X), expected)


def test_rotation_keeps_no_matrix_of_all_pairs():
    n, sizes = 211, []
    model = SelfAttention(RotaryEncoding(HEAD))
    model(torch.randn(B, 3, HIDDEN))
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: sizes.append(tensor.numel()) or tensor, lambda tensor: tensor
    ):
        model(torch.randn(B, n, HIDDEN, requires_grad=True), is_causal=True)
    assert max(sizes) <= B * n * HIDDEN


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (RotaryEncoding(HEAD + 2), r"must have shape \(B, H, n, 6\), got \(2, 3, 7, 4\)"),
        (ALiBi(H + 1), r"bias of shape \(4, 7, 7\) does not fit scores of shape \(2, 3, 7, 7\)"),
    ],
)
def test_positions_for_other_heads(positions, message):
    with pytest.raises(ValueError, match=message):
        SelfAttention(positions)(torch.randn(B, N, HIDDEN))
