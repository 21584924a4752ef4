"""Attention layers with D2L's names, signatures and parameters.

Letters as in ``functional.py``. Each layer's ``forward`` takes D2L's ``valid_lens`` and,
keyword-only, ``mask`` (bool, True = may attend), ``is_causal`` and ``need_weights``. A
``bias`` of floats is added to the scores.
"""

from torch import Tensor, nn

from d2l_attention.attention._checks import (
    check_attention_inputs,
    check_bias,
    check_dropout,
    check_same_size,
)
from d2l_attention.attention.pooling import attention_pooling, dot_product_pooling, masked_softmax
from d2l_attention.attention.scores import additive_score, scaled_dot_score
from d2l_attention.attention.visibility import Visibility, visibility


class AttentionLayer(nn.Module):
    """What attention layers share: masks, and weights that are computed when they are read.

    A layer scores and averages in ``attend``, with rows that nobody sees already cleared away,
    and calls ``remember`` with the inputs of its ``score``. It holds these inputs, the masks and
    the bias until the next pass; an input, mask or bias that is changed in place meanwhile changes
    the weights that are read.
    """

    score = None  # a scoring function, set by the layer
    _last = None

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
        visible: Visibility | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        # A layer around this one has checked, masked and cleared, and says what is visible.
        if visible is None:
            self.check(queries, keys, values)
            scores_shape = (*queries.shape[:-1], keys.shape[-2])
            check_bias(bias, scores_shape)
            visible = visibility(scores_shape, valid_lens, mask, is_causal, queries.device)
            queries, keys, values = visible.clear(queries, keys, values)
        output, weights = self.attend(
            queries, keys, values, visible, bias=bias, need_weights=need_weights
        )
        return (output, weights) if need_weights else output

    def check(self, queries: Tensor, keys: Tensor, values: Tensor) -> None:
        """Raise where the three do not fit together."""
        check_attention_inputs(queries, keys, values)

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        visible: Visibility,
        *,
        bias: Tensor | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the weights where they are asked for."""
        raise NotImplementedError

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, before dropout, without gradient. (*, Q, K).

        For weights with a gradient, call the layer with ``need_weights=True``.

        Errors: ``RuntimeError`` before the first forward pass.
        """
        if self._last is None:
            raise RuntimeError("no attention weights yet: call the layer first")
        inputs, visible, bias = self._last
        scores = self.score(*inputs)
        if bias is not None:
            scores = scores + visible.cut(bias.detach()).to(scores.dtype)
        return visible.widen(masked_softmax(scores, mask=visible.matrix(scores.device)))

    def remember(self, *inputs: Tensor, visible: Visibility, bias: Tensor | None) -> None:
        """Keep what ``attention_weights`` is computed from."""
        self._last = (tuple(X.detach() for X in inputs), visible, bias)

    def __getstate__(self) -> dict:
        """Copies and pickles hold the layer, not the last batch it saw."""
        return {name: value for name, value in super().__getstate__().items() if name != "_last"}


class DotProductAttention(AttentionLayer):
    """Scaled dot-product attention (D2L 11.3.3).

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).
    """

    score = staticmethod(scaled_dot_score)

    def check(self, queries, keys, values):
        super().check(queries, keys, values)
        check_same_size(queries, keys)

    def attend(self, queries, keys, values, visible, *, bias, need_weights):
        self.remember(queries, keys, visible=visible, bias=bias)
        dropout = self.dropout.p if self.training else 0.0
        return dot_product_pooling(
            queries, keys, values, visible, dropout=dropout, bias=bias, need_weights=need_weights
        )


class AdditiveAttention(AttentionLayer):
    """w_v . tanh(W_q q + W_k k), for queries and keys of any two sizes (D2L 11.3.4).

    Shape: queries (*, Q, D), keys (*, K, D'), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).

    Source: Bahdanau et al. (2015).
    """

    score = staticmethod(additive_score)

    def __init__(self, num_hiddens: int, dropout: float):
        super().__init__(dropout)
        self.W_k = nn.LazyLinear(num_hiddens, bias=False)
        self.W_q = nn.LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def attend(self, queries, keys, values, visible, *, bias, need_weights):
        queries, keys = self.W_q(queries), self.W_k(keys)
        w_v = self.w_v.weight[0]
        # An optimizer changes w_v in place: the weights of this pass need a copy of it.
        self.remember(queries, keys, w_v.to(queries.dtype, copy=True), visible=visible, bias=bias)
        scores = self.score(queries, keys, w_v)
        scores = scores if bias is None else scores + visible.cut(bias).to(scores.dtype)
        dropout = self.dropout.p if self.training else 0.0
        output, weights = attention_pooling(
            scores, values, mask=visible.matrix(scores.device), dropout=dropout
        )
        return output, visible.widen(weights)
