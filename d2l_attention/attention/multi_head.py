"""Several attentions side by side, with positions and a cache of keys and values."""

from torch import Tensor

from d2l_attention.attention.cache import KeyValueCache, check_cached_source
from d2l_attention.attention.checks import check_bias, check_dropout, check_heads
from d2l_attention.attention.layers import AttentionLayer, DotProductAttention, WeightsOnDemand
from d2l_attention.attention.masks import Visible, check_attention_inputs, check_bool, clear
from d2l_attention.attention.positional import Positions
from d2l_attention.attention.projections import LazyLinear


class MultiHeadAttention(WeightsOnDemand):
    """Several attentions side by side, each on its own projection (D2L 11.5).

    Shape: queries (B, Q, any size), keys (B, K, any size), values (B, K, any size),
    valid_lens (B,) or (B, Q), mask (K,), (Q, K), (B, Q, K) or (B, H, Q, K) -> (B, Q, num_hiddens);
    with ``need_weights`` a pair, the second weights (B, H, Q, K).

    The first call makes the weights, as in the book: initialise them after it. A query that sees
    nothing gets 0 from each head, and with ``bias`` therefore the bias of ``W_o``.

    ``attention`` is what happens in each head, scaled dot-product unless given, for example
    ``AdditiveAttention(num_hiddens // num_heads, dropout)``; its parameters serve all heads.

    ``positions`` tells the heads where queries and keys stand: see ``Positions``. It is for
    self-attention, where query i and key i are the same token; in cross-attention it would
    count both sequences from 0. Positions that are added (``AddedPositions``) are for embeddings,
    and tell the heads nothing.

    With a ``cache`` the layer goes on where it stopped: ``keys`` and ``values`` are those of
    the new tokens only, K counts all that the cache then holds, and positions and ``is_causal``
    count from the first token in it. For cross-attention give the source to the first call with an
    empty cache, and ``keys=None, values=None`` from then on. A cache also keeps rows that no
    query sees yet. NaN in such a row does not reach an output, but it does reach the gradient
    of ``W_k`` and ``W_v``.

    Errors: ``ValueError`` unless ``num_heads`` divides ``num_hiddens``.

    Source: Vaswani et al. (2017), section 3.2.2; D2L equations 11.5.1 and 11.5.2.
    """

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float,
        bias: bool = False,
        *,
        attention: AttentionLayer | None = None,
        positions: Positions | None = None,
    ):
        super().__init__()
        check_heads(num_hiddens, num_heads)
        if attention is not None and not isinstance(attention, AttentionLayer):
            raise TypeError(f"attention must be an AttentionLayer, got {type(attention).__name__}")
        if attention is not None and check_dropout(dropout) > 0:
            raise ValueError(
                f"dropout={dropout} is for the default attention: give it to the attention "
                "that you pass, and 0 here"
            )
        self.num_heads, self.head_size = num_heads, num_hiddens // num_heads
        self.attention = DotProductAttention(dropout) if attention is None else attention
        self.positions = Positions() if positions is None else positions
        self.W_q = LazyLinear(num_hiddens, bias=bias)
        self.W_k = LazyLinear(num_hiddens, bias=bias)
        self.W_v = LazyLinear(num_hiddens, bias=bias)
        self.W_o = LazyLinear(num_hiddens, bias=bias)

    def _weights(self, *last):
        return self.attention._weights(*last)  # (B, H, Q, K)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor | None,
        values: Tensor | None,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        offset = 0 if cache is None else len(cache)
        shape = self._check(queries, keys, values, is_causal, cache, offset)  # (B, H, Q, K)
        if mask is not None:
            check_bool(mask)  # it has axes, then
            mask = mask[:, None] if mask.ndim == 3 else mask  # the same for all heads
        visible = Visible.of(shape, valid_lens, mask, is_causal, offset, queries.device)
        queries = self.split_heads(self.W_q(clear(queries, visible.blind)))  # (B, H, Q, D / H)
        bias = None
        if type(self.positions) is not Positions:  # the base class itself does nothing
            queries = self.positions.transform(queries, offset=offset)
            bias = self.positions.bias(*shape[2:], offset=offset)  # (H, Q, K), or None
            if bias is not None:
                check_bias(bias, shape)
        if cache is None:
            assert keys is not None and values is not None  # for the type checker: see _check
            keys, values = self._pairs(*visible.clear_pairs(keys, values))  # (B, H, K, D / H)
        else:  # it keeps all rows: a later query may read what these may not
            keys, values = visible.clear_pairs(*self._continued(keys, values, cache))
        options = {"visible": visible, "bias": bias, "need_weights": need_weights}
        result = self.attention(queries, keys, values, **options)
        output, weights = result if need_weights else (result, None)  # (B, H, Q, D / H)
        self._last = self.attention._last  # what attention_weights is computed from
        output = self.W_o(self.merge_heads(output))  # (B, Q, D)
        return output if weights is None else (output, weights)

    def _pairs(self, keys: Tensor, values: Tensor, offset: int = 0) -> tuple[Tensor, Tensor]:
        """Project, split, position. Shape: (B, n, any size) each -> (B, H, n, D / H) each."""
        keys, values = self.split_heads(self.W_k(keys)), self.split_heads(self.W_v(values))
        if type(self.positions) is not Positions:
            keys = self.positions.transform(keys, offset=offset)
        return keys, values

    def _continued(self, keys, values, cache):
        """All that the cache holds, the new tokens with it. Shape: (B, H, K, D / H) each."""
        if keys is None:  # cross-attention: the source is there already
            return cache.pairs()
        return cache.append(*self._pairs(keys, values, len(cache)))

    def _check(self, queries, keys, values, is_causal, cache, offset):
        """The shape of the scores, (B, H, Q, K), where K counts the tokens of the cache as well.

        An error of these comes before a cache grows.
        """
        if keys is None and cache is not None:
            num_keys = offset
            check_cached_source(queries, values, cache)
            if is_causal or type(self.positions) is not Positions:
                raise ValueError(
                    "without new keys this is cross-attention, where is_causal and positions "
                    "have no meaning: they compare places in one sequence"
                )
        else:
            num_keys = offset + check_attention_inputs(queries, keys, values)[-1]  # refuses None
        if queries.ndim != 3:
            raise ValueError(f"queries must have shape (B, Q, size), got {tuple(queries.shape)}")
        return queries.shape[0], self.num_heads, queries.shape[1], num_keys

    def split_heads(self, X: Tensor) -> Tensor:
        """(B, n, D) -> (B, H, n, D / H): first cut the last axis, then move the heads forward.

        A ``view`` straight to the last shape has the right size and mixes up the tokens.
        """
        batch, n, width = X.shape
        return X.reshape(batch, n, width // self.head_size, self.head_size).transpose(1, 2)

    def merge_heads(self, X: Tensor) -> Tensor:
        """(B, H, n, D / H) -> (B, n, D): the inverse of ``split_heads``."""
        return X.transpose(1, 2).flatten(start_dim=2)
