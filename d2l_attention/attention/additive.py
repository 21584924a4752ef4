"""The additive score of many pairs, without D numbers in memory for each of them.

The plain formula, w . tanh(q + k), writes a tensor (Q, K, D) to memory and reads it again, and
the backward pass reads it once more. Two ideas avoid that.

**Exponentials once a token.** With a = exp(2q) and b = exp(2k)

    tanh(q + k) = (ab - 1) / (ab + 1) = 1 - 2r,    r = 1 / (1 + ab),

so exponentials are needed for Q + K tokens and not for Q * K pairs: a pair costs a product, a
sum and a division. The score is sum(w) - 2 w . r, and the derivative of the tanh is 4 (r - r^2).
Where a is too large for a float and b too small, ab is no number at all: the identity is for
inputs up to ``LARGEST``, and beyond it, and on a GPU, which would have to be waited for to know,
r = (1 - tanh(q + k)) / 2 is taken from the tanh.

**Chunks that stay in the cache.** A few queries at a time meet all keys, in one block of memory
that is used again and again. The backward pass computes r anew instead of keeping it, the way
FlashAttention does (Dao et al., 2022, section 3.1).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from d2l_attention.attention.masks import is_free_to_read

# 2q and 2k then stay within 40, and exp(40) * exp(40) is within a float32.
LARGEST = 20.0
# Numbers in a chunk: a megabyte of float32, which the second cache of a core holds. On a GPU the
# plain formula is faster while it fits: with its backward pass it holds three times its numbers.
CHUNK_CPU, CHUNK_GPU = 2**18, 2**25
WHOLE_GPU = 2**28  # numbers; on a CUDA card as many as fill a third of its memory so


def worth_chunking(queries: Tensor, keys: Tensor, w_v: Tensor) -> bool:
    """Whether chunks are worth their while: many pairs, of numbers that the identity is for.

    A single query has as many pairs as keys: nothing is shared. Half precision rounds the
    exponentials too much. A compiler fuses the plain formula by itself, and what traces a graph
    would write down the chunks one by one.
    """
    in_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()
    kind = queries.device.type
    if in_graph or torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return False
    if queries.shape[-2] == 1 or keys.shape[-2] == 1:
        return False
    same = queries.dtype == keys.dtype == w_v.dtype and w_v.dtype in (torch.float32, torch.float64)
    return same and queries.numel() * keys.shape[-2] > _whole(queries)


def additive_score_in_chunks(queries: Tensor, keys: Tensor, w_v: Tensor) -> Tensor:
    """w_v . tanh(q + k), in memory for the scores and one chunk.

    The error is a few eps of the largest summand: where all inputs are tiny, digits are lost that
    the tanh would keep. A gradient that is to have a gradient takes the plain formula's memory.

    Shape: queries (*, Q, D), keys (*, K, D), w_v (D,) -> (*, Q, K).
    """
    leading = torch.broadcast_shapes(queries.shape[:-2], keys.shape[:-2])
    queries, keys = (
        X.expand(*leading, *X.shape[-2:]).reshape(-1, *X.shape[-2:]) for X in (queries, keys)
    )
    scores = _AdditiveScore.apply(queries, keys, w_v)
    return scores.reshape(*leading, *scores.shape[1:])


class _AdditiveScore(torch.autograd.Function):
    """The score and its gradients, chunk by chunk: (B, Q, D), (B, K, D), (D,) -> (B, Q, K)."""

    @staticmethod
    def forward(queries, keys, w_v):
        scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
        for r, part in zip(_chunks(queries, keys), _cut(scores, keys), strict=True):
            torch.mv(r.flatten(0, 2), w_v, out=part.view(-1))
        return scores.mul_(-2).add_(w_v.sum())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vmap(info, in_dims, *inputs):
        """One call after the other."""
        each = [
            [X if dim is None else X.select(dim, i) for X, dim in zip(inputs, in_dims, strict=True)]
            for i in range(info.batch_size)
        ]
        return torch.stack([_AdditiveScore.apply(*one) for one in each]), 0

    @staticmethod
    def backward(ctx, gradient):
        queries, keys, w_v = ctx.saved_tensors
        if torch.is_grad_enabled():  # these derivatives are to have derivatives themselves
            return _derivatives(queries, keys, w_v, gradient)
        by_query, by_key = torch.empty_like(queries), torch.zeros_like(keys)
        by_weight = torch.zeros_like(w_v)
        parts = _cut(gradient, keys), _cut(by_query, keys), _cut_keys(by_key, queries)
        for r, g, query_part, key_part in zip(_chunks(queries, keys), *parts, strict=True):
            by_weight.addmv_(r.flatten(0, 2).T, g.reshape(-1), alpha=-2)
            r.addcmul_(r, r, value=-1).mul_(g[..., None])  # (r - r^2) g
            query_part.copy_(r.sum(dim=2))
            key_part.add_(r.sum(dim=1))
        return 4 * w_v * by_query, 4 * w_v * by_key, by_weight + gradient.sum()


def _derivatives(queries, keys, w_v, gradient):
    """What the chunks add up to, as a formula that PyTorch can differentiate once more."""
    tanh = (queries[:, :, None] + keys[:, None]).tanh()  # (B, Q, K, D)
    slopes = w_v * (1 - tanh**2) * gradient[..., None]
    by_weight = (tanh * gradient[..., None]).sum(dim=(0, 1, 2))
    return slopes.sum(dim=2), slopes.sum(dim=1), by_weight


def _chunks(queries: Tensor, keys: Tensor) -> Iterator[Tensor]:
    """r = (1 - tanh(q + k)) / 2 of some sequences and some of their queries, (b, q, K, D).

    Each is overwritten by the next.
    """
    in_range = is_free_to_read(queries) and all(X.abs().max() <= LARGEST for X in (queries, keys))
    a, b = ((2 * queries).exp(), (2 * keys).exp()) if in_range else (queries, keys)
    one, memory = queries.new_ones(()), None
    for left, right in zip(_cut(a, keys), _cut_keys(b, queries), strict=True):
        left, right = left[:, :, None], right[:, None]
        if memory is None:  # the first chunk is the largest
            memory = queries.new_empty(*left.shape[:2], *right.shape[2:])
        r = memory[: left.shape[0], : left.shape[1]]
        if in_range:
            torch.addcmul(one, left, right, out=r).reciprocal_()
        else:
            torch.add(left, right, out=r).tanh_().mul_(-0.5).add_(0.5)
        yield r


def _cut(X: Tensor, keys: Tensor) -> list[Tensor]:
    """(B, Q, any size) in chunks (b, q, any size): whole sequences, or a part of one's queries."""
    sequences, rows = _chunk_shape(X.shape[1], keys)
    return [part for some in X.split(sequences) for part in some.split(rows, dim=1)]


def _cut_keys(keys: Tensor, queries: Tensor) -> list[Tensor]:
    """The keys of each chunk of queries: (b, K, D), the same where chunks share a sequence."""
    num_queries = queries.shape[1]
    sequences, rows = _chunk_shape(num_queries, keys)
    repeats = -(-num_queries // rows)
    return [some for some in keys.split(sequences) for _ in range(repeats)]


def _chunk_shape(num_queries: int, keys: Tensor) -> tuple[int, int]:
    """How many sequences, and how many queries of each, fit into a chunk."""
    rows = max(1, _chunk_size(keys) // (keys.shape[1] * keys.shape[2]))
    return max(1, rows // num_queries), min(rows, num_queries)


def _whole(X: Tensor) -> int:
    """Up to how many numbers the plain formula is taken on the device of ``X``."""
    if not X.is_cuda:
        return CHUNK_CPU if X.is_cpu else WHOLE_GPU
    memory = torch.cuda.get_device_properties(X.device).total_memory
    return max(WHOLE_GPU, memory // (9 * X.element_size()))


def _chunk_size(X: Tensor) -> int:
    """How many numbers a chunk holds on the device of ``X``."""
    return CHUNK_CPU if X.is_cpu else CHUNK_GPU
