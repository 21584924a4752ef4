"""Learned queries are cross-attention from a parameter."""

import math

import pytest
import torch
from torch.testing import assert_close

from d2l_attention.variants import LearnedQueries

B, H, N, K, D, HIDDEN = 2, 3, 5, 7, 11, 6
EXACT = {"atol": 1e-10, "rtol": 1e-10}


def make(dropout=0.0, num_queries=N):
    layer = LearnedQueries(num_queries, HIDDEN, H, dropout)
    layer(torch.randn(B, K, D))
    return layer.double()


def memory(dtype=torch.float64):
    return torch.randn(B, K, D, dtype=dtype)


def test_equals_attention_of_the_queries_to_each_memory():
    layer, X, lens = make(), memory(), torch.tensor([4, 7])
    output, weights = layer(X, lens, need_weights=True)
    assert output.shape == (B, N, HIDDEN) and weights.shape == (B, H, N, K)
    for b, length in enumerate(lens):
        rows = X[[b], :length]
        assert_close(output[b], layer.attention(layer.queries[None], rows, rows)[0], **EXACT)
    q = layer.attention.W_q(layer.queries)[:, :2]  # the first head by the formula
    k = layer.attention.W_k(X[1])[:, :2]
    assert_close(weights[1, 0], (q @ k.T / math.sqrt(2)).softmax(-1), **EXACT)


def test_outputs_change_places_with_their_queries():
    layer, X, order = make(), memory(), torch.tensor([3, 1, 4, 0, 2])
    output = layer(X)
    with torch.no_grad():
        layer.queries.copy_(layer.queries[order])
    assert_close(layer(X), output[:, order], **EXACT)


def test_a_mask_hides_pixels():
    layer, X = make(), memory()
    seen = torch.tensor([True, False, True, True, False, True, True])
    expected = layer(X[:, seen])
    assert_close(layer(X, mask=seen), expected, **EXACT)
    assert_close(layer(X, mask=seen.expand(B, 1, K)), expected, **EXACT)


def test_queries_are_learned_and_differ():
    layer = make()
    layer(memory()).square().sum().backward()
    assert (layer.queries.grad != 0).all()
    assert "queries" in layer.state_dict()
    assert len(layer.queries.unique(dim=0)) == N


def test_one_query_one_key_and_no_batch():
    assert make(num_queries=1)(memory()[:, :1]).shape == (B, 1, HIDDEN)
    assert make()(memory()[:0]).shape == (0, N, HIDDEN)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "num_queries must be .* from 1 on, got 0", lambda: make(num_queries=0)),
        (ValueError, "got 2.0", lambda: make(num_queries=2.0)),
        (ValueError, "num_heads=4", lambda: LearnedQueries(N, 6, 4, 0.0)),
        (ValueError, r"memory must .* \(B, K, size\), got \(7, 11\)", lambda: make()(memory()[0])),
        (TypeError, "memory must be a tensor of floats", lambda: make()([[1.0]])),
        (ValueError, "from 1 to 8", lambda: make()(memory(), torch.tensor([1, 8]))),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()
