"""Softmax and attention in one pass over the keys, a block at a time: no (Q, K) matrix.

Letters as in ``pooling.py``. A row of scores is never seen as a whole, so its maximum and
the sum of its exponentials are running ones: a larger maximum rescales what was summed before.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from d2l_attention.attention.checks import check_floats, check_same_size, check_whole
from d2l_attention.attention.masks import causal_mask, check_attention_inputs
from d2l_attention.attention.scores import scaled_dot_score


def running_sums(scores: Tensor, block_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The maximum m and the sum of exp(score - m), of all the scores read so far.

    Shape: scores (*, K) -> two tensors (*, 1) after each block of ``block_size`` scores. Half
    precision is summed in single.

    Errors: ``ValueError`` for a block of no scores, ``TypeError`` for scores that are no floats.

    Source: Milakov and Gimelshein (2018), algorithm 3.
    """
    check_floats("scores", scores)
    check_whole("block_size", block_size)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # as PyTorch sums
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise ValueError(f"scores (*, K) must hold at least one score, got {tuple(scores.shape)}")
    # The sum starts at 0, so what it is rescaled by at first does not matter: the lowest finite
    # number takes -inf's part, and -inf - -inf = NaN never comes up.
    maximum = scores.new_full((*scores.shape[:-1], 1), torch.finfo(scores.dtype).min)
    total = torch.zeros_like(maximum)
    for block in scores.split(block_size, dim=-1):
        larger = torch.maximum(maximum, block.amax(dim=-1, keepdim=True))
        total = total * (maximum - larger).exp() + (block - larger).exp().sum(-1, keepdim=True)
        maximum = larger
        yield maximum, total


def online_softmax(scores: Tensor, block_size: int) -> Tensor:
    """Softmax over the last axis with one pass for maximum and sum, where it usually takes two.

    Shape: scores (*, K) -> (*, K). -inf gets weight 0; a row of nothing else is all zeros.

    Errors: as ``running_sums``.

    Source: Milakov and Gimelshein (2018), section 3.
    """
    maximum, total = torch.zeros(()), torch.ones(())
    for maximum, total in running_sums(scores, block_size):  # noqa: B007 - the last pair counts
        pass
    return ((scores - maximum).exp() / total.masked_fill(total == 0, 1.0)).to(scores.dtype)


def tiled_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    block_size: int,
    is_causal: bool = False,
) -> Tensor:
    """softmax(q . k / sqrt(D)) v, tile by tile: ``block_size`` queries by ``block_size`` keys.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> (*, Q, V).

    Memory in use grows with Q + K, in the backward pass too: a row of tiles is then computed again
    rather than kept. (Some systems keep the freed tiles for a while.) ``is_causal`` lets query i
    see keys 0 to i, and skips the tiles of the future.

    Errors: ``ValueError`` for shapes that do not fit or a block of no rows.

    Source: Dao et al. (2022), algorithms 1 and 4; Dao (2023) for the order of the loops.
    """
    check_attention_inputs(queries, keys, values)
    check_same_size(queries, keys)
    check_whole("block_size", block_size)
    outputs = []
    for start in range(0, queries.shape[-2], block_size):
        block = queries[..., start : start + block_size, :]
        arguments = (block, keys, values, start if is_causal else None, block_size)
        if torch.is_grad_enabled():
            row = checkpoint(row_of_tiles, *arguments, use_reentrant=False)
        else:
            row = row_of_tiles(*arguments)
        outputs.append(row)
    return torch.cat(outputs, dim=-2) if outputs else queries @ keys.mT @ values


def row_of_tiles(
    queries: Tensor, keys: Tensor, values: Tensor, first: int | None, block_size: int
) -> Tensor:
    """One block of queries against all keys; ``first`` is its place in a causal sequence.

    Each tile adds to the output and to the sum of the weights; what the tiles before it added was
    relative to a lower maximum, and is rescaled. The division comes last, once.
    """
    dtype, wide = queries.dtype, torch.promote_types(queries.dtype, torch.float32)
    queries, size = queries.to(wide), queries.shape[-2]  # half precision is too little for sums
    output = queries.new_zeros(*queries.shape[:-1], values.shape[-1])
    maximum = queries.new_full((*queries.shape[:-1], 1), torch.finfo(queries.dtype).min)
    total = torch.zeros_like(maximum)
    last = keys.shape[-2] if first is None else min(first + size, keys.shape[-2])
    for start in range(0, last, block_size):
        tile = slice(start, min(start + block_size, last))
        scores = scaled_dot_score(queries, keys[..., tile, :].to(wide))
        if first is not None and tile.stop > first + 1:  # part of the tile is future
            past = causal_mask(size, last, offset=first, device=scores.device)[:, tile]
            scores = scores.masked_fill(~past, -math.inf)
        larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        rescale, weights = (maximum - larger).exp(), (scores - larger).exp()
        output = output * rescale + weights @ values[..., tile, :].to(wide)
        total = total * rescale + weights.sum(dim=-1, keepdim=True)
        maximum = larger
    return (output / total.masked_fill(total == 0, 1.0)).to(dtype)  # without keys: 0


def partial_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention over some of the keys, and log(sum(exp(scores))): how much these keys count.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), mask (Q, K) bool
    -> output (*, Q, V), log_sum (*, Q). Where all is hidden: output 0, log_sum -inf, and
    a gradient that is NaN: leave parts out that nobody sees.

    Half precision is computed in single, and the log_sum stays in it: bfloat16 has steps of 0.06
    from 8 on, and exp makes 6% of one. The output is of the type of the values.
    """
    dtype = values.dtype
    queries, keys, values = map(in_single, (queries, keys, values))
    scores = scaled_dot_score(queries, keys)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    log_sum = scores.logsumexp(dim=-1)
    hidden = log_sum == -math.inf
    weights = (scores - log_sum.masked_fill(hidden, 0.0)[..., None]).exp()
    return (weights @ values).to(dtype), log_sum


def in_single(X: Tensor) -> Tensor:
    """Half precision as single precision: it is too little for sums."""
    return X.float() if X.dtype in (torch.bfloat16, torch.float16) else X


def merge_partial(outputs: Sequence[Tensor], log_sums: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """One attention from several over different keys: an average, weighted by exp(log_sum).

    Shape: outputs (*, Q, V) each, log_sums (*, Q) each -> output (*, Q, V), log_sum (*, Q).

    A part with log_sum -inf saw nothing and adds nothing; where no part saw anything the output
    is 0 and the log_sum -inf. What comes out can be merged again. Half precision is summed in
    single: the output is of the outputs' type, the log_sum stays in single.

    Errors: ``ValueError`` where outputs and log_sums do not come in pairs.
    """
    if not outputs or len(outputs) != len(log_sums):
        raise ValueError(
            f"outputs and log_sums must come in pairs, got {len(outputs)} and {len(log_sums)}"
        )
    for output, log_sum in zip(outputs, log_sums, strict=True):
        if output.shape[:-1] != log_sum.shape:
            raise ValueError(
                "each output (*, Q, V) needs a log_sum (*, Q), "
                f"got {tuple(output.shape)} and {tuple(log_sum.shape)}"
            )
    dtype, parts = outputs[0].dtype, in_single(torch.stack(list(log_sums)))
    log_sum = parts.logsumexp(dim=0)
    weights = (parts - log_sum.masked_fill(log_sum == -math.inf, 0.0)).exp()
    output = (torch.stack(list(outputs)) * weights[..., None]).sum(dim=0)
    return output.to(dtype), log_sum
