"""BigBird: windows, global tokens and random links, all between blocks of tokens."""

import torch

from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.fused import fused_attention
from d2l_attention.variants.blocks import block_attention
from d2l_attention.variants.masks import bigbird_blocks, bigbird_mask
from d2l_attention.variants.pattern import PatternAttention, real_keys


class BigBirdAttention(PatternAttention):
    """Who sees whom is ``bigbird_mask``; the cost is that of the blocks seen.

    Each token sees ``num_global + 2 * window + 1 + num_random`` blocks of ``block_size`` tokens
    at most; the tokens of the first ``num_global`` blocks see all. ``seed`` draws the random links,
    the same at every call with as many blocks; a longer text, padding included, has others, and
    so with random links there is no cache.

    Shape, masks and weights: see ``PatternAttention``.

    Errors: ``ValueError`` for a block size below 1, a window or number below 0, or random links
    behind a cache.

    Source: Zaheer et al. (2020), BigBird, section 2 and appendix D.
    """

    def __init__(
        self,
        block_size: int,
        window: int,
        num_global: int,
        num_random: int,
        dropout: float,
        *,
        seed: int,
    ):
        super().__init__(dropout)
        self.block_size = check_whole("block_size", block_size, 1)
        self.links = dict(window=window, num_global=num_global, num_random=num_random, seed=seed)
        bigbird_blocks(1, **self.links)  # raises where a number is wrong

    def pattern(self, num_queries, num_keys):
        if self.links["num_random"] > 0 and num_queries != num_keys:
            raise ValueError(
                "random links depend on the number of tokens, so each query needs its key and "
                f"there is no cache, got {num_queries} queries and {num_keys} keys"
            )
        whole = bigbird_mask(num_keys, block_size=self.block_size, **self.links)
        return whole[num_keys - num_queries :]

    def sparse(self, queries, keys, values, visible, dropout):
        num_tokens = queries.shape[-2]
        block_size = min(self.block_size, max(num_tokens, 1))
        num_blocks = -(-num_tokens // block_size)
        others = block_attention(
            queries,
            keys,
            values,
            real_keys(keys, visible),
            bigbird_blocks(num_blocks, **self.links),
            block_size,
            is_causal=visible.is_causal,
            dropout=dropout,
        )
        num_global = min(self.links["num_global"] * block_size, num_tokens)
        first = queries[..., :num_global, :]  # these see all there is
        top = fused_attention(first, keys, values, visible, dropout=dropout)
        return torch.cat((top, others[..., num_global:, :]), dim=-2)
