"""Windows and a few global tokens: two steps carry a word from any place to any other."""

import torch
from torch import Tensor

from d2l_attention.attention._checks import check_whole
from d2l_attention.variants.blocks import (
    block_attention,
    first_rows,
    neighbour_blocks,
    visible_keys,
)
from d2l_attention.variants.masks import global_tokens_mask, near, sliding_window_mask
from d2l_attention.variants.pattern import PatternAttention
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
        check_whole("window", window, 0)
        check_whole("num_global", num_global, 0)
        self.window, self.num_global = window, num_global

    def pattern(self, num_queries, num_keys):
        offset = num_keys - num_queries
        local = sliding_window_mask(num_queries, num_keys, window=self.window, offset=offset)
        is_global = torch.arange(num_keys) < self.num_global
        return local | global_tokens_mask(is_global)[offset:]

    def sparse(self, queries, keys, values, visible, dropout):
        window, num_global, num_tokens = self.window, self.num_global, queries.shape[-2]
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
            visible_keys(visible, queries.device),
            table,
            block_size,
            lambda i, j: near(i, j, window) | (j < num_global),
            is_causal=visible.is_causal,
            dropout=dropout,
        )
        top = first_rows(queries, keys, values, visible, num_global, dropout)
        return torch.cat((top, local[..., num_global:, :]), dim=-2)


def global_local_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    valid_lens: Tensor | None = None,
    *,
    window: int,
    num_global: int,
    is_causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Self-attention within a window, and to and from the first ``num_global`` tokens.

    Shape: queries (*, n, D), keys (*, n, D), values (*, n, V), valid_lens (B,) -> output
    (*, n, V), and with ``need_weights`` also weights (*, n, n).

    Everything else, and the source: see ``GlobalLocalAttention``.
    """
    attention = GlobalLocalAttention(window, num_global, dropout)
    return attention(
        queries, keys, values, valid_lens, is_causal=is_causal, need_weights=need_weights
    )
