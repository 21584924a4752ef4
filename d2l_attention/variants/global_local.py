"""Windows and a few global tokens: two steps carry a word from any place to any other."""

import torch

from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.fused import fused_attention
from d2l_attention.variants.blocks import (
    block_attention,
    neighbour_blocks,
)
from d2l_attention.variants.masks import global_tokens_mask, near, sliding_window_mask
from d2l_attention.variants.pattern import PatternAttention, real_keys
from d2l_attention.variants.window import window_block


class GlobalLocalAttention(PatternAttention):
    """The first ``num_global`` tokens see all and are seen by all, the others see a window.

    A token sees itself, ``window`` neighbours on each side and the global tokens, in one
    softmax. With ``is_causal`` global tokens see, and are seen, backwards alone.

    Longformer has projections of their own for the global tokens; here they share them.

    Shape, masks and weights: see ``PatternAttention``.

    Errors: ``ValueError`` for a window or number below 0.

    Source: Beltagy, Peters and Cohan (2020), Longformer, section 3.1.
    """

    def __init__(self, window: int, num_global: int, dropout: float):
        super().__init__(dropout)
        self.window = check_whole("window", window, 0)
        self.num_global = check_whole("num_global", num_global, 0)

    def pattern(self, num_queries, num_keys):
        offset = num_keys - num_queries
        local = sliding_window_mask(num_queries, num_keys, window=self.window, offset=offset)
        is_global = torch.arange(num_keys) < min(self.num_global, num_keys)
        return local | global_tokens_mask(is_global)[offset:]

    def sparse(self, queries, keys, values, visible, dropout):
        num_tokens = queries.shape[-2]
        window, num_global = min(self.window, num_tokens), min(self.num_global, num_tokens)
        block_size = window_block(window, num_tokens)
        num_blocks = -(-num_tokens // block_size)
        # Every block of queries is given its neighbours, and the blocks of the global tokens.
        beside = neighbour_blocks(num_blocks, -(-window // block_size), visible.is_causal)
        first = torch.arange(min(-(-num_global // block_size), num_blocks), device="cpu")
        beside = beside.masked_fill(beside < len(first), -1)  # no block twice
        table = torch.cat((first.expand(num_blocks, -1), beside), dim=1)
        local = block_attention(
            queries,
            keys,
            values,
            real_keys(keys, visible),
            table,
            block_size,
            lambda i, j: near(i, j, window) | (j < num_global),
            is_causal=visible.is_causal,
            dropout=dropout,
        )
        first = queries[..., :num_global, :]  # these see all there is
        top = fused_attention(first, keys, values, visible, dropout=dropout)
        return torch.cat((top, local[..., num_global:, :]), dim=-2)
