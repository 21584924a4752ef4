"""From scores to an answer: softmax the scores, then average the values.

Pure functions: no parameters, no state, inputs never modified. Letters in the ``Shape`` lines:
B batch, H heads, Q queries, K keys, D size of a query or key, V size of a value; ``*`` any
leading axes.
"""

import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention.checks import check_attention_inputs, check_dropout, check_pooling
from d2l_attention.attention.fused import fused_attention
from d2l_attention.attention.masks import (
    Masking,
    masked_softmax,
    taking_part,
    zero_hidden_rows,
    zero_rows,
)
from d2l_attention.attention.scores import add_bias, scaled_dot_score


def attention_pooling(
    scores: Tensor,
    values: Tensor,
    valid_lens: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Softmax the scores, then average the values: the last two steps of any attention.

    Shape: scores (*, Q, K), values (*, K, V) -> output (*, Q, V), weights (*, Q, K).

    ``dropout`` falls on the weights that do the averaging; the weights returned are those
    before it, so that their rows still sum to one.

    Source: D2L equation 11.1.1.
    """
    check_pooling(scores, values)
    masking = Masking(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
    _, seen = taking_part(scores.shape, **masking)
    weights = masked_softmax(scores, **masking)  # (*, Q, K)
    output = F.dropout(weights, check_dropout(dropout)) @ zero_rows(values, seen)  # (*, Q, V)
    return output, weights


def dot_product_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    valid_lens: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(q . k / sqrt(D)) v, without a (Q, K) matrix unless the weights are asked for.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> output (*, Q, V), and with
    ``need_weights`` also weights (*, Q, K).

    ``valid_lens``, ``mask`` (True = may attend) and ``is_causal`` all hide keys; a key is
    visible where all three say so. ``is_causal`` lets query i see keys 0 to i + ``offset``.
    Lengths (B, Q) and masks are (Q, K) matrices themselves; on the CPU dropout makes PyTorch
    build one as well (of one head at a time, where it is large), and so do more than four axes.
    In self-attention a padded token is a query, too: where it may hold NaN, give it the length 0
    by lengths (B, Q). Ask for the weights where you need a second derivative: PyTorch's kernel has
    none, unless it drops out on the CPU.

    ``bias`` holds floats that are added to the scores, (Q, K) or with more axes before: a
    matrix itself, and one for each sequence where lengths or masks differ. It must be finite;
    what hides a key is a mask.

    Source: Vaswani et al. (2017), equation 1; Dao et al. (2022) for the fused kernel.
    """
    check_attention_inputs(queries, keys, values, bias, same_size=True)
    check_dropout(dropout)
    masking = Masking(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
    queries, keys, values = zero_hidden_rows(queries, keys, values, **masking)
    if not need_weights:
        return fused_attention(queries, keys, values, **masking, bias=bias, dropout=dropout)
    scores = add_bias(scaled_dot_score(queries, keys), bias)  # (*, Q, K)
    return attention_pooling(scores, values, **masking, dropout=dropout)
