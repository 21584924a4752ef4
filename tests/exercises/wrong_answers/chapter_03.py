"""Answers to chapter 3 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong

from d2l_attention import scaled_dot_score


@right("3.2")
def all_pairs_by_loops(queries, keys):
    rows = []
    for q in queries.unbind(-2):
        rows.append(torch.stack([(q * k).sum(-1) for k in keys.unbind(-2)], dim=-1))
    return torch.stack(rows, dim=-2)


@wrong("3.2", "counts on Q = K")
def loop_that_ends_with_the_queries(queries, keys):
    n = queries.shape[-2]
    rows = [[(queries[..., i, :] * keys[..., j, :]).sum(-1) for j in range(n)] for i in range(n)]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


@wrong("3.2", "Every sentence needs its own product")
def sentences_mixed(queries, keys):
    return torch.tensordot(queries, keys, dims=([-1], [-1]))


@right("3.4")
def distance_by_longer_vectors(queries, keys):
    """(q, -|q|²/2, 1) · (k, 1, -|k|²/2)."""
    one_q, one_k = (torch.ones_like(X[..., :1]) for X in (queries, keys))
    half_q, half_k = (-0.5 * X.pow(2).sum(-1, keepdim=True) for X in (queries, keys))
    q, k = torch.cat([queries, half_q, one_q], -1), torch.cat([keys, one_k, half_k], -1)
    return q @ k.transpose(-1, -2)


@wrong("3.4", "for a batch they are not")
def key_lengths_without_an_axis(queries, keys):
    lengths = queries.square().sum(-1, keepdim=True) + keys.square().sum(-1)
    return queries @ keys.mT - lengths / 2


@wrong("3.4", "a loop over the coordinates")
def loop_over_coordinates(queries, keys):
    pairs = zip(queries.unbind(-1), keys.unbind(-1), strict=True)
    return -sum((q[..., :, None] - k[..., None, :]) ** 2 for q, k in pairs) / 2


@wrong("3.4", "a whole vector for each pair")
def differences_by_vmap(queries, keys):
    def one_query(q, k):
        return torch.vmap(lambda key: -(q - key).square().sum() / 2)(k)

    if queries.ndim == 2:
        return torch.vmap(one_query, (0, None))(queries, keys)
    flat = queries.flatten(0, -3), keys.flatten(0, -3)
    scores = torch.vmap(torch.vmap(one_query, (0, None)))(*flat)
    return scores.reshape(*queries.shape[:-1], keys.shape[-2])


@right("3.5")
def by_loops(queries, keys, values):
    sentences = []
    for Q, K, V in zip(queries, keys, values, strict=True):
        rows = []
        for q in Q:
            shares = [math.e ** ((q * k).sum() / math.sqrt(len(k))) for k in K]
            rows.append(sum(share * v for share, v in zip(shares, V, strict=True)) / sum(shares))
        sentences.append(torch.stack(rows))
    return torch.stack(sentences)


@wrong("3.5", "the average of the values, is missing")
def weights_only(queries, keys, values):
    return scaled_dot_score(queries, keys).softmax(dim=-1)


@wrong("3.5", "more than one thing")
def output_and_weights(queries, keys, values):
    weights = weights_only(queries, keys, values)
    return weights @ values, weights


@right("3.6")
def compares_with_a_loop(implementation):
    queries, keys = torch.rand(4, 6), torch.rand(3, 6)
    scores = implementation(queries, keys)
    assert scores.shape == (4, 3)
    for i in range(4):
        for j in range(3):
            assert abs(scores[i, j] - queries[i] @ keys[j] / math.sqrt(6)) < 1e-4


@wrong("3.6", "but for the last digits")
def every_digit_of_the_package(implementation):
    inputs = torch.randn(2, 3, 7), torch.randn(2, 5, 7)
    assert torch.equal(implementation(*inputs), scaled_dot_score(*inputs))


@wrong("3.6", "are one shape")
def one_tensor_for_both(implementation):
    x = torch.randn(4, 7)
    torch.testing.assert_close(implementation(x, x), x @ x.T / 7**0.5)


@right("3.7")
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


@wrong("3.7", "the constant 1 never gets in")
def constant_left_out():
    W = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]])
    return W, W, torch.tensor([1.0, 1.0, -0.3])


@wrong("3.7", "With a single hidden unit")
def single_unit():
    return torch.ones(1, 2), torch.ones(1, 2), torch.ones(1)


@wrong("3.7", "upside down")
def other_sign():
    W_q, W_k, w_v = trained()
    return W_q, W_k, -w_v


@wrong("3.7", "a column for each of the two numbers")
def on_its_side():
    W = torch.tensor([[1.0, 1.0, 0.3], [0.5, -0.5, 0.1]])
    return W, W, torch.tensor([-1.0, 1.0, 0.0])


right("3.1")([torch.tensor(2), np.int64(0)])
wrong("3.1", "Not how large or how near")((8, 1))
wrong("3.1", "not the keys themselves")([(5, -2), (1, 1)])
right("3.3")(Fraction(300))
wrong("3.3", "looks measured")(298.4)
wrong("3.3", "that is the standard deviation")(np.sqrt(300))
