"""Fewer heads of keys and values than of queries: a smaller cache, faster decoding."""

from torch import Tensor

from d2l_attention.attention.checks import check_divides
from d2l_attention.attention.fused import fused_attention
from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.positional import Positions
from d2l_attention.attention.projections import LazyLinear
from d2l_attention.attention.scores import scaled_dot_score


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention whose heads of queries share ``num_kv_heads`` heads of keys and values.

    Query heads 0 to num_heads / num_kv_heads - 1 share the first head of keys and values, and so
    on. One such head is multi-query attention, ``num_heads`` of them are multi-head attention.
    ``W_k`` and ``W_v`` give, and a cache holds, num_kv_heads heads.

    Shape, masks, weights (B, H, Q, K), positions and cache: see ``MultiHeadAttention``.

    Errors: ``ValueError`` unless ``num_kv_heads`` divides ``num_heads``, and ``num_heads``
    divides ``num_hiddens``.

    Source: Ainslie et al. (2023), GQA, section 2.2; Shazeer (2019) for one head.
    """

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        num_kv_heads: int,
        dropout: float,
        bias: bool = False,
        *,
        positions: Positions | None = None,
    ):
        check_divides("num_kv_heads", num_kv_heads, "num_heads", num_heads)
        attention = GroupedDotProductAttention(dropout)
        super().__init__(
            num_hiddens, num_heads, 0.0, bias, attention=attention, positions=positions
        )
        self.num_kv_heads = num_kv_heads
        self.W_k = LazyLinear(num_kv_heads * self.head_size, bias=bias)
        self.W_v = LazyLinear(num_kv_heads * self.head_size, bias=bias)


def repeat_heads(keys: Tensor, num_heads: int) -> Tensor:
    """Each head of keys or values once for every head of queries in its group.

    Shape: (B, num_kv_heads, K, D) -> (B, num_heads, K, D).
    """
    return keys.repeat_interleave(num_heads // keys.shape[1], dim=1)


class InGroups:
    """Before the class that attends: its queries have more heads than its keys and values."""

    def _scores_shape(self, queries, keys, values):
        if all(isinstance(X, Tensor) and X.ndim == 4 for X in (queries, keys, values)):
            heads = -1, queries.shape[1], -1, -1  # a view: nothing is copied
            keys, values = keys[:, :1].expand(heads), values[:, :1].expand(heads)
        return super()._scores_shape(queries, keys, values)


class GroupedDotProductAttention(InGroups, DotProductAttention):
    """Scaled dot-product attention of H heads of queries to fewer heads of keys and values.

    Shape: queries (B, H, Q, D), keys (B, num_kv_heads, K, D), values (B, num_kv_heads, K, V)
    -> (B, H, Q, V); weights (B, H, Q, K).
    """

    @staticmethod
    def score(queries: Tensor, keys: Tensor) -> Tensor:
        return scaled_dot_score(queries, repeat_heads(keys, queries.shape[1]))

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        (num_heads, num_queries), num_kv_heads = queries.shape[1:3], keys.shape[1]
        if need_weights or bias is not None or visible.by_query:
            # There is a (Q, K) matrix anyway: beside it a copy of the keys for each head is small.
            keys, values = (repeat_heads(X, num_heads) for X in (keys, values))
            keys, values = visible.clear_pairs(keys, values)  # heads of a group may see other keys
            return super().attend(queries, keys, values, visible, bias, need_weights)
        if visible.is_causal or num_kv_heads == 0:
            # PyTorch's kernel takes fewer heads of keys as they are: nothing is copied.
            return super().attend(queries, keys, values, visible)
        # All queries see the same keys, as in decoding: then a group is one head with more
        # queries, and each key is read once for the whole group.
        self._remember(queries, keys, visible=visible, bias=bias)
        group_size = num_heads // num_kv_heads
        stacked = queries.unflatten(1, (num_kv_heads, -1)).flatten(2, 3)  # (B, G, H / G * Q, D)
        output = fused_attention(stacked, keys, values, visible, dropout=self.rate)
        return output.unflatten(2, (group_size, num_queries)).flatten(1, 2), None  # (B, H, Q, V)
