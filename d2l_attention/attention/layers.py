"""Attention layers with D2L's names, signatures and parameters.

Letters as in ``pooling.py``. Each layer's ``forward`` takes D2L's ``valid_lens`` and,
keyword-only, ``mask`` (bool, True = may attend), ``is_causal`` and ``need_weights``. A
``bias`` of floats is added to the scores; ``offset`` keys stand before the first query.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from d2l_attention.attention.checks import check_attention_inputs, check_dropout
from d2l_attention.attention.fused import fused_attention
from d2l_attention.attention.masks import Masking, masked_softmax, zero_hidden_rows
from d2l_attention.attention.scores import add_bias, additive_score, scaled_dot_score


class AttentionLayer(nn.Module):
    """What attention layers share: dropout, and weights that are computed when they are read.

    A layer's ``forward`` calls ``_remember`` with the inputs of its ``score``. The layer holds
    them, the masks and the bias until the next pass; an input, mask or bias that is changed in
    place meanwhile changes the weights that are read.
    """

    score: Callable[..., Tensor]
    _last: tuple[tuple[Tensor, ...], Tensor | None, dict[str, Any]] | None = None

    def __init__(self, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(check_dropout(dropout))

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, before dropout, without gradient. (*, Q, K).

        For weights with a gradient, call the layer with ``need_weights=True``.

        Errors: ``RuntimeError`` before the first forward pass.
        """
        inputs, bias, masking = self._remembered()
        return masked_softmax(add_bias(self.score(*inputs), bias), **masking)

    def _remember(self, *inputs: Tensor, bias: Tensor | None, **masking: Any) -> None:
        """Keep what ``attention_weights`` is computed from."""
        bias = None if bias is None else bias.detach()
        if masking["valid_lens"] is not None:  # whoever decodes may count on in the same tensor
            masking["valid_lens"] = masking["valid_lens"].clone()
        self._last = tuple(X.detach() for X in inputs), bias, masking

    def _remembered(self) -> tuple[tuple[Tensor, ...], Tensor | None, dict[str, Any]]:
        if self._last is None:
            raise RuntimeError("no attention weights yet: call the layer first")
        return self._last

    def __getstate__(self) -> dict:
        """Copies and pickles hold the layer, not the last batch it saw."""
        return {name: value for name, value in super().__getstate__().items() if name != "_last"}


class DotProductAttention(AttentionLayer):
    """Scaled dot-product attention (D2L 11.3.3).

    Whoever needs a second derivative asks for the weights: see ``dot_product_attention``.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).
    """

    score = staticmethod(scaled_dot_score)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        offset: int = 0,
        bias: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_attention_inputs(queries, keys, values, bias, same_size=True)
        masking = Masking(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
        queries, keys, values = zero_hidden_rows(queries, keys, values, **masking)
        self._remember(queries, keys, bias=bias, **masking)  # for attention_weights, read later
        if not need_weights:  # PyTorch's kernel does the three lines below in one, without weights
            dropout = self.dropout.p if self.training else 0.0  # a function does not know eval()
            return fused_attention(queries, keys, values, **masking, bias=bias, dropout=dropout)
        scores = add_bias(scaled_dot_score(queries, keys), bias)  # (*, Q, K)
        weights = masked_softmax(scores, **masking)  # (*, Q, K)
        return self.dropout(weights) @ values, weights  # (*, Q, V)


class AdditiveAttention(AttentionLayer):
    """w_v . tanh(W_q q + W_k k), for queries and keys of any two sizes (D2L 11.3.4).

    Shape: queries (*, Q, D), keys (*, K, D'), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).

    Source: Bahdanau et al. (2015).
    """

    score = staticmethod(additive_score)

    def __init__(self, num_hiddens: int, dropout: float):
        super().__init__(dropout)
        self.W_k: nn.Linear = nn.LazyLinear(num_hiddens, bias=False)
        self.W_q: nn.Linear = nn.LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        offset: int = 0,
        bias: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_attention_inputs(queries, keys, values, bias)
        masking = Masking(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
        queries, keys, values = zero_hidden_rows(queries, keys, values, **masking)
        queries, keys = self.W_q(queries), self.W_k(keys)  # (*, Q, h) and (*, K, h)
        w_v = self.w_v.weight[0]  # (h,), where h is num_hiddens
        # An optimizer changes w_v in place: the weights of this pass need a copy of it.
        self._remember(queries, keys, w_v.to(queries.dtype, copy=True), bias=bias, **masking)
        scores = add_bias(additive_score(queries, keys, w_v), bias)  # (*, Q, K)
        weights = masked_softmax(scores, **masking)  # (*, Q, K)
        output = self.dropout(weights) @ values  # (*, Q, V)
        return (output, weights) if need_weights else output
