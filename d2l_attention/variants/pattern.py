"""What attention with a fixed pattern of who sees whom shares, whatever the pattern."""

import torch
from torch import Tensor

from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.masks import Visible, combine_masks


class PatternAttention(DotProductAttention):
    """Scaled dot-product self-attention in which each token sees a pattern of others.

    A layer gives its pattern twice: ``pattern`` as a mask, and ``sparse`` as a way to compute
    only what the mask lets through. ``sparse`` serves lengths (B,) and ``is_causal``.
    Weights, a mask, a bias and lengths (B, Q) are (Q, K) matrices themselves: with one of them
    the layer is plain attention under its mask.

    Behind a cache the queries are the last of the tokens: query i stands at i + ``offset``.

    Shape: queries (*, n, D), keys (*, n, D), values (*, n, V) -> (*, n, V); with
    ``need_weights`` a pair, the second weights (*, n, n).

    Errors: ``ValueError`` unless there are as many keys as queries and tokens before them.
    """

    def pattern(self, num_queries: int, num_keys: int) -> Tensor:
        """Who sees whom, as a mask (Q, K)."""
        raise NotImplementedError

    def sparse(
        self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visible, dropout: float
    ) -> Tensor:
        """The output, without a (Q, K) matrix on the way."""
        raise NotImplementedError

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        check_one_sequence(queries.shape[-2], keys.shape[-2], visible.offset)
        if need_weights or bias is not None or visible.by_query or visible.offset:
            inside = self._inside_pattern(visible, queries, keys)
            inputs = inside.clear(queries, keys, values)
            return super().attend(*inputs, inside, bias, need_weights)
        self._remember(queries, keys, visible=visible, bias=bias)
        return self.sparse(queries, keys, values, visible, self.rate), None

    def _inside_pattern(self, visible: Visible, queries: Tensor, keys: Tensor) -> Visible:
        """What the layer was told and the pattern both let through."""
        num_queries, num_keys = queries.shape[-2], keys.shape[-2]
        with torch.device("cpu"):
            pattern = self.pattern(num_queries, num_keys).to(queries.device)
        whole = combine_masks(visible.as_mask((num_queries, num_keys), queries.device), pattern)
        return Visible.by_mask(whole, visible.offset)

    def _weights(self, inputs, visible, bias):
        return super()._weights(inputs, self._inside_pattern(visible, *inputs), bias)


def check_one_sequence(num_queries: int, num_keys: int, offset: int) -> None:
    """Raise unless query i and key i + ``offset`` can be the same token."""
    if num_keys != num_queries + offset:
        raise ValueError(
            "a pattern of neighbours is for self-attention, with a key for each query, "
            f"got {num_queries} queries and {num_keys} keys"
        )


def real_keys(keys: Tensor, visible: Visible) -> Tensor:
    """Which keys are no padding. Shape: keys (*, K, D), lengths (B,) -> bool (B or 1, K)."""
    if visible.hidden is None:
        return keys.new_ones(1, keys.shape[-2], dtype=bool)
    return ~visible.hidden.reshape(len(keys), keys.shape[-2])
