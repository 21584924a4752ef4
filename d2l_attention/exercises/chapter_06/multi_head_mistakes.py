"""Wrong answers to 6.4, as students give them."""

import math

import torch
import torch.nn.functional as F

from d2l_attention import length_mask, masked_softmax


def cut(X, num_heads):
    return X.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def in_heads(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    return masked_softmax(scores, valid_lens) @ values


def joined(heads):
    return heads.transpose(1, 2).flatten(start_dim=2)


def project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads):
    return (cut(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))


def summed_into_w_o(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return in_heads(q, k, v, valid_lens).sum(dim=1) @ W_o[: q.shape[-1]]


def summed(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return in_heads(q, k, v, valid_lens).sum(dim=1) @ W_o


def averaged_and_repeated(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return in_heads(q, k, v, valid_lens).mean(dim=1).repeat(1, 1, num_heads) @ W_o


def scaled_by_all(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    scores = q @ k.mT / math.sqrt(W_q.shape[-1])
    return joined(masked_softmax(scores, valid_lens) @ v) @ W_o


def not_scaled(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return joined(masked_softmax(q @ k.mT, valid_lens) @ v) @ W_o


def scaled_without_root(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return joined(masked_softmax(q @ k.mT / q.shape[-1], valid_lens) @ v) @ W_o


def hidden_before_softmax(scores, valid_lens, dim):
    hidden = ~length_mask(valid_lens, scores.shape[-1])[:, None]
    return scores.masked_fill(hidden, -1e6).softmax(dim=dim).masked_fill(hidden, 0.0)


def softmax_over_the_heads(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    weights = hidden_before_softmax(q @ k.mT / q.shape[-1] ** 0.5, valid_lens, dim=1)
    return joined(weights @ v) @ W_o


def softmax_over_the_queries(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    weights = hidden_before_softmax(q @ k.mT / q.shape[-1] ** 0.5, valid_lens, dim=2)
    return joined(weights @ v) @ W_o


def without_w_o(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return joined(in_heads(q, k, v, valid_lens))


def view(X, num_heads):
    return X.view(X.shape[0], num_heads, X.shape[1], -1)


def cut_by_view(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (view(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    return joined(in_heads(q, k, v, valid_lens)) @ W_o


def merged_by_reshape(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    heads = in_heads(q, k, v, valid_lens)
    return heads.reshape(len(queries), queries.shape[1], -1) @ W_o


def view_there_and_back(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (view(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    return in_heads(q, k, v, valid_lens).view(len(queries), queries.shape[1], -1) @ W_o


def every_other_column(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    projected = queries @ W_q, keys @ W_k, values @ W_v
    q, k, v = (X.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2) for X in projected)
    return in_heads(q, k, v, valid_lens).permute(0, 2, 3, 1).flatten(start_dim=2) @ W_o


def first_head_for_all(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    size = W_q.shape[-1] // num_heads
    q, k, v = queries @ W_q[:, :size], keys @ W_k[:, :size], values @ W_v[:, :size]
    heads = [in_heads(q, k, v, valid_lens) for _ in range(num_heads)]
    return torch.cat(heads, dim=-1) @ W_o


def averages_the_keys(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return joined(in_heads(q, k, k, valid_lens)) @ W_o


def one_matrix_for_all(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (cut(X @ W_q, num_heads) for X in (queries, keys, values))
    return joined(in_heads(q, k, v, valid_lens)) @ W_o


def queries_added(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return queries + joined(in_heads(q, k, v, valid_lens)) @ W_o


def linear_layers(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    projected = F.linear(queries, W_q), F.linear(keys, W_k), F.linear(values, W_v)
    q, k, v = (cut(X, num_heads) for X in projected)
    return F.linear(joined(in_heads(q, k, v, valid_lens)), W_o)


def lengths_ignored(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return joined(in_heads(q, k, v, None)) @ W_o


def one_key_too_many(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    hidden = torch.arange(k.shape[-2]) > valid_lens[:, None, None, None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -1e6)
    return joined(scores.softmax(dim=-1).masked_fill(hidden, 0.0) @ v) @ W_o


def hidden_too_late(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    visible = torch.arange(k.shape[-2]) < valid_lens[:, None, None, None]
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1) * visible
    return joined(weights @ v) @ W_o


def cut_to_the_longest(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    n = valid_lens.max()
    keys, values = keys[:, :n], values[:, :n]
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return joined(in_heads(q, k, v, None)) @ W_o


def two_at_once(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = (view(X, num_heads) for X in (queries @ W_q, keys @ W_k, values @ W_v))
    scores = q @ k.mT / W_q.shape[-1] ** 0.5
    return joined(masked_softmax(scores, valid_lens) @ v) @ W_o


def lengths_on_heads(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    visible = length_mask(valid_lens, k.shape[-2])  # (B, 1, K)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~visible, -math.inf)
    return joined(scores.softmax(dim=-1) @ v) @ W_o


def folded(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, lens):
    """As the book does it: the heads in the batch axis."""
    projected = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    q, k, v = (X.flatten(0, 1) for X in projected)
    heads = in_heads(q, k, v, lens)
    return joined(heads.unflatten(0, (-1, num_heads))) @ W_o


def folded_with_repeat(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    lens = valid_lens.repeat(num_heads)
    return folded(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, lens)


def folded_without_copies(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    projected = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    q, k, v = (X.flatten(0, 1) for X in projected)
    hidden = torch.arange(k.shape[1]) >= valid_lens[:, None, None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf)
    return joined((scores.softmax(dim=-1) @ v).unflatten(0, (-1, num_heads))) @ W_o


def length_of_the_first(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    hidden = torch.arange(k.shape[-2]) >= valid_lens[0]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf)
    return joined(scores.softmax(dim=-1) @ v) @ W_o


def nothing_as_a_number(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    if not valid_lens.any():
        return 0
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return joined(in_heads(q, k, v, valid_lens)) @ W_o


def finite_fill(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    hidden = torch.arange(k.shape[-2]) >= valid_lens[:, None, None, None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -1e6)
    return joined(scores.softmax(dim=-1) @ v) @ W_o


def infinite_fill(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    hidden = torch.arange(k.shape[-2]) >= valid_lens[:, None, None, None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf)
    return joined(scores.softmax(dim=-1) @ v) @ W_o


def size_of_the_queries(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    batch, num_queries, num_hiddens = queries.shape
    shape = batch, -1, num_heads, num_hiddens // num_heads
    projected = queries @ W_q, keys @ W_k, values @ W_v
    q, k, v = (X.reshape(shape).transpose(1, 2) for X in projected)
    return joined(in_heads(q, k, v, valid_lens)) @ W_o


def view_after_transpose(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    heads = in_heads(q, k, v, valid_lens).transpose(1, 2)
    return heads.view(len(queries), queries.shape[1], -1) @ W_o


def heads_still_apart(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    return in_heads(q, k, v, valid_lens)


def without_return(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    joined(in_heads(q, k, v, valid_lens)) @ W_o


def weights_too(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = project_and_cut(queries, keys, values, W_q, W_k, W_v, num_heads)
    weights = masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, valid_lens)
    return joined(weights @ v) @ W_o, weights
