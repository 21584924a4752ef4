"""The additive score of many pairs, without D numbers in memory for each of them.

The plain formula, w . tanh(q + k), writes a tensor (Q, K, D) to memory and reads it again, and
the backward pass reads it once more. Two ideas avoid that.

**Exponentials once a token.** With a = exp(2q) and b = exp(2k)

    tanh(q + k) = (ab - 1) / (ab + 1) = 1 - 2r,    r = 1 / (1 + ab),

so exponentials are needed for Q + K tokens and not for Q * K pairs: a pair costs a product, a
sum and a division. The score is sum(w) - 2 w . r, and the derivative of the tanh is 4 (r - r^2).
Where a is too large for a float and b too small, ab is no number at all: the identity is for
inputs up to ``LARGEST``, and beyond it r = (1 - tanh(q + k)) / 2 is taken from the tanh.

**Pieces that stay in the cache.** A few queries at a time meet all keys, in one piece of memory
that is used again and again. The backward pass computes r anew instead of keeping it, the way
FlashAttention does (Dao et al., 2022, section 3.1).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

# 2q and 2k then stay within 40, and exp(40) * exp(40) is within a float32.
LARGEST = 20.0
# Numbers in a piece: a megabyte of float32, which the second cache of a core holds. On a GPU
# every piece costs the start of a few kernels, so there they are larger.
PIECE_CPU, PIECE_GPU = 2**18, 2**24


def pays(queries: Tensor, keys: Tensor, w_v: Tensor) -> bool:
    """Whether pieces are worth their while: many pairs, of numbers that the identity is for.

    A single query has as many pairs as keys: nothing is shared. Half precision rounds the
    exponentials too much. A compiler fuses the plain formula by itself, and what traces a graph
    would write down the pieces one by one.
    """
    in_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if in_graph or torch.is_autocast_enabled(queries.device.type):
        return False
    if queries.shape[-2] == 1 or keys.shape[-2] == 1:
        return False
    same = queries.dtype == keys.dtype == w_v.dtype and w_v.dtype in (torch.float32, torch.float64)
    return same and queries.numel() * keys.shape[-2] > piece_size(queries)


def additive_score_in_pieces(queries: Tensor, keys: Tensor, w_v: Tensor) -> Tensor:
    """w_v . tanh(q + k), in memory for the scores and one piece.

    The error is a few eps of the largest summand: where all inputs are tiny, digits are lost that
    the tanh would keep. A second derivative takes the memory of the plain formula.

    Shape: queries (*, Q, D), keys (*, K, D), w_v (D,) -> (*, Q, K).
    """
    leading = torch.broadcast_shapes(queries.shape[:-2], keys.shape[:-2])
    queries, keys = (
        X.expand(*leading, *X.shape[-2:]).reshape(-1, *X.shape[-2:]) for X in (queries, keys)
    )
    scores = AdditiveScore.apply(queries, keys, w_v)
    return scores.reshape(*leading, *scores.shape[1:])


class AdditiveScore(torch.autograd.Function):
    """The score and its gradients, piece by piece: (B, Q, D), (B, K, D), (D,) -> (B, Q, K)."""

    @staticmethod
    def forward(queries, keys, w_v):
        scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
        for r, part in zip(pieces(queries, keys), cut(scores, keys), strict=True):
            torch.mv(r.flatten(0, 2), w_v, out=part.view(-1))
        return scores.mul_(-2).add_(w_v.sum())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        queries, keys, w_v = ctx.saved_tensors
        if torch.is_grad_enabled():  # this derivative will be differentiated: write it out
            t = (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()
            slope = w_v * (1 - t.square()) * gradient.unsqueeze(-1)
            return slope.sum(dim=2), slope.sum(dim=1), (gradient.unsqueeze(-1) * t).sum((0, 1, 2))
        by_query, by_key = torch.empty_like(queries), torch.zeros_like(keys)
        by_weight = torch.zeros_like(w_v)
        parts = cut(gradient, keys), cut(by_query, keys), cut_keys(by_key, queries)
        for r, g, query_part, key_part in zip(pieces(queries, keys), *parts, strict=True):
            by_weight.addmv_(r.flatten(0, 2).T, g.reshape(-1), alpha=-2)
            r.addcmul_(r, r, value=-1)  # r - r^2
            query_part.copy_((g[..., None, :] @ r)[..., 0, :])
            for row in range(r.shape[1]):
                key_part.addcmul_(g[:, row, :, None], r[:, row])
        return 4 * w_v * by_query, 4 * w_v * by_key, by_weight + gradient.sum()


def pieces(queries: Tensor, keys: Tensor) -> Iterator[Tensor]:
    """r = (1 - tanh(q + k)) / 2 of some sequences and some of their queries, (b, q, K, D).

    Each is overwritten by the next.
    """
    in_range = queries.abs().max() <= LARGEST and keys.abs().max() <= LARGEST
    a, b = ((2 * queries).exp(), (2 * keys).exp()) if in_range else (queries, keys)
    one, memory = queries.new_ones(()), None
    for left, right in zip(cut(a, keys), cut_keys(b, queries), strict=True):
        left, right = left[:, :, None], right[:, None]
        if memory is None:  # the first piece is the largest
            memory = queries.new_empty(*left.shape[:2], *right.shape[2:])
        r = memory[: left.shape[0], : left.shape[1]]
        if in_range:
            torch.addcmul(one, left, right, out=r).reciprocal_()
        else:
            torch.add(left, right, out=r).tanh_().mul_(-0.5).add_(0.5)
        yield r


def cut(X: Tensor, keys: Tensor) -> list[Tensor]:
    """(B, Q, any size) in pieces (b, q, any size): whole sequences, or a part of one's queries."""
    sequences, rows = piece_shape(X.shape[1], keys)
    return [part for some in X.split(sequences) for part in some.split(rows, dim=1)]


def cut_keys(keys: Tensor, queries: Tensor) -> list[Tensor]:
    """The keys of each piece of queries: (b, K, D), the same where pieces share a sequence."""
    num_queries = queries.shape[1]
    sequences, rows = piece_shape(num_queries, keys)
    repeats = -(-num_queries // rows)
    return [some for some in keys.split(sequences) for _ in range(repeats)]


def piece_shape(num_queries: int, keys: Tensor) -> tuple[int, int]:
    """How many sequences, and how many queries of each, fit into a piece."""
    rows = max(1, piece_size(keys) // (keys.shape[1] * keys.shape[2]))
    return max(1, rows // num_queries), min(rows, num_queries)


def piece_size(X: Tensor) -> int:
    """How many numbers a piece holds on the device of ``X``."""
    return PIECE_CPU if X.device.type == "cpu" else PIECE_GPU
