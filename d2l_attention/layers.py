"""Attention layers with D2L's names, signatures and parameters.

Letters as in ``functional.py``. Each layer's ``forward`` takes D2L's ``valid_lens`` and,
keyword-only, ``mask`` (bool, True = may attend), ``is_causal`` and ``need_weights``. A
``bias`` of floats is added to the scores.
"""

from torch import Tensor, nn

from d2l_attention.cache import KeyValueCache, check_cached_source
from d2l_attention.checks import (
    check_attention_inputs,
    check_bias,
    check_dropout,
    check_heads,
)
from d2l_attention.functional import (
    additive_score,
    attention_pooling,
    clear,
    dot_product_attention,
    masked_softmax,
    scaled_dot_score,
)
from d2l_attention.masks import (
    attention_mask,
    causal_mask,
    check_bool,
    check_mask_shape,
    combine_masks,
    reach,
)
from d2l_attention.positional import Positions


class WeightsOnDemand(nn.Module):
    """Remembers what the last forward pass scored; computes its weights when they are read.

    It holds queries, keys, mask and bias until the next pass; a mask or bias that is changed in
    place meanwhile changes the weights that are read.
    """

    score = None  # a scoring function, set by the layer
    _last = None

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, before dropout, without gradient. (*, Q, K).

        For weights with a gradient, call the layer with ``need_weights=True``.

        Errors: ``RuntimeError`` before the first forward pass.
        """
        if self._last is None:
            raise RuntimeError("no attention weights yet: call the layer first")
        inputs, valid_lens, mask, is_causal, bias = self._last
        scores = self.score(*inputs)
        if bias is not None:
            scores = scores + bias.detach().to(scores.dtype)
        visible = attention_mask(scores.shape, valid_lens, mask, is_causal, scores.device)
        return masked_softmax(scores, mask=visible)

    def _remember(self, inputs: tuple, valid_lens: Tensor | None, *rest) -> None:
        # Lengths are counted up in place while decoding; the rest is held as it is.
        self._last = (inputs, None if valid_lens is None else valid_lens.clone(), *rest)

    def __getstate__(self) -> dict:
        """Copies and pickles hold the layer, not the last batch it saw."""
        return {name: value for name, value in super().__getstate__().items() if name != "_last"}


class DotProductAttention(WeightsOnDemand):
    """Scaled dot-product attention (D2L 11.3.3).

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).
    """

    score = staticmethod(scaled_dot_score)

    def __init__(self, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(check_dropout(dropout))

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        bias: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        result = dot_product_attention(
            queries,
            keys,
            values,
            valid_lens,
            mask=mask,
            is_causal=is_causal,
            dropout=self.dropout.p if self.training else 0.0,
            bias=bias,
            need_weights=need_weights,
        )
        self._remember((queries.detach(), keys.detach()), valid_lens, mask, is_causal, bias)
        return result


class AdditiveAttention(WeightsOnDemand):
    """w_v . tanh(W_q q + W_k k), for queries and keys of any two sizes (D2L 11.3.4).

    Shape: queries (*, Q, D), keys (*, K, D'), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).

    Source: Bahdanau et al. (2015).
    """

    score = staticmethod(additive_score)

    def __init__(self, num_hiddens: int, dropout: float):
        super().__init__()
        self.W_k = nn.LazyLinear(num_hiddens, bias=False)
        self.W_q = nn.LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)
        self.dropout = nn.Dropout(check_dropout(dropout))

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        bias: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_attention_inputs(queries, keys, values)
        scores_shape = (*queries.shape[:-1], keys.shape[-2])
        check_bias(bias, scores_shape)
        seeing, seen = reach(scores_shape, valid_lens, mask, is_causal, queries.device)
        queries, keys = self.W_q(clear(queries, seeing)), self.W_k(clear(keys, seen))
        w_v = self.w_v.weight[0]
        scores = self.score(queries, keys, w_v)
        output, weights = attention_pooling(
            scores if bias is None else scores + bias.to(scores.dtype),
            values,
            valid_lens,
            mask=mask,
            is_causal=is_causal,
            dropout=self.dropout.p if self.training else 0.0,
        )
        # An optimizer changes w_v in place: the weights of this pass need a copy of it.
        inputs = (queries.detach(), keys.detach(), w_v.detach().to(queries.dtype, copy=True))
        self._remember(inputs, valid_lens, mask, is_causal, bias)
        return (output, weights) if need_weights else output


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
        attention: nn.Module | None = None,
        positions: Positions | None = None,
    ):
        super().__init__()
        check_heads(num_hiddens, num_heads)
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
        """Weights of the last forward pass, (B, H, Q, K): see ``WeightsOnDemand``."""
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
        num_queries, num_keys = queries.shape[1], offset + (0 if keys is None else keys.shape[1])
        scores_shape = (len(queries), self.num_heads, num_queries, num_keys)
        if mask is not None:
            check_bool(mask)
            # Three axes are one mask a sequence, the same for each of its heads.
            mask = mask[:, None] if mask.ndim == 3 else mask
            check_mask_shape(mask, scores_shape)
        if is_causal and offset > 0:
            is_causal = False
            if num_keys > offset + 1:  # a single new token sees all there is
                past = causal_mask(num_queries, num_keys, offset=offset, device=queries.device)
                mask = combine_masks(mask, past)
        bias = self.positions.bias(num_queries, num_keys, offset=offset)
        check_bias(bias, scores_shape)
        # What takes part in one head takes part: (B, H, n) -> (B, n).
        seeing, seen = (
            rows.any(dim=1) if rows is not None and rows.ndim == 3 else rows
            for rows in reach(scores_shape, valid_lens, mask, is_causal, queries.device)
        )
        queries = clear(queries, seeing)
        if cache is None:  # what is hidden from these queries may be seen by later ones
            keys, values = clear(keys, seen), clear(values, seen)

        queries = self.split_heads(self.W_q(queries))  # (B, H, Q, D / H)
        queries = self.positions.rotate(queries, offset=offset)
        if keys is None:
            keys, values = cache.keys, cache.values  # (B, H, K, D / H)
        else:
            keys = self.split_heads(self.W_k(keys))
            keys = self.positions.rotate(keys, offset=offset)
            values = self.split_heads(self.W_v(values))
            if cache is not None:
                keys, values = cache.append(keys, values)
        result = self.attention(
            queries,
            keys,
            values,
            valid_lens,
            mask=mask,
            is_causal=is_causal,
            bias=bias,
            need_weights=need_weights,
        )
        output, weights = result if need_weights else (result, None)
        output = self.W_o(self.merge_heads(output))
        return (output, weights) if need_weights else output

    def split_heads(self, X: Tensor) -> Tensor:
        """(B, n, D) -> (B, H, n, D / H): first cut the last axis, then move the heads forward.

        A ``view`` straight to the last shape has the right size and mixes up the tokens.
        """
        batch, n, num_hiddens = X.shape
        return X.reshape(batch, n, self.num_heads, num_hiddens // self.num_heads).transpose(1, 2)

    def merge_heads(self, X: Tensor) -> Tensor:
        """(B, H, n, D / H) -> (B, n, D): the way back."""
        return X.transpose(1, 2).flatten(start_dim=2)
