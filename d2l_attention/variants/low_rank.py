"""Keys and values squeezed to a few rows before anybody looks at them: Linformer."""

import math

import torch
from torch import Tensor, nn

from d2l_attention.attention.checks import as_whole
from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.masks import Visible, check_attention_inputs
from d2l_attention.attention.multi_head import MultiHeadAttention

MIXED = (
    "Linformer mixes all keys before the queries see them: one key cannot be hidden "
    "from one query alone, so there is no is_causal, no mask and no valid_lens (B, Q)"
)


class LowRankDotProductAttention(DotProductAttention):
    """Scaled dot-product attention to E K and F V: what happens in each head of Linformer.

    Shape: queries (B, H, Q, D), keys and values (B, H, K, D), K up to ``max_len``
    -> (B, H, Q, D); weights (B, H, Q, rank).
    """

    def __init__(self, max_len: int, rank: int, dropout: float):
        super().__init__(dropout)
        # A row of E K adds up ``max_len`` keys: so divided it is of a key's own size.
        self.E = nn.Parameter(torch.randn(rank, max_len) / math.sqrt(max_len))
        self.F = nn.Parameter(torch.randn(rank, max_len) / math.sqrt(max_len))

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        if visible.is_causal or visible.by_query:
            raise ValueError(MIXED)
        if bias is not None:
            raise ValueError("Linformer has no score for each key to add a bias to: leave it out")
        # A projection with a bias has written into the rows of the padding.
        keys, values = visible.clear_pairs(keys, values)
        n, max_len = keys.shape[-2], self.E.shape[1]
        if n > max_len:
            raise ValueError(f"keys must be at most max_len={max_len}, got {n}")
        keys, values = self.E[:, :n] @ keys, self.F[:, :n] @ values  # (B, H, rank, D)
        # A query that saw any key sees all mixtures; one that saw none sees none.
        mixtures = Visible(hidden=visible.blind, blind=visible.blind)
        return super().attend(queries, keys, values, mixtures, need_weights=need_weights)


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
        if None in (as_whole(rank), as_whole(max_len)) or not 1 <= rank <= max_len:
            raise ValueError(
                f"rank must lie in [1, max_len], got rank={rank} and max_len={max_len}"
            )
        pooling = LowRankDotProductAttention(max_len, rank, dropout)
        super().__init__(num_hiddens, num_heads, 0.0, attention=pooling)

    def forward(self, queries, keys, values, valid_lens=None, **options):
        # Before the projections work.
        if keys is not None:
            check_attention_inputs(queries, keys, values)
        offset = 0 if options.get("cache") is None else len(options["cache"])
        num_keys = offset + (0 if keys is None else keys.shape[-2])
        masking = {name: options.get(name) for name in ("mask", "is_causal")}
        check_projectable(valid_lens, num_keys, self.attention.E.shape[1], **masking)
        return super().forward(queries, keys, values, valid_lens, **options)


def check_projectable(
    valid_lens: Tensor | None,
    num_keys: int,
    max_len: int,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
) -> None:
    """Raise where a key is hidden from one query and not from another, or there are too many."""
    lens_by_query = isinstance(valid_lens, Tensor) and valid_lens.ndim == 2
    if is_causal or mask is not None or lens_by_query:
        raise ValueError(MIXED)
    if num_keys > max_len:
        raise ValueError(f"keys must be at most max_len={max_len}, got {num_keys}")
