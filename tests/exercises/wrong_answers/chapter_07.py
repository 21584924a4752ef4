"""Answers to chapter 7 in a student's own voice: wrong ones with their words, and right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong
from torch.testing import assert_close

from d2l_attention import ALiBi, RotaryEncoding, causal_mask


@right("7.3")
def row_by_row(X, offset):
    d, result = X.shape[2], X.clone()
    for token in range(X.shape[1]):
        for column in range(d):
            angle = (offset + token) / 10000 ** (column // 2 * 2 / d)
            result[:, token, column] += math.cos(angle) if column % 2 else math.sin(angle)
    return result


@wrong("7.3", "is float32; for these inputs it should be float16")
def always_float32(X, offset):
    return X + row_by_row(torch.zeros(1, *X.shape[1:]), offset)


@wrong("7.3", "An odd size ends on a sine")
def pairs_only(X, offset):
    rows = row_by_row(torch.zeros_like(X), offset)
    rows[:, :, X.shape[2] // 2 * 2 :] = 0
    return X + rows


@right("7.4")
def as_complex_numbers(X, offset):
    n, d = X.shape[2:]
    pairs = torch.view_as_complex(X.double().unflatten(-1, (d // 2, 2)))
    angles = torch.outer(
        torch.arange(offset, offset + n).double(),
        torch.exp(torch.arange(0, d, 2).double() * (-math.log(10000) / d)),
    )
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(start_dim=-2).to(X.dtype)


@wrong("7.4", "A turn keeps the length of a vector")
def stretched(X, offset):
    return 1.5 * as_complex_numbers(X, offset)


@wrong("7.4", "every head of every sentence begins at `offset`")
def heads_run_on(X, offset):
    return as_complex_numbers(X.flatten(0, 2)[None, None], offset).view_as(X)


@wrong("7.4", "should be (B, H, n, d)")
def a_pair_summed(X, offset):
    return as_complex_numbers(X, offset).unflatten(-1, (-1, 2)).sum(-1)


@right("7.5")
def entry_by_entry(num_heads, num_queries, num_keys):
    bias = torch.empty(num_heads, num_queries, num_keys)
    for head in range(num_heads):
        for i in range(num_queries):
            for key in range(num_keys):
                distance = num_keys - num_queries + i - key
                cost = distance / 2 ** (8 * (head + 1) / num_heads)
                bias[head, i, key] = -cost if distance >= 0 else -math.inf
    return bias


@wrong("7.5", "0 times infinity")
def mask_multiplied(num_heads, num_queries, num_keys):
    ahead = ~causal_mask(num_queries, num_keys, offset=num_keys - num_queries)
    bias = ALiBi(num_heads).bias(num_queries, num_keys, offset=num_keys - num_queries)
    return bias + ahead * -math.inf


@wrong("7.5", "whose exponential is exactly 0")
def hidden_by_a_hundred(num_heads, num_queries, num_keys):
    return entry_by_entry(num_heads, num_queries, num_keys).clamp(min=-100)


@wrong("7.5", "and sees all keys")
def sees_three_tokens(num_heads, num_queries, num_keys):
    newest = torch.arange(num_keys)[-num_queries:, None]
    far = torch.arange(num_keys) < newest - 2
    return entry_by_entry(num_heads, num_queries, num_keys).masked_fill(far, -math.inf)


def given():
    return torch.randn(2, 3, 2, 6), torch.randn(2, 3, 5, 6), torch.randn(2, 3, 5, 4)


@right("7.6")
def compares_with_pytorch(attend):
    queries, keys, values = given()
    turn = RotaryEncoding(6).transform
    q, k = turn(queries, offset=4), turn(keys, offset=1)
    right = F.scaled_dot_product_attention(q, k, values)
    assert_close(attend(queries, keys, values, 4, 1), right, rtol=1e-4, atol=1e-5)


@wrong("7.6", "not at which one it is")
def asks_for_the_name(attend):
    assert attend(*given(), 4, 1).shape == (2, 3, 2, 4)
    assert attend.__name__ == "attend"


@wrong("7.6", "the root of D. In your calls its output differs")
def moved_on(attend):
    inputs = given()
    assert_close(attend(*inputs, 4, 1), attend(*inputs, 9, 6), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(attend(*inputs, 4, 1), attend(*inputs, 9, 1))


right("7.1")([torch.tensor(3.0).sin(), math.cos(3), np.sin(0.03), np.float32(1)])
wrong("7.1", "all sines come first")([0.14, 0.03, -0.99, 1.0])
wrong("7.1", "two pairs")([0.14, -0.99])
right("7.2")([torch.tensor(0), np.int64(3), 2.0, 1])
wrong("7.2", "both sums are new")((0, 2, 2, 1))
wrong("7.2", "without a direction")((0, 3, 3, 1))
