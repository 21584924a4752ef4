"""Several attentions side by side, with positions and a cache of keys and values."""

from torch import Tensor, nn

from d2l_attention.attention._checks import (
    check_attention_inputs,
    check_bias,
    check_bool,
    check_dropout,
    check_heads,
    check_mask_shape,
)
from d2l_attention.attention.cache import KeyValueCache, check_cached_source
from d2l_attention.attention.layers import AttentionLayer, DotProductAttention
from d2l_attention.attention.masks import causal_mask, combine_masks
from d2l_attention.attention.positional import Positions
from d2l_attention.attention.visibility import Visibility, visibility


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each on its own projection (D2L 11.5).

    Shape: queries (B, Q, any size), keys (B, K, any size), values (B, K, any size),
    valid_lens (B,) or (B, Q), mask (Q, K), (B, Q, K) or (B, H, Q, K) -> (B, Q, num_hiddens);
    with ``need_weights`` a pair, the second weights (B, H, Q, K).

    ``attention`` is what happens in each head, scaled dot-product unless given, for example
    ``AdditiveAttention(num_hiddens // num_heads, dropout)``; its parameters serve all heads.

    ``positions`` tells the heads where queries and keys stand: see ``Positions``. It is for
    self-attention, where query i and key i are the same token; in cross-attention it would
    count both sequences from 0.

    With a ``cache`` the layer goes on where it stopped: ``keys`` and ``values`` are those of
    the new tokens alone, K counts all that the cache then holds, and positions and
    ``is_causal`` begin behind what it held. For cross-attention give the source to the first
    call with an empty cache, and ``keys=None, values=None`` from then on. A cache keeps the
    rows that nobody sees yet, too: there NaN spoils no output, but the gradient of a
    projection.

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
        self.num_heads = num_heads
        self.attention = DotProductAttention(dropout) if attention is None else attention
        self.positions = Positions() if positions is None else positions
        self.W_q = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_k = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_v = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_o = nn.LazyLinear(num_hiddens, bias=bias)

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, (B, H, Q, K): see ``AttentionLayer``."""
        return self.attention.attention_weights

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
        if keys is None and cache is not None:
            check_cached_source(queries, values, cache)
            if is_causal or type(self.positions) is not Positions:
                raise ValueError(
                    "without new keys this is cross-attention, where is_causal and positions "
                    "have no meaning: they compare places in one sequence"
                )
        else:
            check_attention_inputs(queries, keys, values)
        if queries.ndim != 3:
            raise ValueError(f"queries must have shape (B, Q, size), got {tuple(queries.shape)}")
        offset = 0 if cache is None else len(cache)
        num_keys = offset + (0 if keys is None else keys.shape[1])
        scores_shape = (len(queries), self.num_heads, queries.shape[1], num_keys)
        visible = self.look(scores_shape, valid_lens, mask, is_causal, offset, queries.device)
        bias = self.positions.bias(queries.shape[1], num_keys, offset=offset)
        check_bias(bias, scores_shape)

        rows = visible.any_head()
        queries = self.split_heads(self.W_q(rows.clear_queries(queries)))  # (B, H, Q, D / H)
        queries = self.positions.rotate(queries, offset=offset)
        if cache is None:
            keys, values = rows.clear_pairs(keys, values)
        if keys is not None:
            keys = self.positions.rotate(self.split_heads(self.W_k(keys)), offset=offset)
            values = self.split_heads(self.W_v(values))
        if cache is not None:
            if keys is not None:
                cache.append(keys, values)
            # What is hidden from these queries may be seen by later ones: the cache keeps it.
            keys, values = visible.clear_pairs(cache.keys, cache.values)
        result = self.attention(
            queries, keys, values, bias=bias, need_weights=need_weights, visible=visible
        )
        del queries, keys, values  # the last projection may have their memory
        output, weights = result if need_weights else (result, None)
        output = self.W_o(self.merge_heads(output))
        return (output, weights) if need_weights else output

    def look(
        self,
        scores_shape: tuple[int, ...],
        valid_lens: Tensor | None,
        mask: Tensor | None,
        is_causal: bool,
        offset: int,
        device,
    ) -> Visibility:
        """Who sees whom in the heads, where ``offset`` keys stand before the first query."""
        if mask is not None:
            check_bool(mask)
            # Three axes are one mask a sequence, the same for each of its heads.
            mask = mask[:, None] if mask.ndim == 3 else mask
            check_mask_shape(mask, scores_shape)
        if is_causal and offset > 0:
            is_causal = False
            num_queries, num_keys = scores_shape[-2:]
            if num_keys > offset + 1:  # a single new token sees all there is
                past = causal_mask(num_queries, num_keys, offset=offset, device=device)
                mask = combine_masks(mask, past)
        return visibility(scores_shape, valid_lens, mask, is_causal, device)

    def split_heads(self, X: Tensor) -> Tensor:
        """(B, n, D) -> (B, H, n, D / H): first cut the last axis, then move the heads forward.

        A ``view`` straight to the last shape has the right size and mixes up the tokens.
        """
        batch, n, num_hiddens = X.shape
        return X.reshape(batch, n, self.num_heads, num_hiddens // self.num_heads).transpose(1, 2)

    def merge_heads(self, X: Tensor) -> Tensor:
        """(B, H, n, D / H) -> (B, n, D): the way back."""
        return X.transpose(1, 2).flatten(start_dim=2)
