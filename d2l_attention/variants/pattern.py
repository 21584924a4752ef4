"""What attention with a fixed pattern of who sees whom shares, whatever the pattern."""

from dataclasses import replace

from torch import Tensor

from d2l_attention.attention._checks import check_same_size
from d2l_attention.attention.layers import AttentionLayer
from d2l_attention.attention.masks import combine_masks
from d2l_attention.attention.pooling import dot_product_pooling
from d2l_attention.attention.scores import scaled_dot_score
from d2l_attention.attention.visibility import Visibility


class PatternAttention(AttentionLayer):
    """Scaled dot-product self-attention in which each token sees a pattern of others.

    A layer gives its pattern twice: ``pattern`` as a mask, and ``sparse`` as a way to compute
    only what the mask lets through. ``sparse`` serves ``valid_lens`` (B,) and ``is_causal``.
    Weights, a mask, a bias and lengths (B, Q) are (Q, K) matrices themselves: with one of them
    the layer takes the plain form under its mask.

    Behind a cache the queries are the last of the tokens: query i stands at i + K - Q.

    Shape: queries (*, n, D), keys (*, n, D), values (*, n, V) -> (*, n, V); with
    ``need_weights`` a pair, the second weights (*, n, n).

    Errors: ``ValueError`` unless there are as many queries as keys.
    """

    score = staticmethod(scaled_dot_score)

    def pattern(self, num_queries: int, num_keys: int) -> Tensor:
        """Who sees whom, as a mask (Q, K)."""
        raise NotImplementedError

    def sparse(
        self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visibility, dropout: float
    ) -> Tensor:
        """The output, without a (Q, K) matrix on the way."""
        raise NotImplementedError

    def check(self, queries, keys, values):
        super().check(queries, keys, values)
        check_same_size(queries, keys)
        check_one_sequence(queries.shape[-2], keys.shape[-2])

    def attend(self, queries, keys, values, visible, *, bias, need_weights):
        num_queries, num_keys = visible.shape[-2:]
        dropout = self.dropout.p if self.training else 0.0
        matrices = need_weights or bias is not None or visible.mask is not None
        if not matrices and num_queries == num_keys:
            self.remember(queries, keys, visible=visible, bias=bias)
            return self.sparse(queries, keys, values, visible, dropout), None
        visible = self.restrict(visible, queries.device)
        queries, keys, values = visible.clear(queries, keys, values)
        self.remember(queries, keys, visible=visible, bias=bias)
        return dot_product_pooling(
            queries, keys, values, visible, dropout=dropout, bias=bias, need_weights=need_weights
        )

    def restrict(self, visible: Visibility, device) -> Visibility:
        """What is visible and in the pattern, as one mask."""
        num_queries, num_keys = visible.shape[-2:]
        if num_queries > num_keys or visible.is_causal:
            check_one_sequence(num_queries, num_keys)
        pattern = self.pattern(num_queries, num_keys).to(device)[:, : visible.longest]
        mask = combine_masks(visible.matrix(device), pattern)
        seeing, seen = mask.any(dim=-1), mask.any(dim=-2)
        return replace(visible, mask=mask, lengths=None, is_causal=False, seeing=seeing, seen=seen)

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, (*, n, n): see ``AttentionLayer``."""
        if self._last is not None:
            inputs, visible, bias = self._last
            self._last = inputs, self.restrict(visible, inputs[0].device), bias
        return super().attention_weights


def check_one_sequence(num_queries: int, num_keys: int) -> None:
    """Raise unless query i and key i can be the same token."""
    if num_queries != num_keys:
        raise ValueError(
            "a pattern of neighbours is for self-attention, with a key for each query, "
            f"got {num_queries} queries and {num_keys} keys"
        )
