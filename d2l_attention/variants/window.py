"""Sliding windows: a token sees its neighbours, at a cost of n * window instead of n * n."""

import math

import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention.checks import check_whole
from d2l_attention.variants.blocks import block_attention, neighbour_blocks
from d2l_attention.variants.masks import near, sliding_window_mask
from d2l_attention.variants.pattern import PatternAttention, real_keys


class SlidingWindowAttention(PatternAttention):
    """Each token sees itself and ``window`` neighbours on each side, ``dilation`` apart.

    ``is_causal`` leaves those before it and itself: ``window + 1`` keys. With
    ``window >= n`` and no dilation it is scaled dot-product attention.

    Shape, masks and weights: see ``PatternAttention``.

    Errors: ``ValueError`` for a window below 0 or a dilation below 1.

    Source: Beltagy, Peters and Cohan (2020), Longformer, section 3.1, whose w counts both sides.
    """

    def __init__(self, window: int, dropout: float, *, dilation: int = 1):
        super().__init__(dropout)
        self.window = check_whole("window", window, 0)
        self.dilation = check_whole("dilation", dilation, 1)

    def pattern(self, num_queries, num_keys):
        return sliding_window_mask(
            num_queries,
            num_keys,
            window=self.window,
            dilation=self.dilation,
            offset=num_keys - num_queries,
        )

    def sparse(self, queries, keys, values, visible, dropout):
        *leading, num_tokens, _ = queries.shape
        is_causal = visible.is_causal
        real = real_keys(keys, visible)
        dilation = min(self.dilation, max(num_tokens, 1))  # then a token has no neighbours
        if dilation == 1:
            return attend_in_window(queries, keys, values, real, self.window, is_causal, dropout)
        # Every dilation-th token makes a sequence of its own, and there the window has no gaps.
        real = real.expand((leading or [1])[0], -1)[..., None]
        queries, keys, values, real = (
            interleave(X, dilation) for X in (queries, keys, values, real)
        )
        real = real[:, 0, :, 0]
        output = attend_in_window(queries, keys, values, real, self.window, is_causal, dropout)
        output = output.unflatten(0, (-1, dilation)).permute(0, 2, 3, 1, 4).flatten(2, 3)
        return output[:, :, :num_tokens].reshape(*leading, num_tokens, output.shape[-1])


def attend_in_window(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    real: Tensor,
    window: int,
    is_causal: bool,
    dropout: float,
) -> Tensor:
    """Queries in blocks as long as the window, each against its own and the next blocks of keys.

    Shape: queries (*, n, D), keys (*, n, D), values (*, n, V), real (B or 1, n) -> (*, n, V).
    """
    window = min(window, queries.shape[-2])
    block_size = window_block(window, queries.shape[-2])
    num_blocks = -(-queries.shape[-2] // block_size)
    table = neighbour_blocks(num_blocks, -(-window // block_size), is_causal)
    return block_attention(
        queries,
        keys,
        values,
        real,
        table,
        block_size,
        lambda i, j: near(i, j, window),
        is_causal=is_causal,
        dropout=dropout,
    )


def window_block(window: int, num_tokens: int) -> int:
    """A block as long as the window. Very short ones cost more to handle than they save."""
    return max(1, min(max(window, 32), num_tokens))


def interleave(X: Tensor, dilation: int) -> Tensor:
    """One sequence as ``dilation`` sequences, of which the first takes tokens 0, dilation, ...

    Shape: X (*, n, D) -> (B * dilation, H, tokens / dilation rounded up, D).
    """
    *leading, num_tokens, size = X.shape
    per_sequence = -(-num_tokens // dilation)
    X = F.pad(X, (0, 0, 0, per_sequence * dilation - num_tokens))
    X = X.reshape((leading or [1])[0], math.prod(leading[1:]), per_sequence, dilation, size)
    return X.permute(0, 3, 1, 2, 4).flatten(end_dim=1)
