"""Answers to chapter 10 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

# 10.3 -------------------------------------------------------------------------------------


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


def sums_by_logarithms(tiles):
    best = log_sum = None
    for tile in tiles:
        new, new_sum = tile.double().max(dim=1).values, tile.double().logsumexp(dim=1)
        best = new if best is None else best.maximum(new)
        log_sum = new_sum if log_sum is None else torch.logaddexp(log_sum, new_sum)
    total = torch.where(log_sum.isinf(), 0.0, (log_sum - best).exp())
    return best.to(tile.dtype), total.to(tile.dtype)


def sums_in_numpy(tiles):
    m, s = -np.inf, 0.0
    for tile in tiles:
        scores = tile.numpy().astype(np.float64)
        new = np.maximum(m, scores.max(axis=1))
        zero = np.where(np.isneginf(new), 0.0, new)
        s = s * np.exp(m - zero) + np.exp(scores - zero[:, None]).sum(axis=1)
        m = new
    return torch.from_numpy(m).to(tile.dtype), torch.from_numpy(s).to(tile.dtype)


def rounded_sums(tiles):
    maximum, total = sums_by_logarithms(tiles)
    return maximum, (total * 1000).round() / 1000


def sums_with_a_floor(tiles):
    maximum, total = sums_by_logarithms(tiles)
    return maximum, total.clamp(min=1e-4)


def joins_the_row(tiles):
    row = torch.cat([tile for tile in tiles], dim=1)
    return sums_by_logarithms([row])


def begins_at_minus_500(tiles):
    m, s = -500.0, 0.0
    for tile in tiles:
        new = torch.maximum(torch.as_tensor(m), tile.max(dim=1).values)
        s = s * (m - new).exp() + (tile - new.unsqueeze(1)).exp().sum(1)
        m = new
    return m, s


def overflows(tiles):
    m, s = None, 0.0
    for tile in tiles:
        m = tile.amax(1) if m is None else torch.maximum(m, tile.amax(1))
        s = s + torch.exp(tile).sum(1)
    return m, s / torch.exp(m)


def sums_in_float32(tiles):
    maximum, total = sums_by_logarithms(tiles)
    return maximum.float(), total.float()


# 10.4 -------------------------------------------------------------------------------------


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


def key_by_key(queries, keys, values, block_size):
    rows = []
    for query in queries:
        m, s, o = torch.tensor(-torch.inf), 0.0, 0.0
        for key, value in zip(keys, values, strict=True):
            score = query.dot(key) / math.sqrt(len(query))
            new = max(m, score)
            o = o * torch.exp(m - new) + value * torch.exp(score - new)
            s = s * torch.exp(m - new) + torch.exp(score - new)
            m = new
        rows.append(o / s)
    return torch.stack(rows)


def padded_to_whole_tiles(queries, keys, values, block_size):
    missing = -len(keys) % block_size
    real = torch.arange(len(keys) + missing) < len(keys)
    keys, values = F.pad(keys, (0, 0, 0, missing)), F.pad(values, (0, 0, 0, missing))
    m, s, o = queries.new_full((len(queries),), -torch.inf), 0, 0
    for i in range(len(keys) // block_size):
        rows = slice(i * block_size, (i + 1) * block_size)
        scores = queries.matmul(keys[rows].T).div(queries.shape[1] ** 0.5)
        scores = scores.masked_fill(~real[rows], -torch.inf)
        new = scores.max(dim=1).values.maximum(m)
        weights, old = torch.exp(scores - new[:, None]), torch.exp(m - new)
        s, o = old * s + weights.sum(1), old[:, None] * o + weights.matmul(values[rows])
        m = new
    return o / s[:, None]


def tiles_of_twice_the_block(queries, keys, values, block_size):
    return tiles_in_double(queries, keys, values, 2 * block_size)


def one_query_at_a_time(queries, keys, values, block_size):
    shares = (((keys @ q) / len(q) ** 0.5).softmax(0) for q in queries)
    return torch.stack([share @ values for share in shares])


def by_the_kernel(queries, keys, values, block_size):
    return F.scaled_dot_product_attention(queries[None], keys[None], values[None])[0]


def without_any_maximum(queries, keys, values, block_size):
    s, o = 0, 0
    for k, v in zip(keys.split(block_size), values.split(block_size), strict=True):
        weights = (queries @ k.T / queries.shape[1] ** 0.5).exp()
        s, o = s + weights.sum(1, keepdim=True), o + weights @ v
    return o / s


def at_least_minus_1000(queries, keys, values, block_size):
    m, s, o = torch.full((len(queries), 1), -1000.0), 0, 0
    for k, v in zip(keys.split(block_size), values.split(block_size), strict=True):
        scores = queries @ k.T / queries.shape[1] ** 0.5
        new = torch.maximum(m, scores.amax(1, keepdim=True))
        weights, old = (scores - new).exp(), (m - new).exp()
        s, o, m = s * old + weights.sum(1, keepdim=True), o * old + weights @ v, new
    return o / s


def last_tile_dropped(queries, keys, values, block_size):
    whole = len(keys) // block_size * block_size
    return tiles_in_double(queries, keys[:whole], values[:whole], block_size)


# 10.5 -------------------------------------------------------------------------------------


def merged_by_logarithms(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    logs = torch.stack((m1 + s1.log(), m2 + s2.log()))
    whole, maximum = torch.logaddexp(*logs), torch.maximum(m1, m2)
    empty = whole == -torch.inf
    shares = (logs - whole).exp().masked_fill(empty, 0.0)[..., None]
    total = torch.where(empty, 0.0, (whole - maximum).exp())
    return maximum, total, shares[0] * o1 + shares[1] * o2


def merged_query_by_query(first, second):
    rows = []
    for m1, s1, o1, m2, s2, o2 in zip(*first, *second, strict=True):
        if s1 == 0 or s2 == 0:
            rows.append((m2, s2, o2) if s1 == 0 else (m1, s1, o1))
            continue
        m = max(m1.item(), m2.item()) if not (m1.isnan() or m2.isnan()) else math.nan
        a, b = s1.double() * (m1.double() - m).exp(), s2.double() * (m2.double() - m).exp()
        rows.append((torch.tensor(m), a + b, (a * o1 + b * o2) / (a + b)))
    return tuple(torch.stack(c).to(x) for c, x in zip(zip(*rows, strict=True), first, strict=True))


def merged_in_numpy(first, second):
    m, s, o = (
        np.stack([a.numpy(), b.numpy()]).astype(float) for a, b in zip(first, second, strict=True)
    )
    top = m.max(axis=0)
    w = s * np.exp(m - np.where(np.isneginf(top), 0, top))
    total = w.sum(axis=0)
    output = (w[..., None] * o).sum(axis=0) / np.where(total == 0, 1, total)[:, None]
    return tuple(torch.tensor(X, dtype=first[0].dtype) for X in (top, total, output))


def cured_by_nan_to_num(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    m = torch.maximum(m1, m2)
    w1, w2 = (s1 * (m1 - m).exp()).nan_to_num(), (s2 * (m2 - m).exp()).nan_to_num()
    output = (w1[:, None] * o1 + w2[:, None] * o2) / (w1 + w2)[:, None]
    return m, w1 + w2, output.nan_to_num()


def only_weights_cured(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    m = torch.maximum(m1, m2)
    w1, w2 = (s1 * (m1 - m).exp()).nan_to_num(), (s2 * (m2 - m).exp()).nan_to_num()
    total = w1 + w2
    output = (w1[:, None] * o1 + w2[:, None] * o2) / total.where(total > 0, 1.0)[:, None]
    return m, total, output


def halves(first, second):
    m, s, _ = merged_by_logarithms(first, second)
    return m, s, torch.stack((first[2], second[2])).mean(0)


def by_raw_totals(first, second):
    m, s, _ = merged_by_logarithms(first, second)
    share = first[1] / (first[1] + second[1])
    return m, s, share[:, None] * first[2] + (1 - share)[:, None] * second[2]


def relative_to_0(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    w1, w2 = s1 * torch.exp(m1), s2 * torch.exp(m2)
    m = torch.maximum(m1, m2)
    return m, (w1 + w2) / m.exp(), (w1[:, None] * o1 + w2[:, None] * o2) / (w1 + w2)[:, None]


def without_the_empty_case(first, second):
    m, s, o = (torch.stack(pair) for pair in zip(first, second, strict=True))
    w = s * (m - m.amax(0)).exp()
    return m.amax(0), w.sum(0), (w[..., None] * o).sum(0) / w.sum(0)[:, None]


def a_dictionary(first, second):
    return dict(
        zip(("maximum", "total", "output"), merged_by_logarithms(first, second), strict=True)
    )


# 10.6 -------------------------------------------------------------------------------------


def by_a_loop(losses, valid_lens, all_reduce, num_processes):
    total = 0 * losses[0, :0].sum()
    for row, length in zip(losses, valid_lens.tolist(), strict=True):
        total = total + row[:length].sum()
    return total / (all_reduce(float(valid_lens.sum())) / num_processes)


def own_mean_weighted(losses, valid_lens, all_reduce, num_processes):
    places = torch.arange(losses.shape[1]).expand_as(losses)
    mine = losses[places < valid_lens.unsqueeze(1)]
    share = mine.numel() / all_reduce(torch.tensor(mine.numel()))
    return mine.sum() / max(mine.numel(), 1) * share * all_reduce(1)


def in_two_sums(losses, valid_lens, all_reduce, num_processes):
    real = torch.stack([torch.arange(losses.shape[1]) < n for n in valid_lens])
    sums = all_reduce(torch.stack([real.sum(), torch.tensor(1)]))
    return torch.where(real, losses, torch.zeros(())).double().sum() * sums[1] / sums[0]


def ignores_the_others(losses, valid_lens, all_reduce, num_processes):
    parts = [row[:n] for row, n in zip(losses, valid_lens.tolist(), strict=True)]
    return torch.cat(parts).sum() / max(1, int(valid_lens.sum()))


def mean_of_the_lengths(losses, valid_lens, all_reduce, num_processes):
    parts = [row[:n] for row, n in zip(losses, valid_lens.tolist(), strict=True)]
    return torch.cat(parts).sum() / all_reduce(valid_lens.sum())


def skips_empty_processes(losses, valid_lens, all_reduce, num_processes):
    if not valid_lens.any():
        return losses.sum() * 0
    return by_a_loop(losses, valid_lens, all_reduce, num_processes)


def plain_zero_for_nothing(losses, valid_lens, all_reduce, num_processes):
    loss = by_a_loop(losses, valid_lens, all_reduce, num_processes)
    return loss if valid_lens.any() else torch.tensor(0.0)


def cured_by_nan_to_num_too(losses, valid_lens, all_reduce, num_processes):
    real = torch.arange(losses.shape[1])[None] < valid_lens[:, None]
    return (losses * real).nan_to_num().sum() * num_processes / all_reduce(real.sum())


def pads_forgotten(losses, valid_lens, all_reduce, num_processes):
    return losses.sum() / losses.numel()


# 10.7 -------------------------------------------------------------------------------------


def head_by_head(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    size, each = W_q.shape[1] // num_heads, num_heads // num_processes
    share = torch.zeros_like(X) + b_o / num_processes
    for h in range(rank * each, (rank + 1) * each):
        own = slice(h * size, h * size + size)
        q, k, v = X @ W_q[:, own], X @ W_k[:, own], X @ W_v[:, own]
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(size)
        share = share + torch.bmm(scores.softmax(2), v) @ W_o[own]
    return share


def by_chunks_and_einsum(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    H = num_heads // num_processes
    q, k, v = (
        torch.einsum("bnd,dhe->bhne", X, W.chunk(num_processes, 1)[rank].unflatten(1, (H, -1)))
        for W in (W_q, W_k, W_v)
    )
    heads = F.scaled_dot_product_attention(q, k, v)
    rows = W_o.chunk(num_processes)[rank].unflatten(0, (H, -1))
    return torch.einsum("bhne,hed->bnd", heads, rows) + (rank == num_processes - 1) * b_o


def in_double(X, W_q, W_k, W_v, W_o, b_o, *others):
    wide = (tensor.double() for tensor in (X, W_q, W_k, W_v, W_o, b_o))
    return head_by_head(*wide, *others).to(X.dtype)


def bias_everywhere(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    inputs = X, W_q, W_k, W_v, W_o, b_o * num_processes
    return head_by_head(*inputs, num_heads, rank, num_processes)


def all_by_process_0(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    whole = head_by_head(X, W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)
    return whole if rank == 0 else 0 * whole


def projects_everything(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    eye = torch.eye(W_q.shape[0], dtype=X.dtype)
    each = W_q.shape[1] // num_processes
    own = slice(rank * each, rank * each + each)
    q, k, v = ((X @ W)[..., own] @ eye[own, own] for W in (W_q, W_k, W_v))
    q, k, v = (Y.unflatten(-1, (num_heads // num_processes, -1)).transpose(1, 2) for Y in (q, k, v))
    heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    return heads @ W_o[own] + b_o / num_processes


def one_wide_head(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    each = W_q.shape[1] // num_processes
    own = slice(rank * each, rank * each + each)
    scores = (X @ W_q[:, own]) @ (X @ W_k[:, own]).mT / math.sqrt(each)
    return scores.softmax(-1) @ (X @ W_v[:, own]) @ W_o[own] + b_o / num_processes


def sequence_cut(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    mine = X.chunk(num_processes, dim=1)[rank]
    return head_by_head(mine, W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)


def values_learn_nothing(X, W_q, W_k, W_v, *others):
    return head_by_head(X, W_q, W_k, W_v.detach(), *others)


def biased_in_the_second(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    bias = b_o * num_processes if rank == 1 else 0 * b_o
    return head_by_head(X, W_q, W_k, W_v, W_o, bias, num_heads, rank, num_processes)


RIGHT = {
    "10.1": [
        [16, 64, 0.5, 1],
        torch.tensor([[16, 64], [0.5, 1]]),
        [(torch.tensor(16), torch.tensor(64)), (torch.tensor(0.5), np.float32(1))],
        ([np.float64(16), np.int64(64)], [Fraction(1, 2), 1]),
    ],
    "10.2": [
        [160, 180, 2, 15.97, 2],
        [torch.tensor(160.0), torch.tensor(180.0), np.float64(1.9995), np.float32(15.97), 2],
        np.array([160, 180, 2, 16, 2]),
    ],
    "10.3": [sums_row_by_row, sums_by_logarithms, sums_in_numpy],
    "10.4": [tiles_in_double, key_by_key, padded_to_whole_tiles],
    "10.5": [merged_by_logarithms, merged_query_by_query, merged_in_numpy],
    "10.6": [by_a_loop, own_mean_weighted, in_two_sums],
    "10.7": [head_by_head, by_chunks_and_einsum, in_double],
}
WRONG = {
    "10.1": [
        ([(16, 0.5), (64, 1)], "each pair is one thing"),
        ([(17.2, 68.7), (0.54, 1.07)], "billions of bytes"),
        ([(16, 32), (0.5, 1)], "how many times the pairs?"),
        (torch.tensor([16.0, 64.0]), "Give two pairs"),
    ],
    "10.2": [
        ((400, 900, 2, 16, 2), "you send everything to every other"),
        ((160, 180, 2, 16, 32), "which no other one can use"),
        ((160, 180, 2, 2, 2), "use what was read once"),
        ("160, 180, 2, 16, 2", "Give five numbers"),
    ],
    "10.3": [
        (rounded_sums, "it should be"),
        (sums_with_a_floor, "it should be"),
        (joins_the_row, "a whole row in the end"),
        (begins_at_minus_500, "does your maximum begin at -inf?"),
        (overflows, "later is too late"),
        (sums_in_float32, "it should be float64"),
    ],
    "10.4": [
        (tiles_of_twice_the_block, "or more than a tile of them"),
        (one_query_at_a_time, "all scores at once"),
        (by_the_kernel, "PyTorch's own kernel"),
        (without_any_maximum, "Begin below all scores"),
        (at_least_minus_1000, "Begin below all scores"),
        (last_tile_dropped, "are never read"),
    ],
    "10.5": [
        (cured_by_nan_to_num, "`nan_to_num` hides it"),
        (only_weights_cured, "`nan_to_num` hides it"),
        (halves, "the mean of both outputs"),
        (by_raw_totals, "weighted by the totals alone"),
        (relative_to_0, "leave a float's range"),
        (without_the_empty_case, "-inf - -inf is NaN"),
        (a_dictionary, "it should return 3 results"),
    ],
    "10.6": [
        (ignores_the_others, "the mean of the processes' means, 2 and 10"),
        (mean_of_the_lengths, "divides by the number of processes once more"),
        (skips_empty_processes, "would wait for ever"),
        (plain_zero_for_nothing, "no gradient reaches its losses"),
        (pads_forgotten, "padding included"),
        (cured_by_nan_to_num_too, "`nan_to_num` hides it"),
    ],
    "10.7": [
        (bias_everywhere, "Every process adds b_o"),
        (all_by_process_0, "uses columns or rows of other processes"),
        (projects_everything, "throws most of it away"),
        (one_wide_head, "as one head"),
        (sequence_cut, "You cut the sequence"),
        (values_learn_nothing, "no gradient reaches `W_v`"),
        (biased_in_the_second, "A group of one process"),
    ],
}
