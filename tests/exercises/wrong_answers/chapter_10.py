"""Answers to chapter 10 in a student's own voice: wrong ones with their words, and right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong


@right("10.3")
def sums_row_by_row(tiles):
    best, sums = None, None
    for tile in tiles:
        rows = tile.tolist()
        best, sums = best or [-math.inf] * len(rows), sums or [0.0] * len(rows)
        for i, row in enumerate(rows):
            for score in row:
                if score > best[i]:
                    sums[i] = sums[i] * math.exp(best[i] - score) + 1
                    best[i] = score
                elif score > -math.inf:
                    sums[i] += math.exp(score - best[i])
    return torch.tensor(best).to(tile), torch.tensor(sums).to(tile)


@wrong("10.3", "a whole row in the end")
def joins_the_row(tiles):
    row = torch.cat([tile for tile in tiles], dim=1)
    return sums_row_by_row([row])


@wrong("10.3", "later is too late")
def overflows(tiles):
    m, s = None, 0.0
    for tile in tiles:
        m = tile.amax(1) if m is None else torch.maximum(m, tile.amax(1))
        s = s + torch.exp(tile).sum(1)
    return m, s / torch.exp(m)


@right("10.4")
def tiles_in_double(queries, keys, values, block_size):
    scale = queries.shape[1] ** -0.5
    best = summed = log_sum = None
    for k, v in zip(
        keys.double().split(block_size), values.double().split(block_size), strict=True
    ):
        scores = torch.einsum("qd,kd->qk", queries.double(), k) * scale
        new, output = scores.logsumexp(1), scores.softmax(1) @ v
        best = new if log_sum is None else torch.logaddexp(log_sum, new)
        summed = (
            output
            if log_sum is None
            else (summed * (log_sum - best).exp()[:, None] + output * (new - best).exp()[:, None])
        )
        log_sum = best
    return summed.to(queries.dtype)


@wrong("10.4", "all scores at once")
def one_query_at_a_time(queries, keys, values, block_size):
    shares = (((keys @ q) / len(q) ** 0.5).softmax(0) for q in queries)
    return torch.stack([share @ values for share in shares])


@wrong("10.4", "PyTorch's own kernel")
def by_the_kernel(queries, keys, values, block_size):
    return F.scaled_dot_product_attention(queries[None], keys[None], values[None])[0]


@right("10.5")
def merged_by_logarithms(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    logs = torch.stack((m1 + s1.log(), m2 + s2.log()))
    whole, maximum = torch.logaddexp(*logs), torch.maximum(m1, m2)
    empty = whole == -torch.inf
    shares = (logs - whole).exp().masked_fill(empty, 0.0)[..., None]
    total = torch.where(empty, 0.0, (whole - maximum).exp())
    return maximum, total, shares[0] * o1 + shares[1] * o2


@wrong("10.5", "An `if` asks once")
def asks_which_is_larger(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    if m1 < m2:
        return asks_which_is_larger(second, first)
    factor = torch.exp(m2 - m1)
    total = s1 + s2 * factor
    return m1, total, (s1 * o1 + s2 * factor * o2) / total


@wrong("10.5", "leave a float's range")
def relative_to_0(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    w1, w2 = s1 * torch.exp(m1), s2 * torch.exp(m2)
    m = torch.maximum(m1, m2)
    return m, (w1 + w2) / m.exp(), (w1[:, None] * o1 + w2[:, None] * o2) / (w1 + w2)[:, None]


@right("10.6")
def by_a_loop(losses, valid_lens, all_reduce, num_processes):
    total = 0 * losses[0, :0].sum()
    for row, length in zip(losses, valid_lens.tolist(), strict=True):
        total = total + row[:length].sum()
    return total / (all_reduce(float(valid_lens.sum())) / num_processes)


@wrong("10.6", "would wait for ever")
def skips_empty_processes(losses, valid_lens, all_reduce, num_processes):
    if not valid_lens.any():
        return losses.sum() * 0
    return by_a_loop(losses, valid_lens, all_reduce, num_processes)


@wrong("10.6", "no gradient reaches its losses")
def plain_zero_for_nothing(losses, valid_lens, all_reduce, num_processes):
    loss = by_a_loop(losses, valid_lens, all_reduce, num_processes)
    return loss if valid_lens.any() else torch.tensor(0.0)


@right("10.7")
def head_by_head(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    size, each = W_q.shape[1] // num_heads, num_heads // num_processes
    share = torch.zeros_like(X) + b_o / num_processes
    for h in range(rank * each, (rank + 1) * each):
        own = slice(h * size, h * size + size)
        q, k, v = X @ W_q[:, own], X @ W_k[:, own], X @ W_v[:, own]
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(size)
        share = share + torch.bmm(scores.softmax(2), v) @ W_o[own]
    return share


@wrong("10.7", "uses columns or rows of other processes")
def all_by_process_0(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    whole = head_by_head(X, W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)
    return whole if rank == 0 else 0 * whole


@wrong("10.7", "You cut the sequence")
def sequence_cut(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    mine = X.chunk(num_processes, dim=1)[rank]
    return head_by_head(mine, W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)


right("10.1")([(torch.tensor(16), torch.tensor(64)), (torch.tensor(0.5), np.float32(1))])
wrong("10.1", "each pair is one thing")([(16, 0.5), (64, 1)])
wrong("10.1", "Give two pairs")(torch.tensor([16.0, 64.0]))
right("10.2")([torch.tensor(160.0), torch.tensor(180.0), np.float64(1.9995), np.float32(15.97), 2])
wrong("10.2", "which no other one can use")((160, 180, 2, 16, 32))
wrong("10.2", "use what was read once")((160, 180, 2, 2, 2))
