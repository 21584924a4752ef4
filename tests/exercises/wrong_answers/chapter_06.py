"""Answers to chapter 6 in a student's own voice: wrong ones with their words, and right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong

from d2l_attention import masked_softmax


@right("6.3")
def heads_in_a_loop(X, num_heads):
    width = X.shape[-1] // num_heads
    return torch.stack([X[..., h * width : (h + 1) * width] for h in range(num_heads)], dim=1)


@wrong("6.3", "Row [0, 0, 1]")
def batch_mixed_in(X, num_heads):
    batch, n, num_hiddens = X.shape
    cut = X.transpose(0, 1).reshape(batch, n, num_heads, num_hiddens // num_heads)
    return cut.transpose(1, 2)


@wrong("6.3", "is float32; for these inputs it should be float64")
def single_precision(X, num_heads):
    heads = torch.zeros(len(X), num_heads, X.shape[1], X.shape[2] // num_heads)
    heads[:] = heads_in_a_loop(X, num_heads)
    return heads


@right("6.4")
def by_loops(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    rows = []
    for query, key, value, length in zip(queries, keys, values, valid_lens.tolist(), strict=True):
        heads = []
        for W in zip(*(W.chunk(num_heads, dim=1) for W in (W_q, W_k, W_v)), strict=True):
            q, k, v = query @ W[0], key[:length] @ W[1], value[:length] @ W[2]
            heads.append((q @ k.T / math.sqrt(q.shape[1])).softmax(dim=1) @ v)
        rows.append(torch.cat(heads, dim=1) @ W_o)
    return torch.stack(rows)


def cut(X, num_heads):
    return X.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong("6.4", "The heads are still apart")
def heads_still_apart(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (cut(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    return masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, valid_lens) @ v


def filled(number, queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (cut(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    hidden = torch.arange(k.shape[-2]) >= valid_lens[:, None, None, None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, number)
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2) @ W_o


@wrong("6.4", "from padding")
def finite_fill(*inputs):
    return filled(-1e6, *inputs)


@right("6.5")
def fixed_by_loops(queries, keys, values, mask, num_heads):
    heads = []
    for q, k, v in zip(*(X.chunk(num_heads, -1) for X in (queries, keys, values)), strict=True):
        scores = torch.baddbmm(torch.zeros(()), q, k.mT, alpha=q.shape[-1] ** -0.5)
        heads.append(torch.where(mask, scores, -torch.inf).softmax(-1).bmm(v))
    return torch.cat(heads, -1)


@wrong("6.5", "stops at a single sentence")
def mask_on_its_side(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, :, None])
    return heads.transpose(1, 2).flatten(2)


@wrong("6.5", "with other numbers it is not")
def two_heads_only(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
    return torch.cat([heads[:, 0], heads[:, 1]], dim=-1)


def given(*lens):
    """Inputs for ``multi_head``, small enough not to saturate the softmax."""
    B, D = len(lens), 6
    shapes = (B, 3, 7), (B, 5, 7), (B, 5, 7), (7, D), (7, D), (7, D), (D, D)
    tensors = (torch.randn(shape) / shape[-1] ** 0.5 for shape in shapes)
    return *tensors, 2, torch.tensor(lens)


def compare(multi_head, inputs):
    torch.testing.assert_close(multi_head(*inputs), in_numpy(*inputs))


def in_numpy(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    arrays = (X.double().numpy() for X in (queries, keys, values, W_q, W_k, W_v, W_o))
    queries, keys, values, W_q, W_k, W_v, W_o = arrays
    output = []
    for b, length in enumerate(valid_lens.tolist()):
        heads = []
        for h in range(num_heads):
            own = slice(h * len(W_o) // num_heads, (h + 1) * len(W_o) // num_heads)
            q, k, v = (X[b] @ W[:, own] for X, W in ((queries, W_q), (keys, W_k), (values, W_v)))
            shares = np.exp(q @ k[:length].T / np.sqrt(q.shape[1]))
            heads.append(shares / shares.sum(1, keepdims=True) @ v[:length])
        output.append(np.concatenate(heads, 1) @ W_o)
    return torch.tensor(np.array(output)).float()


@right("6.6")
def compares_with_numpy(multi_head):
    compare(multi_head, given(2, 5))
    compare(multi_head, given(1, 4, 5))


@wrong("6.6", "rounding. Large scores")
def large_numbers(multi_head):
    torch.manual_seed(3)
    shapes = (2, 30, 64), (2, 50, 64), (2, 50, 64), (64, 64), (64, 64), (64, 64), (64, 64)
    inputs = *(torch.randn(shape) for shape in shapes), 2, torch.tensor([20, 50])
    compare(multi_head, inputs)


@wrong("6.6", "Your sentences have the same length")
def without_lengths(multi_head):
    compare(multi_head, given(5, 5))


right("6.1")([torch.tensor(5.0), np.float32(7)])
wrong("6.1", "a single head of size 2. Each head has scores of its own")([4.571, 6])
wrong("6.1", "the weights?")([1 / 2, 1 / 4, 1 / 4, 1 / 6, 4 / 6, 1 / 6])
right("6.2")(torch.tensor([4, 12, 0.2]))
wrong("6.2", "that is after W_o")((12, 12, 0.2))
wrong("6.2", "It does not look away")((4, 12, 0))
