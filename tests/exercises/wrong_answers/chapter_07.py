"""Answers to chapter 7 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from d2l_attention import ALiBi, PositionalEncoding, RotaryEncoding, causal_mask

# 7.3 --------------------------------------------------------------------------------------


def row_by_row(X, offset):
    d, result = X.shape[2], X.clone()
    for token in range(X.shape[1]):
        for column in range(d):
            angle = (offset + token) / 10000 ** (column // 2 * 2 / d)
            result[:, token, column] += math.cos(angle) if column % 2 else math.sin(angle)
    return result


def as_in_the_book(X, offset):
    n, d = X.shape[1:]
    P = torch.zeros(1, offset + n, d)
    frequencies = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
    angles = torch.arange(offset + n, dtype=torch.float32).unsqueeze(1) * frequencies
    P[:, :, 0::2] = torch.sin(angles)
    P[:, :, 1::2] = torch.cos(angles)[:, : d // 2]
    return X + P[:, offset:].to(X.dtype)


def in_numpy(X, offset):
    n, d = X.shape[1:]
    columns = np.arange(d)
    angles = np.outer(np.arange(offset, offset + n), 10000.0 ** (-(columns & ~1) / d))
    return X + torch.from_numpy(np.sin(angles + (columns & 1) * np.pi / 2)).to(X.dtype)


def by_the_package(X, offset):
    return PositionalEncoding(X.shape[2], 0.0, max_len=offset + X.shape[1])(X, offset=offset)


def table_of_50(X, offset):
    P = as_in_the_book(torch.zeros(1, 50, X.shape[2]), 0)
    return X + P[:, offset : offset + X.shape[1]].to(X.dtype)


def always_float32(X, offset):
    return X + as_in_the_book(torch.zeros(1, *X.shape[1:]), offset)


def made_of_lists(X, offset):
    return torch.tensor(row_by_row(X, offset).tolist(), dtype=X.dtype)


def written_in_place(X, offset):
    X += in_numpy(torch.zeros_like(X), offset)
    return X


def with_dropout(X, offset):
    return PositionalEncoding(X.shape[2], 0.5, max_len=offset + X.shape[1])(X, offset=offset)


def end_to_end(X, offset):
    d = X.shape[2]
    angles = np.outer(np.arange(offset, offset + X.shape[1]), 10000.0 ** (-np.arange(0, d, 2) / d))
    rows = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :d]
    return X + torch.from_numpy(rows).to(X.dtype)


def pairs_only(X, offset):
    rows = as_in_the_book(torch.zeros_like(X), offset)
    rows[:, :, X.shape[2] // 2 * 2 :] = 0
    return X + rows


def far_rows_again(X, offset):
    return in_numpy(X, offset % 1000)


# 7.4 --------------------------------------------------------------------------------------


def as_complex_numbers(X, offset):
    n, d = X.shape[2:]
    pairs = torch.view_as_complex(X.double().unflatten(-1, (d // 2, 2)))
    angles = torch.outer(
        torch.arange(offset, offset + n).double(),
        torch.exp(torch.arange(0, d, 2).double() * (-math.log(10000) / d)),
    )
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(start_dim=-2).to(X.dtype)


def by_matrices(X, offset):
    n, d = X.shape[2:]
    turns = torch.zeros(n, d, d)
    for token in range(n):
        for j in range(0, d, 2):
            t = (offset + token) / 10000 ** (j / d)
            turns[token, j, j] = turns[token, j + 1, j + 1] = math.cos(t)
            turns[token, j + 1, j] = math.sin(t)
            turns[token, j, j + 1] = -math.sin(t)
    return torch.einsum("nij,bhnj->bhni", turns.to(X.dtype), X)


def partner_with_a_sign(X, offset):
    n, d = X.shape[2:]
    positions = torch.arange(offset, offset + n, dtype=torch.float32)
    angles = positions[:, None] / 10000.0 ** (torch.arange(d) // 2 * 2 / d)
    partner = X[..., torch.arange(d) ^ 1] * torch.tensor([-1, 1]).repeat(d // 2)
    return X * angles.cos().to(X.dtype) + partner * angles.sin().to(X.dtype)


def turned_by_the_package(X, offset):
    return RotaryEncoding(X.shape[-1]).transform(X, offset=offset)


def only_50_positions(X, offset):
    t = torch.arange(50)[:, None] / 10000 ** (torch.arange(0, X.shape[-1], 2) / X.shape[-1])
    t = t[offset : offset + X.shape[2]]
    a, b = X[..., ::2], X[..., 1::2]
    cos, sin = t.cos().to(X.dtype), t.sin().to(X.dtype)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(X.shape)


def float32_for_all(X, offset):
    return as_complex_numbers(X, offset).float()


def not_a_number(X, offset):
    return as_complex_numbers(X, offset) + (X - X) / 0


def stretched(X, offset):
    return 1.5 * as_complex_numbers(X, offset)


def heads_run_on(X, offset):
    return as_complex_numbers(X.flatten(0, 2)[None, None], offset).view_as(X)


def right_up_to_four_heads(X, offset):
    turned = by_matrices(X, offset)
    return turned if X.shape[1] <= 4 else by_matrices(X, 0)


def a_pair_summed(X, offset):
    return as_complex_numbers(X, offset).unflatten(-1, (-1, 2)).sum(-1)


def half_detached(X, offset):
    first, second = X[..., 0::2], X[..., 1::2].detach()
    return by_matrices(torch.stack((first, second), -1).flatten(-2), offset)


# 7.5 --------------------------------------------------------------------------------------


def entry_by_entry(num_heads, num_queries, num_keys):
    bias = torch.empty(num_heads, num_queries, num_keys)
    for head in range(num_heads):
        for i in range(num_queries):
            for key in range(num_keys):
                distance = num_keys - num_queries + i - key
                cost = distance / 2 ** (8 * (head + 1) / num_heads)
                bias[head, i, key] = -cost if distance >= 0 else -math.inf
    return bias


def alibi_in_numpy(num_heads, num_queries, num_keys):
    behind = np.arange(num_keys)[None, :] - np.arange(num_keys)[-num_queries:, None]
    behind = np.where(behind > 0, -np.inf, behind)
    slopes = np.array([2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)])
    return torch.tensor(np.multiply.outer(slopes, behind), dtype=torch.float32)


def alibi_by_the_package(num_heads, num_queries, num_keys):
    first = num_keys - num_queries
    mask = causal_mask(num_queries, num_keys, offset=first)
    bias = ALiBi(num_heads).bias(num_queries, num_keys, offset=first)
    return torch.where(mask, bias, float("-inf"))


def mask_multiplied(num_heads, num_queries, num_keys):
    ahead = ~causal_mask(num_queries, num_keys, offset=num_keys - num_queries)
    bias = ALiBi(num_heads).bias(num_queries, num_keys, offset=num_keys - num_queries)
    return bias + ahead * -math.inf


def hidden_by_a_hundred(num_heads, num_queries, num_keys):
    return entry_by_entry(num_heads, num_queries, num_keys).clamp(min=-100)


def gains(num_heads, num_queries, num_keys):
    bias = 2 * alibi_by_the_package(num_heads, num_queries, num_keys)
    return torch.where(bias.isinf(), bias, -bias)


def two_slopes(num_heads, num_queries, num_keys):
    bias = entry_by_entry(num_heads, num_queries, num_keys)
    return bias if num_heads <= 4 else bias[[0, 1] * (num_heads // 2)]


def sees_three_tokens(num_heads, num_queries, num_keys):
    newest = torch.arange(num_keys)[-num_queries:, None]
    far = torch.arange(num_keys) < newest - 2
    return entry_by_entry(num_heads, num_queries, num_keys).masked_fill(far, -math.inf)


def a_list(num_heads, num_queries, num_keys):
    return entry_by_entry(num_heads, num_queries, num_keys).tolist()


# 7.6 --------------------------------------------------------------------------------------


def given(B=2, H=3, Q=2, K=5, D=6, V=4):
    return torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, V)


def expected(queries, keys, values, first_query, first_key):
    rotary = RotaryEncoding(queries.shape[-1])
    q = rotary.transform(queries, offset=first_query)
    k = rotary.transform(keys, offset=first_key)
    return F.scaled_dot_product_attention(q, k, values)


def compare(attend, inputs, first_query=4, first_key=1):
    right = expected(*inputs, first_query, first_key)
    assert_close(attend(*inputs, first_query, first_key), right, rtol=1e-4, atol=1e-5)


def compares_with_pytorch(attend):
    compare(attend, given())


def token_by_token(attend):
    queries, keys, values = inputs = given(V=3)
    got = attend(*inputs, 12, 7)
    for b, h, i in np.ndindex(*queries.shape[:3]):
        scores = []
        for j in range(keys.shape[2]):
            far, score = 12 + i - 7 - j, 0.0
            for a in range(0, queries.shape[3], 2):
                q = complex(*queries[b, h, i, a : a + 2].tolist())
                k = complex(*keys[b, h, j, a : a + 2].tolist())
                turn = far / 10000 ** (a / queries.shape[3])
                score += (q * k.conjugate() * complex(math.cos(turn), math.sin(turn))).real
            scores.append(score / math.sqrt(queries.shape[3]))
        weights = np.exp(scores) / np.exp(scores).sum()
        right = torch.from_numpy(weights @ values[b, h].double().numpy()).float()
        assert_close(got[b, h, i], right, rtol=1e-3, atol=1e-4)


def asserts_nothing(attend):
    torch.allclose(attend(*given(), 4, 1), expected(*given(), 4, 1))


def only_the_shape(attend):
    assert attend(*given(), 4, 1).shape == (2, 3, 2, 4)


def never_calls(attend):
    compare(expected, given())


def first_positions(attend):
    compare(attend, given(), 0, 0)
    compare(attend, given(K=2), 0, 0)


def same_positions(attend):
    compare(attend, given(), 7, 7)


def a_single_pair(attend):
    compare(attend, given(D=2))


def moved_on(attend):
    inputs = given()
    assert_close(attend(*inputs, 4, 1), attend(*inputs, 9, 6), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(attend(*inputs, 4, 1), attend(*inputs, 9, 1))


def forgets_the_root(attend):
    queries, *others = given()
    compare(lambda q, *others: attend(q / 6**0.5, *others), (queries, *others))


RIGHT = {
    "7.1": [
        (0.14, -0.99, 0.03, 1),
        [torch.tensor(3.0).sin(), math.cos(3), np.sin(0.03), np.float32(1)],
        np.array([[0.1411, -0.98999], [0.029996, 0.99955]]),
        [Fraction(14, 100), Fraction(-99, 100), Fraction(3, 100), 1],
    ],
    "7.2": [[0, 3, 2, 1], torch.tensor([0, 3, 2, 1]), [torch.tensor(0), np.int64(3), 2.0, 1]],
    "7.3": [row_by_row, as_in_the_book, in_numpy, by_the_package],
    "7.4": [as_complex_numbers, by_matrices, partner_with_a_sign, turned_by_the_package],
    "7.5": [entry_by_entry, alibi_in_numpy, alibi_by_the_package],
    "7.6": [compares_with_pytorch, token_by_token],
}
WRONG = {
    "7.1": [
        ([0.14, 0.03, -0.99, 1.0], "all sines stand first"),
        ([0.0523, 0.9986, 0.0005, 1.0], "of degrees"),
        ([0, 1, 0, 1], "the row of position 0"),
        ([0.14, -0.99], "two pairs"),
        ([0.14, -0.99, 0.5, 1.0], "Entry [2], 0.5 is too large"),
        ("sin 3", "Give a list of numbers"),
    ],
    "7.2": [
        ((3, 3, 3, 3), "nothing tells this model"),
        ((0, 2, 2, 1), "both sums are new"),
        ((0, 3, 3, 1), "without a direction"),
        ((0, 3, 2.5, 1), "Run it and count"),
        ("none", "Give four counts"),
    ],
    "7.3": [
        (table_of_50, "Which rows are needed"),
        (always_float32, "is float32; for these inputs it should be float16"),
        (made_of_lists, "no gradient comes through"),
        (written_in_place, "changes its input: `X`"),
        (with_dropout, "of your result is"),
        (end_to_end, "all sines stand first"),
        (pairs_only, "An odd size ends on a sine"),
        (far_rows_again, "Far from the start"),
    ],
    "7.4": [
        (only_50_positions, "a table of angles that ends too early"),
        (float32_for_all, "it should be float64"),
        (not_a_number, "is nan"),
        (stretched, "A turn keeps the length of a vector"),
        (heads_run_on, "every head of every sentence begins at `offset`"),
        (right_up_to_four_heads, "For small cases your function is right"),
        (a_pair_summed, "should be (B, H, n, d)"),
        (half_detached, "the gradient of `X` is not"),
    ],
    "7.5": [
        (mask_multiplied, "0 times infinity"),
        (hidden_by_a_hundred, "whose exponential is exactly 0"),
        (gains, "the sign is wrong"),
        (two_slopes, "Entry [2, 0, 0] of your result"),
        (sees_three_tokens, "and sees all keys"),
        (a_list, "it should return a tensor"),
    ],
    "7.6": [
        (asserts_nothing, "It passes whatever comes back"),
        (only_the_shape, "it looks at the shape alone"),
        (never_calls, "without ever calling `attend`"),
        (first_positions, "always begin at position 0"),
        (same_positions, "always begin at the same position"),
        (a_single_pair, "With D = 2 there is a single pair"),
        (moved_on, "the root of D. In your calls its output differs"),
        (forgets_the_root, "the root of D: the mistake is in what you expect"),
    ],
}
