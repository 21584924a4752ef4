"""Answers to chapter 3 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from d2l_attention import scaled_dot_score

# 3.2 --------------------------------------------------------------------------------------


def all_pairs_by_loops(queries, keys):
    rows = []
    for q in queries.unbind(-2):
        rows.append(torch.stack([(q * k).sum(-1) for k in keys.unbind(-2)], dim=-1))
    return torch.stack(rows, dim=-2)


def loop_that_ends_with_the_queries(queries, keys):
    n = queries.shape[-2]
    rows = [[(queries[..., i, :] * keys[..., j, :]).sum(-1) for j in range(n)] for i in range(n)]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def sentences_mixed(queries, keys):
    return torch.tensordot(queries, keys, dims=([-1], [-1]))


# 3.4 --------------------------------------------------------------------------------------


def distance_by_longer_vectors(queries, keys):
    """(q, -|q|²/2, 1) · (k, 1, -|k|²/2)."""
    one_q, one_k = (torch.ones_like(X[..., :1]) for X in (queries, keys))
    half_q, half_k = (-0.5 * X.pow(2).sum(-1, keepdim=True) for X in (queries, keys))
    q, k = torch.cat([queries, half_q, one_q], -1), torch.cat([keys, one_k, half_k], -1)
    return q @ k.transpose(-1, -2)


def key_lengths_without_an_axis(queries, keys):
    lengths = queries.square().sum(-1, keepdim=True) + keys.square().sum(-1)
    return queries @ keys.mT - lengths / 2


def loop_over_coordinates(queries, keys):
    pairs = zip(queries.unbind(-1), keys.unbind(-1), strict=True)
    return -sum((q[..., :, None] - k[..., None, :]) ** 2 for q, k in pairs) / 2


def differences_by_vmap(queries, keys):
    def one_query(q, k):
        return torch.vmap(lambda key: -(q - key).square().sum() / 2)(k)

    if queries.ndim == 2:
        return torch.vmap(one_query, (0, None))(queries, keys)
    flat = queries.flatten(0, -3), keys.flatten(0, -3)
    scores = torch.vmap(torch.vmap(one_query, (0, None)))(*flat)
    return scores.reshape(*queries.shape[:-1], keys.shape[-2])


# 3.5 --------------------------------------------------------------------------------------


def by_loops(queries, keys, values):
    sentences = []
    for Q, K, V in zip(queries, keys, values, strict=True):
        rows = []
        for q in Q:
            shares = [math.e ** ((q * k).sum() / math.sqrt(len(k))) for k in K]
            rows.append(sum(share * v for share, v in zip(shares, V, strict=True)) / sum(shares))
        sentences.append(torch.stack(rows))
    return torch.stack(sentences)


def weights_only(queries, keys, values):
    return scaled_dot_score(queries, keys).softmax(dim=-1)


def output_and_weights(queries, keys, values):
    weights = weights_only(queries, keys, values)
    return weights @ values, weights


def causal_where_it_fits(queries, keys, values):
    square = queries.shape[1] == keys.shape[1] > 1
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=square)


# 3.6 --------------------------------------------------------------------------------------


def compares_with_a_loop(implementation):
    queries, keys = torch.rand(4, 6), torch.rand(3, 6)
    scores = implementation(queries, keys)
    assert scores.shape == (4, 3)
    for i in range(4):
        for j in range(3):
            assert abs(scores[i, j] - queries[i] @ keys[j] / math.sqrt(6)) < 1e-4


def every_digit_of_the_package(implementation):
    inputs = torch.randn(2, 3, 7), torch.randn(2, 5, 7)
    assert torch.equal(implementation(*inputs), scaled_dot_score(*inputs))


def one_tensor_for_both(implementation):
    x = torch.randn(4, 7)
    torch.testing.assert_close(implementation(x, x), x @ x.T / 7**0.5)


# 3.7 --------------------------------------------------------------------------------------


def trained():
    generator = torch.Generator().manual_seed(1)
    W_q, W_k = (torch.randn(8, 2, generator=generator, requires_grad=True) for _ in "qk")
    w_v = torch.randn(8, generator=generator, requires_grad=True)
    x, optimiser = torch.tensor([[1.0, 1], [-1, 1]]), torch.optim.Adam([W_q, W_k, w_v], 0.1)
    for _ in range(50):
        scores = torch.tanh((x @ W_q.T)[:, None] + (x @ W_k.T)[None]) @ w_v
        loss = F.cross_entropy(scores, torch.arange(2))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return W_q, W_k, w_v


def constant_left_out():
    W = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]])
    return W, W, torch.tensor([1.0, 1.0, -0.3])


def single_unit():
    return torch.ones(1, 2), torch.ones(1, 2), torch.ones(1)


def other_sign():
    W_q, W_k, w_v = trained()
    return W_q, W_k, -w_v


def one_query_too_little():
    W = torch.tensor([[1.0, 0.5], [1.0, -0.25]])
    return W, W, torch.tensor([-0.35, 1.0])


def on_its_side():
    W = torch.tensor([[1.0, 1.0, 0.3], [0.5, -0.5, 0.1]])
    return W, W, torch.tensor([-1.0, 1.0, 0.0])


def nothing_returned():
    trained()


def lists():
    return [[1.0, 0.5], [1.0, -0.5]], [[1.0, 0.5], [1.0, -0.5]], [-1.0, 1.0]


RIGHT = {
    "3.1": [[torch.tensor(2), np.int64(0)]],
    "3.2": [all_pairs_by_loops],
    "3.3": [Fraction(300)],
    "3.4": [distance_by_longer_vectors],
    "3.5": [by_loops],
    "3.6": [compares_with_a_loop],
    "3.7": [trained],
}
WRONG = {
    "3.1": [
        ((8, 1), "Not how large or how near"),
        ([(5, -2), (1, 1)], "not the keys themselves"),
    ],
    "3.2": [
        (loop_that_ends_with_the_queries, "counts on Q = K"),
        (sentences_mixed, "Every sentence needs its own product"),
    ],
    "3.3": [
        (298.4, "looks measured"),
        (np.sqrt(300), "that is the standard deviation"),
    ],
    "3.4": [
        (key_lengths_without_an_axis, "for a batch they are not"),
        (differences_by_vmap, "a whole vector for each pair"),
        (loop_over_coordinates, "a loop over the coordinates"),
    ],
    "3.5": [
        (weights_only, "the average of the values, is missing"),
        (output_and_weights, "more than one thing"),
        (causal_where_it_fits, "as many queries as keys"),
    ],
    "3.6": [
        (every_digit_of_the_package, "but for the last digits"),
        (one_tensor_for_both, "are one shape"),
    ],
    "3.7": [
        (constant_left_out, "the constant 1 never gets in"),
        (single_unit, "With a single hidden unit"),
        (other_sign, "upside down"),
        (one_query_too_little, "by less than 0.01"),
        (on_its_side, "stands on its side"),
        (nothing_returned, "Return three tensors"),
        (lists, "`W_q` is a list"),
    ],
}
