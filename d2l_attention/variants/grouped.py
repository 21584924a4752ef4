"""Fewer heads of keys and values than of queries: a smaller cache, faster decoding."""

from dataclasses import replace

from torch import Tensor, nn

from d2l_attention.attention._checks import check_divides
from d2l_attention.attention._fused import fused_pooling
from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.pooling import dot_product_pooling
from d2l_attention.attention.positional import Positions
from d2l_attention.attention.scores import scaled_dot_score
from d2l_attention.attention.visibility import Visibility


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention whose heads share keys and values in ``num_groups`` groups.

    Query heads 0 to num_heads / num_groups - 1 share the first head of keys and values, and so
    on. One group is multi-query attention, ``num_heads`` groups are multi-head attention.
    ``W_k`` and ``W_v`` give, and a cache holds, num_groups heads.

    Shape, masks, weights (B, H, Q, K), positions and cache: see ``MultiHeadAttention``.

    Errors: ``ValueError`` unless ``num_groups`` divides ``num_heads``, and ``num_heads``
    divides ``num_hiddens``.

    Source: Ainslie et al. (2023), GQA, section 2.2; Shazeer (2019) for one group.
    """

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        num_groups: int,
        dropout: float,
        bias: bool = False,
        *,
        positions: Positions | None = None,
    ):
        check_divides("num_groups", num_groups, "num_heads", num_heads)
        attention = GroupedDotProductAttention(dropout)
        super().__init__(
            num_hiddens, num_heads, 0.0, bias, attention=attention, positions=positions
        )
        self.num_groups, self.head_size = num_groups, num_hiddens // num_heads
        self.W_k = nn.LazyLinear(num_groups * self.head_size, bias=bias)
        self.W_v = nn.LazyLinear(num_groups * self.head_size, bias=bias)

    def split_heads(self, X: Tensor) -> Tensor:
        """(B, n, heads * size) -> (B, heads, n, size): H heads of queries, G of keys and values."""
        return X.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    def look(self, scores_shape, *args):
        """Who sees whom in the heads; a key that one head of a group sees takes part."""
        visible = super().look(scores_shape, *args)
        if visible.seen is not None and visible.seen.ndim == 3 and visible.seen.shape[1] > 1:
            seen = visible.seen.unflatten(1, (self.num_groups, -1)).any(dim=2)
            visible = replace(visible, seen=seen)
        return visible


class GroupedDotProductAttention(DotProductAttention):
    """Scaled dot-product attention of H heads of queries to G heads of keys and values.

    It works inside ``GroupedQueryAttention``, which knows that H and G may differ.

    Shape: queries (B, H, Q, D), keys (B, G, K, D), values (B, G, K, V) -> (B, H, Q, V); weights
    (B, H, Q, K).
    """

    def attend(self, queries, keys, values, visible, *, bias, need_weights):
        self.remember(queries, keys, visible=visible, bias=bias)
        dropout = self.dropout.p if self.training else 0.0
        if need_weights or bias is not None or visible.mask is not None:
            # There is a (Q, K) matrix anyway: beside it a copy of the keys for each head is small.
            share = queries.shape[1] // keys.shape[1]
            keys, values = (X.repeat_interleave(share, dim=1) for X in (keys, values))
            return dot_product_pooling(
                queries,
                keys,
                values,
                visible,
                dropout=dropout,
                bias=bias,
                need_weights=need_weights,
            )
        pooling = causal_pooling if visible.is_causal else stacked_pooling
        return pooling(queries, keys, values, visible, dropout), None

    @staticmethod
    def score(queries: Tensor, keys: Tensor) -> Tensor:
        return scaled_dot_score(stack(queries, keys), keys).reshape(
            *queries.shape[:-1], keys.shape[-2]
        )


def stack(queries: Tensor, keys: Tensor) -> Tensor:
    """The queries of a group's heads below each other: more rows that see the same keys.

    Shape: queries (B, H, Q, D), keys (B, G, K, D) -> (B, G, H / G * Q, D).
    """
    return queries.unflatten(1, (keys.shape[1], -1)).flatten(2, 3)


def stacked_pooling(
    queries: Tensor, keys: Tensor, values: Tensor, visible: Visibility, dropout: float
) -> Tensor:
    """Where all queries see the same keys, a group is one head with more queries.

    In decoding each key is then read once for the whole group.
    """
    output = fused_pooling(stack(queries, keys), keys, values, visible, dropout, None)
    return output.unflatten(2, (-1, queries.shape[2])).flatten(1, 2)


def causal_pooling(
    queries: Tensor, keys: Tensor, values: Tensor, visible: Visibility, dropout: float
) -> Tensor:
    """Each group as a sequence of its own, its one head of keys shown to several of queries.

    ``expand`` copies nothing: it shows the same numbers again.
    """
    num_groups, share = keys.shape[1], queries.shape[1] // keys.shape[1]
    grouped = queries.unflatten(1, (num_groups, share)).flatten(0, 1)  # (B * G, H / G, Q, D)
    keys, values = (X.flatten(0, 1)[:, None].expand(-1, share, -1, -1) for X in (keys, values))
    if visible.lengths is not None:
        lengths = visible.lengths.repeat_interleave(num_groups, dim=0)
        visible = replace(visible, lengths=lengths)
    output = fused_pooling(grouped, keys, values, visible, dropout, None)
    return output.unflatten(0, (-1, num_groups)).flatten(1, 2)
