"""Blocks of queries that see few blocks of keys: the cost is that of the blocks seen."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention.fused import fused_attention
from d2l_attention.attention.masks import Visible, zero_rows


def block_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    real: Tensor,
    table: Tensor,
    block_size: int,
    sees: Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Scaled dot-product attention of each block of queries to the blocks in its row of ``table``.

    Shape: queries (*, n, D), keys (*, n, D), values (*, n, V), real bool (B or 1, n):
    keys that are no padding, table (blocks, m), -1 for no block -> (*, n, V).

    ``sees(i, j)`` takes the positions of queries and keys, integers that broadcast together, and
    tells who sees whom within these blocks; without it everybody does.

    The keys of m blocks lie together in a copy, so that PyTorch's fused kernel can run over
    all blocks at once: n * m * block_size scores, none of them kept.
    """
    *leading, num_queries, _ = queries.shape
    batch, heads = (leading or [1])[0], math.prod(leading[1:])
    num_blocks, m = table.shape
    table = table.to(queries.device)
    mask = block_mask(real, table, block_size, sees, is_causal)

    def split(X: Tensor) -> Tensor:  # (*, n, D) -> (B, H, blocks, b, D)
        X = F.pad(X, (0, 0, 0, num_blocks * block_size - X.shape[-2]))
        return X.reshape(batch, heads, num_blocks, block_size, X.shape[-1])

    def gather(X: Tensor) -> Tensor:  # (B, H, blocks, b, D) -> (B, H, blocks, m * b, D)
        blocks = X.index_select(2, table.clamp(min=0).flatten())
        return blocks.unflatten(2, (num_blocks, m)).flatten(3, 4)

    # A query that sees nothing may hold anything: zeros, as in the keys that nobody sees.
    queries = zero_rows(split(queries), mask.any(dim=-1)[:, None])
    # (B * blocks, H, rows, D): all heads of a block share its mask.
    queries, keys, values = (
        X.transpose(1, 2).flatten(end_dim=1)
        for X in (queries, gather(split(keys)), gather(split(values)))
    )
    mask = mask.expand(batch, -1, -1, -1).flatten(end_dim=1)[:, None]
    output = fused_attention(queries, keys, values, Visible(hidden=~mask), dropout=dropout)
    output = output.unflatten(0, (batch, num_blocks)).transpose(1, 2)
    output = output.reshape(*leading, num_blocks * block_size, output.shape[-1])
    return output[..., :num_queries, :]


def block_mask(
    real: Tensor,
    table: Tensor,
    block_size: int,
    sees: Callable[[Tensor, Tensor], Tensor] | None,
    is_causal: bool,
) -> Tensor:
    """Who sees whom in ``block_attention``.

    Shape: (B or 1, blocks, b or 1, m * b), query against key of the blocks that it is given.
    """
    num_tokens = len(table) * block_size
    positions = torch.arange(num_tokens, device=table.device).reshape(-1, block_size)
    real = F.pad(real, (0, num_tokens - real.shape[-1])).unflatten(-1, positions.shape)
    mask = (real[:, table] & (table >= 0)[..., None]).flatten(2)[:, :, None]
    i, j = positions[:, :, None], positions[table].flatten(1)[:, None]
    if sees is not None:
        mask = mask & sees(i, j)
    return mask & (j <= i) if is_causal else mask


def neighbour_blocks(num_blocks: int, reach: int, is_causal: bool) -> Tensor:
    """Each block's own number and those of ``reach`` blocks before it and, if any, behind it.

    Shape: (blocks, reach + 1) where ``is_causal``, else (blocks, 2 * reach + 1); -1 for no block.
    """
    reach = min(reach, num_blocks)
    block = torch.arange(num_blocks, device="cpu")[:, None]
    table = block + torch.arange(-reach, 1 if is_causal else reach + 1, device="cpu")
    return table.masked_fill((table < 0) | (table >= num_blocks), -1)
