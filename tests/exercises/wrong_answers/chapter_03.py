"""Answers to chapter 3 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from d2l_attention import causal_mask, gaussian_score, scaled_dot_score

# 3.2 --------------------------------------------------------------------------------------


def all_pairs_by_einsum(queries, keys):
    return torch.einsum("...qd,...kd->...qk", queries, keys)


def all_pairs_by_broadcasting(queries, keys):
    return queries.unsqueeze(-2).mul(keys.unsqueeze(-3)).sum(dim=-1)


def all_pairs_by_loops(queries, keys):
    rows = []
    for q in queries.unbind(-2):
        rows.append(torch.stack([(q * k).sum(-1) for k in keys.unbind(-2)], dim=-1))
    return torch.stack(rows, dim=-2)


def all_pairs_in_double(queries, keys):
    turned = torch.matmul(keys.double(), queries.double().mT)
    return turned.swapaxes(-1, -2).to(queries.dtype)


def pairs_by_zip(queries, keys):
    return torch.stack([q @ k for q, k in zip(queries, keys, strict=False)])


def cut_by_view(queries, keys):
    K, D = keys.shape[-2:]
    return queries @ keys.contiguous().view((*keys.shape[:-2], D, K))


def cut_by_unflatten(queries, keys):
    turned = keys.flatten(-2).unflatten(-1, (keys.shape[-1], keys.shape[-2]))
    return torch.matmul(queries, turned)


def loop_that_ends_with_the_queries(queries, keys):
    n = queries.shape[-2]
    rows = [[(queries[..., i, :] * keys[..., j, :]).sum(-1) for j in range(n)] for i in range(n)]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def sentences_mixed(queries, keys):
    return torch.tensordot(queries, keys, dims=([-1], [-1]))


def batches_only(queries, keys):
    return torch.bmm(queries, keys.transpose(1, 2))


def batches_only_by_einsum(queries, keys):
    return torch.einsum("bqd,bkd->bqk", queries, keys)


def keys_detached(queries, keys):
    return queries @ keys.detach().mT


def through_numpy(queries, keys):
    return torch.from_numpy(queries.detach().numpy() @ np.swapaxes(keys.detach().numpy(), -1, -2))


def in_single_precision(queries, keys):
    return queries.float() @ keys.float().mT


# 3.4 --------------------------------------------------------------------------------------


def distance_by_einsum(queries, keys):
    squares_q = torch.einsum("...qd,...qd->...q", queries, queries)[..., None]
    squares_k = torch.einsum("...kd,...kd->...k", keys, keys)[..., None, :]
    return -(squares_q + squares_k - 2 * torch.einsum("...qd,...kd->...qk", queries, keys)) / 2


def distance_by_cdist(queries, keys):
    return torch.cdist(queries, keys) ** 2 / -2


def distance_in_double(queries, keys):
    q, k = queries.double(), keys.double()
    lengths = (q**2).sum(-1, keepdim=True), (k**2).sum(-1, keepdim=True).mT
    return (q @ k.mT - 0.5 * sum(lengths)).to(queries.dtype)


def distance_by_longer_vectors(queries, keys):
    """(q, -|q|²/2, 1) · (k, 1, -|k|²/2)."""
    one_q, one_k = (torch.ones_like(X[..., :1]) for X in (queries, keys))
    half_q, half_k = (-0.5 * X.pow(2).sum(-1, keepdim=True) for X in (queries, keys))
    q, k = torch.cat([queries, half_q, one_q], -1), torch.cat([keys, one_k, half_k], -1)
    return q @ k.transpose(-1, -2)


def lengths_without_an_axis(queries, keys):
    return queries @ keys.mT - (queries.pow(2).sum(-1) + keys.pow(2).sum(-1)) / 2


def key_lengths_without_an_axis(queries, keys):
    lengths = queries.square().sum(-1, keepdim=True) + keys.square().sum(-1)
    return queries @ keys.mT - lengths / 2


def all_differences(queries, keys):
    return -(queries.unsqueeze(-2) - keys.unsqueeze(-3)).pow(2).sum(-1) / 2


def loop_over_the_queries(queries, keys):
    rows = [-(q.unsqueeze(-2) - keys).square().sum(-1) / 2 for q in queries.unbind(-2)]
    return torch.stack(rows, dim=-2)


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


def root_and_square(queries, keys):
    """Right but for the gradient of a root at 0."""
    squares = -2 * distance_by_einsum(queries, keys)
    return squares.clamp(min=0).sqrt().square() / -2


def lengths_by_item(queries, keys):
    products = queries @ keys.mT
    return products - (products - gaussian_score(queries, keys)).detach()


# 3.5 --------------------------------------------------------------------------------------


def by_pytorch(queries, keys, values):
    return F.scaled_dot_product_attention(queries, keys, values)


def by_loops(queries, keys, values):
    sentences = []
    for Q, K, V in zip(queries, keys, values, strict=True):
        rows = []
        for q in Q:
            shares = [math.e ** ((q * k).sum() / math.sqrt(len(k))) for k in K]
            rows.append(sum(share * v for share, v in zip(shares, V, strict=True)) / sum(shares))
        sentences.append(torch.stack(rows))
    return torch.stack(sentences)


def by_einsum_in_double(queries, keys, values):
    scores = torch.einsum("bqd,bkd->bqk", queries.double(), keys.double()).div(keys.size(2) ** 0.5)
    weights = (scores - scores.logsumexp(2, keepdim=True)).exp()
    return torch.einsum("bqk,bkv->bqv", weights, values.double()).to(values.dtype)


def both_sides_divided(queries, keys, values):
    root = queries.shape[-1] ** 0.5
    return torch.softmax((queries / root) @ (keys / root).mT, -1) @ values


def weights_only(queries, keys, values):
    return scaled_dot_score(queries, keys).softmax(dim=-1)


def output_and_weights(queries, keys, values):
    weights = weights_only(queries, keys, values)
    return weights @ values, weights


def measured_spread(queries, keys, values):
    scores = queries @ keys.mT
    return F.softmax((scores - scores.mean()) / scores.std(), dim=-1) @ values


def causal_where_it_fits(queries, keys, values):
    square = queries.shape[1] == keys.shape[1] > 1
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=square)


def masked_where_it_fits(queries, keys, values):
    scores = scaled_dot_score(queries, keys)
    if scores.shape[1] == scores.shape[2] > 1:
        scores = scores.masked_fill(~causal_mask(scores.shape[1]).mT, -math.inf)
    return scores.softmax(-1) @ values


def turned_where_it_fits(queries, keys, values):
    weights = weights_only(queries, keys, values)
    return (weights.mT if queries.shape[1] == keys.shape[1] else weights) @ values


def values_detached(queries, keys, values):
    return by_pytorch(queries, keys, values.data)


# 3.6 --------------------------------------------------------------------------------------


def three_sizes(B=2, Q=3, K=5, D=7):
    return torch.randn(B, Q, D), torch.randn(B, K, D)


def compares_with_a_loop(implementation):
    queries, keys = torch.rand(4, 6), torch.rand(3, 6)
    scores = implementation(queries, keys)
    assert scores.shape == (4, 3)
    for i in range(4):
        for j in range(3):
            assert abs(scores[i, j] - queries[i] @ keys[j] / math.sqrt(6)) < 1e-4


def compares_with_the_package(implementation):
    inputs = three_sizes()
    torch.testing.assert_close(implementation(*inputs), scaled_dot_score(*inputs))


def compares_with_numpy(implementation):
    queries, keys = (X[0].double() for X in three_sizes())
    expected = np.einsum("qd,kd->qk", queries.numpy(), keys.numpy()) / np.sqrt(7)
    np.testing.assert_allclose(implementation(queries, keys).numpy(), expected, rtol=1e-6)


def by_hand_to_the_digit(implementation):
    keys = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0]])
    assert implementation(torch.tensor([[1.0, 2, 3, 4]]), keys).tolist() == [[2.5, 1.0]]


def without_a_call(implementation):
    assert scaled_dot_score(*three_sizes()).shape == (2, 3, 5)


def shape_only(implementation):
    assert implementation(*three_sizes()).shape == (2, 3, 5)


def every_digit(implementation):
    queries, keys = three_sizes()
    assert torch.equal(implementation(queries, keys), queries @ keys.mT / 7**0.5)


def every_digit_of_the_package(implementation):
    inputs = three_sizes()
    assert torch.equal(implementation(*inputs), scaled_dot_score(*inputs))


def one_tensor_for_both(implementation):
    x = torch.randn(4, 7)
    torch.testing.assert_close(implementation(x, x), x @ x.T / 7**0.5)


def zeros_only(implementation):
    assert (implementation(torch.zeros(2, 5), torch.randn(3, 5)) == 0).all()


def whole_numbers(implementation):
    queries, keys = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 0, 0, 1], [0, 1, 0, 0]])
    assert implementation(queries, keys).tolist() == [[2.5, 1.0]]


def asks_for_the_name(implementation):
    shape_only(implementation)
    assert implementation.__name__ in ("implementation", "scaled_dot_score")


# 3.7 --------------------------------------------------------------------------------------


def a_bump_and_a_dip():
    W_q = torch.tensor([[2, 1, 0.3], [2, -1, 0.1]], dtype=torch.float64)[:, :2]
    return [torch.nn.Parameter(W_q), W_q + 0.1, torch.tensor([-3.0, 3.0]).double()]


def four_units_one_constant():
    W_k = torch.tensor([[1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]])
    W_q = W_k * torch.tensor([1.0, 0.0])
    return W_q, W_k, torch.tensor([-1.0, 1.0, -1.0, 1.0])


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


def constant_cancels():
    W_q, W_k = torch.tensor([[1.0, 0.5], [1.0, -0.5]]), torch.tensor([[1.0, -0.5], [1.0, 0.5]])
    return W_q, W_k, torch.tensor([-1.0, 1.0])


def single_unit():
    return torch.ones(1, 2), torch.ones(1, 2), torch.ones(1)


def other_sign():
    W_q, W_k, w_v = four_units_one_constant()
    return W_q, W_k, -w_v


def one_query_too_little():
    W = torch.tensor([[1.0, 0.5], [1.0, -0.25]])
    return W, W, torch.tensor([-0.35, 1.0])


def on_its_side():
    W = torch.tensor([[1.0, 1.0, 0.3], [0.5, -0.5, 0.1]])
    return W, W, torch.tensor([-1.0, 1.0, 0.0])


def nothing_returned():
    four_units_one_constant()


def lists():
    return [[1.0, 0.5], [1.0, -0.5]], [[1.0, 0.5], [1.0, -0.5]], [-1.0, 1.0]


RIGHT = {
    "3.1": [[2, 0], torch.tensor([2, 0]), [torch.tensor(2), np.int64(0)], (2.0, 0.0)],
    "3.2": [
        all_pairs_by_einsum,
        all_pairs_by_broadcasting,
        all_pairs_by_loops,
        all_pairs_in_double,
    ],
    "3.3": [300.0, np.float32(300), torch.tensor(300), Fraction(300), [100 * (1.1 + 1 + 0.9)]],
    "3.4": [distance_by_einsum, distance_by_cdist, distance_in_double, distance_by_longer_vectors],
    "3.5": [by_pytorch, by_loops, by_einsum_in_double],
    "3.6": [
        compares_with_a_loop,
        compares_with_the_package,
        compares_with_numpy,
        by_hand_to_the_digit,
    ],
    "3.7": [a_bump_and_a_dip, four_units_one_constant, trained],
}
WRONG = {
    "3.1": [
        ((1, 2), "largest sum of entries"),
        ((0, 2), "the other way round"),
        ([torch.tensor(3), 1], "count from 1"),
        ((8, 1), "Not how large or how near"),
        ([(5, -2), (1, 1)], "not the keys themselves"),
        ("2 and 0", "Give a list of numbers"),
    ],
    "3.2": [
        (cut_by_view, "in their old order, cut into rows of another length"),
        (cut_by_unflatten, "in their old order, cut into rows of another length"),
        (pairs_by_zip, "That is one score a query"),
        (loop_that_ends_with_the_queries, "counts on Q = K"),
        (sentences_mixed, "Every sentence needs its own product"),
        (batches_only, "not for a single one"),
        (batches_only_by_einsum, "not for a single one"),
        (keys_detached, "no gradient reaches `keys`"),
        (through_numpy, "no gradient comes through"),
        (in_single_precision, "is float32; for these inputs it should be float64"),
    ],
    "3.3": [
        (298.4, "looks measured"),
        (10_000, "The squared mean of q · k is no spread"),
        (np.sqrt(300), "that is the standard deviation"),
        (500, "too large"),
        ("300", "Give a number"),
    ],
    "3.4": [
        (lengths_without_an_axis, "Where does each squared length belong?"),
        (key_lengths_without_an_axis, "for a batch they are not"),
        (all_differences, "a whole vector for each pair"),
        (differences_by_vmap, "a whole vector for each pair"),
        (loop_over_the_queries, "a loop over the queries"),
        (loop_over_coordinates, "a loop over the coordinates"),
        (root_and_square, "the gradient of `queries` is NaN"),
        (lengths_by_item, "the gradient of `queries` is not"),
    ],
    "3.5": [
        (both_sides_divided, "Both sides divided by the root"),
        (weights_only, "the average of the values, is missing"),
        (output_and_weights, "more than one thing"),
        (measured_spread, "the spread that you measure"),
        (causal_where_it_fits, "as many queries as keys"),
        (masked_where_it_fits, "as many queries as keys"),
        (turned_where_it_fits, "as many queries as keys"),
        (values_detached, "no gradient reaches `values`"),
    ],
    "3.6": [
        (without_a_call, "without ever calling `implementation`"),
        (shape_only, "it looks at the shape alone"),
        (every_digit, "wants every digit to agree"),
        (every_digit_of_the_package, "but for the last digits"),
        (one_tensor_for_both, "are one shape"),
        (zeros_only, "All your scores are 0"),
        (whole_numbers, "with whole numbers"),
        (asks_for_the_name, "not at which one it is"),
    ],
    "3.7": [
        (constant_left_out, "the constant 1 never gets in"),
        (constant_cancels, "so the constant cancels"),
        (single_unit, "With a single hidden unit"),
        (other_sign, "upside down"),
        (one_query_too_little, "by less than 0.01"),
        (on_its_side, "stands on its side"),
        (nothing_returned, "Return three tensors"),
        (lists, "`W_q` is a list"),
    ],
}
