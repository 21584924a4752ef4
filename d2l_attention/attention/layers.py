"""Attention layers with D2L's names, signatures and parameters.

Letters as in ``pooling.py``. A layer has a door, ``forward``, which checks its inputs, works out
who sees whom and clears what takes no part; and behind it a formula, ``attend``, which relies on
that. ``MultiHeadAttention`` has checked its inputs already, and passes the result as ``visible``:
then the layer skips its own checks, and ignores lengths, mask, ``is_causal`` and ``offset``.
"""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.compiler import is_compiling, is_exporting
from torch.func import debug_unwrap

from d2l_attention.attention.checks import check_bias, check_dropout, check_whole
from d2l_attention.attention.fused import fused_attention
from d2l_attention.attention.masks import Visible, check_attention_inputs
from d2l_attention.attention.projections import LazyLinear, matrix_of
from d2l_attention.attention.scores import add_bias, additive_score, scaled_dot_score

Last = tuple[tuple[Tensor, ...], Visible, Tensor | None]  # inputs of the score, who sees, bias


class WeightsOnDemand(nn.Module):
    """D2L's attribute ``attention_weights``, computed when it is read.

    The layer holds what they are computed from, queries and keys and not a (Q, K) matrix, until
    the next pass: who changes one in place changes the weights that are read.
    """

    _last: Last | None = None

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, before dropout, without gradient. (*, Q, K).

        For weights with a gradient, call the layer with ``need_weights=True``. ``del
        layer.attention_weights`` lets go of what the layer holds.

        Errors: ``AttributeError`` before the first forward pass, as in the book.
        """
        if self._last is None:
            raise AttributeError("attention_weights")
        return self._weights(*self._last)

    @attention_weights.deleter
    def attention_weights(self) -> None:
        for part in self.modules():  # the attention in the heads holds the same
            if isinstance(part, WeightsOnDemand):
                part._last = None

    def _weights(self, inputs: tuple[Tensor, ...], visible: Visible, bias: Tensor | None) -> Tensor:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles hold the layer, not the last batch it saw."""
        return {name: value for name, value in super().__getstate__().items() if name != "_last"}


class AttentionLayer(WeightsOnDemand):
    """What attention layers share: the door, dropout, and weights that are computed when read.

    Each ``forward`` takes D2L's ``valid_lens`` and, keyword-only, ``mask`` (bool, True = may
    attend), ``is_causal`` and ``need_weights``. A ``bias`` of floats is added to the scores;
    ``offset`` keys stand before the first query.

    ``attend`` calls ``_remember`` with the inputs of the layer's ``score``, of which
    ``attention_weights`` are made: who writes a ``score`` writes an ``attend`` as well.
    """

    score: Callable[..., Tensor]
    same_size = True  # a dot product needs queries and keys of one size

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if "score" in vars(cls) and "attend" not in vars(cls):  # its output would be another's
            raise TypeError(f"{cls.__name__} has its own score: it needs its own attend, too")

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
        offset: int = 0,
        bias: Tensor | None = None,
        need_weights: bool = False,
        visible: Visible | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if visible is None:
            shape = self._scores_shape(queries, keys, values)
            if bias is not None:
                check_bias(bias, shape)
            visible = Visible.of(shape, valid_lens, mask, is_causal, offset, queries.device)
            queries, keys, values = visible.clear(queries, keys, values)
        output, weights = self.attend(queries, keys, values, visible, bias, need_weights)
        return output if weights is None else (output, weights)

    def _scores_shape(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[int, ...]:
        """(*, Q, K), or an error."""
        return check_attention_inputs(queries, keys, values, same_size=self.same_size)

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        """The formula: output (*, Q, V), and weights (*, Q, K) or, not asked for, ``None``."""
        raise NotImplementedError

    @property
    def rate(self) -> float:
        """How much is dropped now. A function is told: it does not know ``train`` and ``eval``."""
        return getattr(self.dropout, "p", 0.0) if self.dropout.training else 0.0

    def _remember(self, *inputs: Tensor, visible: Visible, bias: Tensor | None) -> None:
        """Keep what ``attention_weights`` is computed from; within ``torch.func`` nothing is."""
        if not is_compiling() and debug_unwrap(inputs[0]) is not inputs[0] or is_exporting():
            self._last = None
            return
        if bias is not None:  # an optimizer may change a learned one in place
            bias = bias.detach().clone() if bias.requires_grad else bias
        self._last = tuple([X.detach() for X in inputs]), visible, bias

    def _weights(self, inputs, visible, bias):
        return visible.softmax(add_bias(self.score(*inputs), bias))


class DotProductAttention(AttentionLayer):
    """Scaled dot-product attention (D2L 11.3.3).

    Whoever needs a second derivative asks for the weights: see ``dot_product_attention``. Without
    weights PyTorch's kernel drops out, and of the module ``dropout`` takes the rate ``p`` and the
    mode: one that does something else, in its ``forward`` or a hook, needs ``need_weights``.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).
    """

    score = staticmethod(scaled_dot_score)

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        self._remember(queries, keys, visible=visible, bias=bias)  # for attention_weights
        if not need_weights:  # PyTorch's kernel does the three lines below in one, without weights
            return fused_attention(queries, keys, values, visible, bias, self.rate), None
        scores = queries / math.sqrt(queries.shape[-1]) @ keys.mT  # (*, Q, K)
        weights = visible.softmax(scores if bias is None else scores + bias.to(scores.dtype))
        return self.dropout(weights) @ values, weights  # (*, Q, V)


class AdditiveAttention(AttentionLayer):
    """w_v . tanh(W_q q + W_k k), for queries and keys of any two sizes (D2L 11.3.4).

    Shape: queries (*, Q, D), keys (*, K, D'), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K).

    The first call makes ``W_q`` and ``W_k``, as in the book: initialise them after it.

    Source: Bahdanau et al. (2015).
    """

    score = staticmethod(additive_score)
    same_size = False

    def __init__(self, num_hiddens: int, dropout: float):
        super().__init__(dropout)
        check_whole("num_hiddens", num_hiddens)
        self.W_k: nn.Linear = LazyLinear(num_hiddens, bias=False)
        self.W_q: nn.Linear = LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        queries, keys = self.W_q(queries), self.W_k(keys)  # (*, Q, h) and (*, K, h)
        w_v = matrix_of(self.w_v, queries)[0]  # (h,), where h is num_hiddens
        # An optimizer changes w_v in place: the weights of this pass need a copy of it.
        self._remember(queries, keys, w_v.to(queries.dtype, copy=True), visible=visible, bias=bias)
        scores = add_bias(additive_score(queries, keys, w_v), bias)  # (*, Q, K)
        weights = visible.softmax(scores)  # (*, Q, K)
        return self.dropout(weights) @ values, weights if need_weights else None  # (*, Q, V)
