"""Which keys to read, decided by what they hold: a cheap score for blocks, then attention."""

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.masks import Visible, check_attention_inputs
from d2l_attention.attention.scores import dot_score


def chosen_blocks_mask(
    queries: Tensor,
    keys: Tensor,
    valid_lens: Tensor | None = None,
    *,
    block_size: int,
    num_chosen: int,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
) -> Tensor:
    """Each query sees the ``num_chosen`` blocks of keys that suit it best, and its own block.

    A block's score is the dot product of the query and the mean of the block's keys that this query
    sees. Blocks without one are never chosen. The choice has no gradient.

    Shape: queries (*, Q, D), keys (*, K, D), valid_lens (B,) or (B, Q), mask as in
    ``attention_mask`` -> bool (*, Q, K).

    Errors: ``ValueError`` for a block size below 1 or fewer than no blocks.

    Source: Lu et al. (2025), MoBA: Mixture of Block Attention, section 2.2.
    """
    shape = check_attention_inputs(queries, keys, keys, same_size=True)
    check_whole("block_size", block_size)
    check_whole("num_chosen", num_chosen, 0)
    visible = Visible.of(shape, valid_lens, mask, is_causal, offset, queries.device)
    return _chosen(queries, keys, visible, block_size, num_chosen)


def _chosen(
    queries: Tensor, keys: Tensor, visible: Visible, block_size: int, num_chosen: int
) -> Tensor:
    """Score the blocks by their means, and take the best: bool (*, Q, K)."""
    num_queries, num_keys = queries.shape[-2], keys.shape[-2]
    shape = (*queries.shape[:-1], num_keys)
    block_size = min(block_size, max(num_keys, 1))
    mask = visible.as_mask((num_queries, num_keys), queries.device)
    if mask is None:
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=queries.device)
    mask = mask.expand(shape)
    num_blocks = -(-num_keys // block_size)
    padding = num_blocks * block_size - num_keys
    # A mean of dot products is the dot product with the mean: of the keys that this query sees, or
    # what is hidden from it would decide what it reads. In float32, which a sum of halves needs.
    wide = torch.promote_types(keys.dtype, torch.float32)
    products = dot_score(queries.detach().to(wide), keys.detach().to(wide))  # (*, Q, K)

    def by_block(X: Tensor) -> Tensor:  # (*, Q, K) -> (*, Q, blocks, b)
        return F.pad(X, (0, padding)).unflatten(-1, (num_blocks, block_size))

    counts = by_block(mask).sum(dim=-1)  # (*, Q, blocks)
    scores = by_block(products.masked_fill(~mask, 0.0)).sum(dim=-1) / counts.clamp_min(1)
    # The query's own block is always read. Blocks of the future hold no key that it sees.
    position = torch.arange(visible.offset, visible.offset + num_queries, device=queries.device)
    block = torch.arange(num_blocks, device=queries.device)
    own = block == position[:, None] // block_size  # (Q, blocks)
    candidates = ~own & (counts > 0)
    best = scores.masked_fill(~candidates, -torch.inf).topk(min(num_chosen, num_blocks), dim=-1)
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best.indices, True)
    tokens = (chosen & candidates | own).repeat_interleave(block_size, dim=-1)[..., :num_keys]
    return tokens & mask


class ChosenBlocksAttention(DotProductAttention):
    """Scaled dot-product attention to the blocks of keys that each query chooses.

    With as many chosen blocks as there are it is plain attention. Here the choice becomes a mask
    (*, Q, K), which shows what is seen and saves nothing; a kernel that skips blocks saves all
    the rest. Self-attention: query i stands at position i + ``offset`` of the keys.

    Shape, masks and weights: see ``DotProductAttention``.

    Source: Lu et al. (2025), MoBA; Yuan et al. (2025), Native Sparse Attention, which learns what
    stands for a block, and adds a window.
    """

    def __init__(self, block_size: int, num_chosen: int, dropout: float):
        super().__init__(dropout)
        check_whole("block_size", block_size)
        check_whole("num_chosen", num_chosen, 0)
        self.block_size, self.num_chosen = block_size, num_chosen

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        chosen = _chosen(queries, keys, visible, self.block_size, self.num_chosen)
        inside = Visible.by_mask(chosen)
        inputs = inside.clear(queries, keys, values)
        return super().attend(*inputs, inside, bias, need_weights)
