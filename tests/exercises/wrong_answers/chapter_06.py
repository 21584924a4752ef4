"""Answers to chapter 6 in a student's own voice: wrong ones with their words, and right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from d2l_attention import MultiHeadAttention, length_mask, masked_softmax

# 6.3 --------------------------------------------------------------------------------------


def heads_in_a_loop(X, num_heads):
    width = X.shape[-1] // num_heads
    return torch.stack([X[..., h * width : (h + 1) * width] for h in range(num_heads)], dim=1)


def heads_by_einsum(X, num_heads):
    return torch.einsum("bnhd->bhnd", X.unflatten(2, (num_heads, -1)))


def heads_by_gather(X, num_heads):
    B, n, D = X.shape
    columns = torch.arange(D).view(num_heads, 1, -1).expand(-1, n, -1)
    return X[:, None].expand(-1, num_heads, -1, -1).gather(3, columns.expand(B, -1, -1, -1))


def pieces_in_a_list(X, num_heads):
    return X.chunk(num_heads, dim=-1)


def tokens_cut(X, num_heads):
    return torch.stack(X.chunk(num_heads, dim=1), dim=1)


def batch_mixed_in(X, num_heads):
    batch, n, num_hiddens = X.shape
    cut = X.transpose(0, 1).reshape(batch, n, num_heads, num_hiddens // num_heads)
    return cut.transpose(1, 2)


def numbers_copied_out(X, num_heads):
    return torch.tensor(heads_in_a_loop(X, num_heads).tolist(), dtype=X.dtype)


def single_precision(X, num_heads):
    heads = torch.zeros(len(X), num_heads, X.shape[1], X.shape[2] // num_heads)
    heads[:] = heads_in_a_loop(X, num_heads)
    return heads


def at_most_four_heads(X, num_heads):
    heads = heads_in_a_loop(X, num_heads)
    return heads if num_heads <= 4 else heads.flip(1)


# 6.4 --------------------------------------------------------------------------------------


def by_loops(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    rows = []
    for query, key, value, length in zip(queries, keys, values, valid_lens.tolist(), strict=True):
        heads = []
        for W in zip(*(W.chunk(num_heads, dim=1) for W in (W_q, W_k, W_v)), strict=True):
            q, k, v = query @ W[0], key[:length] @ W[1], value[:length] @ W[2]
            heads.append((q @ k.T / math.sqrt(q.shape[1])).softmax(dim=1) @ v)
        rows.append(torch.cat(heads, dim=1) @ W_o)
    return torch.stack(rows)


def by_einsum_in_double(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (
        torch.einsum("bni,ihd->bhnd", X.double(), W.double().unflatten(1, (num_heads, -1)))
        for X, W in ((queries, W_q), (keys, W_k), (values, W_v))
    )
    shares = torch.einsum("bhqd,bhkd->bhqk", q, k).div(q.shape[-1] ** 0.5)
    seen = (torch.arange(k.shape[2]) < valid_lens[:, None])[:, None, None]
    shares = (shares - shares.amax(-1, keepdim=True).detach()).exp() * seen
    weights = shares / shares.sum(-1, keepdim=True).clamp(min=1e-30)
    W = W_o.double().unflatten(0, (num_heads, -1))
    return torch.einsum("bhqk,bhkd,hde->bqe", weights, v, W).to(queries.dtype)


def by_pytorch(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (
        (X @ W).reshape(len(X), X.shape[1], num_heads, -1).permute(0, 2, 1, 3)
        for X, W in ((queries, W_q), (keys, W_k), (values, W_v))
    )
    mask = length_mask(valid_lens, k.shape[2])[:, None].expand(-1, 1, q.shape[2], -1)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    heads = heads.masked_fill((valid_lens == 0)[:, None, None, None], 0.0)
    return heads.permute(0, 2, 1, 3).reshape(len(q), q.shape[2], -1) @ W_o


def by_the_layer(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    layer = MultiHeadAttention(W_o.shape[0], num_heads, 0.0)
    layer(queries, keys, values, valid_lens)  # the lazy layers learn their sizes
    weights = {f"W_{n}.weight": W.T for n, W in zip("qkvo", (W_q, W_k, W_v, W_o), strict=True)}
    return torch.func.functional_call(layer, weights, (queries, keys, values, valid_lens))


def cut(X, num_heads):
    return X.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def in_heads(queries, keys, values, W_q, W_k, W_v, num_heads, valid_lens):
    q, k, v = (cut(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    return masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, valid_lens) @ v


def summed(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    return in_heads(queries, keys, values, W_q, W_k, W_v, num_heads, valid_lens).sum(dim=1) @ W_o


def view_after_transpose(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    heads = in_heads(queries, keys, values, W_q, W_k, W_v, num_heads, valid_lens)
    return heads.transpose(1, 2).view(len(queries), queries.shape[1], -1) @ W_o


def heads_still_apart(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    return in_heads(queries, keys, values, W_q, W_k, W_v, num_heads, valid_lens)


def length_of_the_first(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    lens = valid_lens[:1].expand(len(queries))
    heads = in_heads(queries, keys, values, W_q, W_k, W_v, num_heads, lens)
    return heads.transpose(1, 2).flatten(2) @ W_o


def infinite_fill(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (cut(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    hidden = torch.arange(k.shape[-2]) >= valid_lens[:, None, None, None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf)
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2) @ W_o


def finite_fill(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (cut(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    hidden = torch.arange(k.shape[-2]) >= valid_lens[:, None, None, None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -1e6)
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2) @ W_o


def size_of_the_queries(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    shape = len(queries), -1, num_heads, queries.shape[-1] // num_heads
    q, k, v = (X.reshape(shape).transpose(1, 2) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    heads = masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, valid_lens) @ v
    return heads.transpose(1, 2).flatten(2) @ W_o


def values_detached(queries, keys, values, *others):
    return by_pytorch(queries, keys, values.detach(), *others)


# 6.5 --------------------------------------------------------------------------------------


def fixed_by_pytorch(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.unsqueeze(1))
    return heads.transpose(1, 2).flatten(2)


def fixed_by_loops(queries, keys, values, mask, num_heads):
    heads = []
    for q, k, v in zip(*(X.chunk(num_heads, -1) for X in (queries, keys, values)), strict=True):
        scores = torch.baddbmm(torch.zeros(()), q, k.mT, alpha=q.shape[-1] ** -0.5)
        heads.append(torch.where(mask, scores, -torch.inf).softmax(-1).bmm(v))
    return torch.cat(heads, -1)


def unmerged(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])


def without_return(queries, keys, values, mask, num_heads):
    unmerged(queries, keys, values, mask, num_heads).transpose(1, 2).flatten(2)


def mask_on_its_side(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, :, None])
    return heads.transpose(1, 2).flatten(2)


def two_heads_only(queries, keys, values, mask, num_heads):
    heads = unmerged(queries, keys, values, mask, num_heads)
    return torch.cat([heads[:, 0], heads[:, 1]], dim=-1)


# 6.6 --------------------------------------------------------------------------------------


def given(B=2, H=2, Q=3, K=5, D=6, lens=(2, 5)):
    """Inputs for ``multi_head``, small enough not to saturate the softmax."""
    shapes = (B, Q, 7), (B, K, 7), (B, K, 7), (7, D), (7, D), (7, D), (D, D)
    tensors = (torch.randn(shape) / shape[-1] ** 0.5 for shape in shapes)
    return *tensors, H, torch.tensor(lens)


def compare(multi_head, inputs, expected=by_loops):
    torch.testing.assert_close(multi_head(*inputs), expected(*inputs))


def compares_with_pytorch(multi_head):
    compare(multi_head, given(), by_pytorch)


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


def compares_with_numpy(multi_head):
    compare(multi_head, given(), in_numpy)
    compare(multi_head, given(B=3, H=2, lens=(1, 4, 5)), in_numpy)


def without_a_call(multi_head):
    compare(by_loops, given(), by_pytorch)


def shape_only(multi_head):
    assert multi_head(*given()).shape == (2, 3, 6)


def prints(multi_head):
    inputs = given()
    print(torch.allclose(multi_head(*inputs), by_loops(*inputs)))


def returns_instead_of_asserting(multi_head):
    inputs = given()
    return torch.allclose(multi_head(*inputs), by_loops(*inputs))


def large_numbers(multi_head):
    torch.manual_seed(3)
    shapes = (2, 30, 64), (2, 50, 64), (2, 50, 64), (64, 64), (64, 64), (64, 64), (64, 64)
    inputs = *(torch.randn(shape) for shape in shapes), 2, torch.tensor([20, 50])
    compare(multi_head, inputs, in_numpy)


def one_query(multi_head):
    compare(multi_head, given(Q=1))


def without_lengths(multi_head):
    compare(multi_head, given(lens=(5, 5)))


def asks_for_the_name(multi_head):
    shape_only(multi_head)
    assert multi_head.__name__ == "multi_head"


RIGHT = {
    "6.1": [(5.0, 7), torch.tensor([5, 7]), [torch.tensor(5.0), np.float32(7)], [[5], [7]]],
    "6.2": [[4, 12, 0.2], torch.tensor([4, 12, 0.2])],
    "6.3": [heads_in_a_loop, heads_by_einsum, heads_by_gather],
    "6.4": [by_loops, by_einsum_in_double, by_pytorch, by_the_layer],
    "6.5": [fixed_by_pytorch, fixed_by_loops],
    "6.6": [compares_with_pytorch, compares_with_numpy],
}
WRONG = {
    "6.1": [
        ([4.571, 6], "a single head of size 2. Each head has scores of its own"),
        ([7, 5], "the other way round"),
        (12, "not summed or averaged"),
        ([1 / 2, 1 / 4, 1 / 4, 1 / 6, 4 / 6, 1 / 6], "the weights?"),
        ("5 and 7", "Give a list of numbers"),
    ],
    "6.2": [
        ((12, 12, 0.2), "that is after W_o"),
        ((4, 12, 0), "It does not look away"),
        ((4, 12, 0.37), "Run it, before and after"),
        ("all", "Give three numbers"),
    ],
    "6.3": [
        (pieces_in_a_list, "`torch.stack` makes one"),
        (tokens_cut, "Did you cut the tokens"),
        (batch_mixed_in, "Row [0, 0, 1]"),
        (numbers_copied_out, "no gradient comes through"),
        (single_precision, "is float32; for these inputs it should be float64"),
        (at_most_four_heads, "for other sizes it is not"),
    ],
    "6.4": [
        (summed, "heads that are still apart, or were summed"),
        (view_after_transpose, "`view` cannot join"),
        (heads_still_apart, "The heads are still apart"),
        (length_of_the_first, "for several it is not"),
        (infinite_fill, "gives NaN"),
        (finite_fill, "from padding"),
        (size_of_the_queries, "Here each has a size of its own"),
        (values_detached, "no gradient reaches `values`"),
    ],
    "6.5": [
        (unmerged, "The merge is missing"),
        (without_return, "Is the `return` missing?"),
        (mask_on_its_side, "stops at a single sentence"),
        (two_heads_only, "with other numbers it is not"),
    ],
    "6.6": [
        (without_a_call, "without ever calling `multi_head`"),
        (shape_only, "it looks at the shape alone"),
        (prints, "It passes whatever comes back"),
        (returns_instead_of_asserting, "A test speaks by failing"),
        (large_numbers, "rounding. Large scores"),
        (one_query, "You always give one query"),
        (without_lengths, "Your sentences have the same length"),
        (asks_for_the_name, "not at which one it is"),
    ],
}
