"""Attention layers that know positions: every promise of the layer holds with each kind."""

import math

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
