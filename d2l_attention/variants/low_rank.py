"""Keys and values squeezed to a few rows before anybody looks at them: Linformer."""

import math
from dataclasses import replace

import torch
from torch import nn

from d2l_attention.attention.layers import AttentionLayer
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.pooling import dot_product_pooling
from d2l_attention.attention.scores import scaled_dot_score
from d2l_attention.attention.visibility import Visibility, visibility


class LowRankPooling(AttentionLayer):
    """Scaled dot-product attention to E K and F V: what happens in each head of Linformer.

    Shape: queries (B, H, Q, D), keys and values (B, H, K, D), K up to ``max_len``
    -> (B, H, Q, D); weights (B, H, Q, rank).
    """

    score = staticmethod(scaled_dot_score)

    def __init__(self, max_len: int, rank: int, dropout: float):
        super().__init__(dropout)
        # A row of E K adds up ``max_len`` keys: so divided it is of a key's own size.
        self.E = nn.Parameter(torch.randn(rank, max_len) / math.sqrt(max_len))
        self.F = nn.Parameter(torch.randn(rank, max_len) / math.sqrt(max_len))

    def attend(self, queries, keys, values, visible, *, bias, need_weights):
        check_projectable(visible, self.E.shape[1])
        if bias is not None:
            raise ValueError("Linformer has no score for each key to add a bias to: leave it out")
        if visible.seen is not None:
            # A projection with a bias has written into the rows of the padding once more.
            keys, values = visible.clear_pairs(keys, values)
        length = keys.shape[-2]
        keys, values = self.E[:, :length] @ keys, self.F[:, :length] @ values  # (B, H, rank, D)
        inner = projected_visibility(visible, len(self.E))
        self.remember(queries, keys, visible=inner, bias=None)
        dropout = self.dropout.p if self.training else 0.0
        return dot_product_pooling(
            queries, keys, values, inner, dropout=dropout, bias=None, need_weights=need_weights
        )


class LinformerAttention(MultiHeadAttention):
    """Multi-head attention to ``rank`` mixtures of the keys: O(n rank) instead of O(n^2).

    softmax(Q (E K)^T / sqrt(D)) F V, with E and F, (rank, max_len), learned and shared by the
    heads. A sequence shorter than ``max_len`` uses their first columns.

    Shape: queries (B, Q, any size), keys and values (B, K, any size), valid_lens (B,)
    -> (B, Q, num_hiddens); with ``need_weights`` a pair, the second weights (B, H, Q, rank):
    they say how much of each mixture is read, not of each key.

    Padding is cleared before it is mixed, and adds nothing to any mixture. With rank = n and
    E = F = identity this is plain attention to keys without padding. A mixture of nothing but
    padding is a row of zeros, which keeps its share of the softmax: here it is not hidden.

    There is no causal form. A mixture holds keys of the whole sequence, so whoever reads it
    reads the future; to hide it from one query and not from the next, each query would need
    mixtures of its own, n of them, and the saving is gone. A mask or a length for each query
    asks for the same.

    Errors: ``ValueError`` for ``is_causal``, ``mask``, lengths (B, Q), and more than ``max_len``
    keys.

    Source: Wang et al. (2020), section 4, equation 7, with 'headwise sharing'.
    """

    def __init__(self, num_hiddens: int, num_heads: int, max_len: int, rank: int, dropout: float):
        if not all(isinstance(size, int) for size in (rank, max_len)) or not 1 <= rank <= max_len:
            raise ValueError(
                f"rank must lie in [1, max_len], got rank={rank} and max_len={max_len}"
            )
        pooling = LowRankPooling(max_len, rank, dropout)
        super().__init__(num_hiddens, num_heads, 0.0, attention=pooling)

    def look(self, scores_shape, valid_lens, mask, is_causal, offset, device) -> Visibility:
        visible = super().look(scores_shape, valid_lens, mask, is_causal, offset, device)
        # Before the projections work. A new token behind a cache sees all there is, so
        # ``visible`` has forgotten that it was asked to be causal.
        visible = replace(visible, is_causal=is_causal)
        check_projectable(visible, self.attention.E.shape[1])
        return visible


def check_projectable(visible: Visibility, max_len: int) -> None:
    """Raise where a key is hidden from one query and not from another, or there are too many."""
    if visible.is_causal or visible.mask is not None:
        raise ValueError(
            "Linformer mixes all keys before the queries see them: one key cannot be hidden "
            "from one query alone, so there is no is_causal, no mask and no valid_lens (B, Q)"
        )
    if visible.shape[-1] > max_len:
        raise ValueError(f"keys must be at most max_len={max_len}, got {visible.shape[-1]}")


def projected_visibility(visible: Visibility, rank: int) -> Visibility:
    """A query that saw any key sees all mixtures; one that saw none sees none."""
    shape = (*visible.shape[:-1], rank)
    if visible.seeing is None:
        return visibility(shape)
    mask = visible.seeing[..., None].expand(*visible.seeing.shape, rank)
    return replace(visibility(shape), mask=mask, seeing=visible.seeing)
