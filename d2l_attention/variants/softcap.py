"""Scores that cannot grow: a tanh keeps them between -cap and cap."""

import torch
from torch import Tensor

from d2l_attention.attention.checks import check_attention_inputs
from d2l_attention.attention.layers import AttentionLayer
from d2l_attention.attention.masks import Masking, masked_softmax, zero_hidden_rows
from d2l_attention.attention.scores import add_bias, scaled_dot_score


def soft_capped(scores: Tensor, cap: float) -> Tensor:
    """cap tanh(scores / cap): small scores stay what they are, large ones come near ``cap``.

    Shape: any -> the same. Errors: ``ValueError`` unless ``cap`` is positive.

    Source: Gemma Team (2024), Gemma 2, section 2, 'Logit soft-capping'.
    """
    if not cap > 0:
        raise ValueError(f"cap must be positive, got {cap}")
    return cap * torch.tanh(scores / cap)


class SoftCappedAttention(AttentionLayer):
    """Scaled dot-product attention whose scores are soft-capped, before they are masked.

    No weight of a query is more than exp(2 cap) times another one that it may see.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V), valid_lens (B,) or (B, Q)
    -> (*, Q, V); with ``need_weights`` a pair, the second weights (*, Q, K). For
    ``MultiHeadAttention(attention=...)``. PyTorch's fused kernel has no tanh: each pass makes the
    (Q, K) weights.

    Errors: ``ValueError`` unless ``cap`` is positive.

    Source: Gemma Team (2024), Gemma 2, section 2, with a cap of 50.
    """

    def __init__(self, cap: float, dropout: float):
        super().__init__(dropout)
        soft_capped(torch.zeros(()), cap)
        self.cap = cap

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return soft_capped(scaled_dot_score(queries, keys), self.cap)

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
        self._remember(queries, keys, bias=bias, **masking)
        weights = masked_softmax(add_bias(self.score(queries, keys), bias), **masking)  # (*, Q, K)
        output = self.dropout(weights) @ values  # (*, Q, V)
        return (output, weights) if need_weights else output
