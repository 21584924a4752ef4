"""From scores to an answer: softmax the scores, then average the values.

Pure functions: no parameters, no state, inputs never modified. Letters in the ``Shape`` lines:
B batch, H heads, Q queries, K keys, D size of a query or key, V size of a value; ``*`` any
leading axes.
"""

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention._checks import check_attention_inputs, check_dropout, check_pooling
from d2l_attention.attention._fused import fused_attention
from d2l_attention.attention.masks import Hidden, attention_mask, taking_part, zero_pairs, zero_rows
from d2l_attention.attention.scores import scaled_dot_score


def masked_softmax(
    X: Tensor,
    valid_lens: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
) -> Tensor:
    """Softmax over the last axis that gives hidden entries exactly zero weight.

    Shape: X (*, Q, K) scores, valid_lens (B,) or (B, Q), mask bool -> (*, Q, K).

    A query that may attend to nothing gets weights of zero: not NaN (softmax of a row of
    -inf) and not uniform (softmax of a row of -1e6). ``X`` is left as it was. ``is_causal`` and
    ``offset``: see ``causal_mask``.

    Source: D2L 11.3.2.1.
    """
    visible = attention_mask(X.shape, valid_lens, mask, is_causal, X.device, offset=offset)
    if visible is None:
        return X.softmax(dim=-1)
    # The lowest finite number rather than -inf: a row with nothing visible stays finite
    # until the second fill clears it, and so do its gradients.
    scores = X.masked_fill(~visible, torch.finfo(X.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~visible, 0.0)


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
    hidden = Hidden(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
    _, visible = taking_part(scores.shape, **hidden)
    weights = masked_softmax(scores, **hidden)  # (*, Q, K)
    output = F.dropout(weights, check_dropout(dropout)) @ zero_rows(values, visible)  # (*, Q, V)
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
    Lengths (B, Q) and masks are (Q, K) matrices themselves; on the CPU dropout and more than
    four axes make PyTorch build one as well. In self-attention a padded token is a query, too:
    where it may hold NaN, give it the length 0 by lengths (B, Q).

    ``bias`` holds floats that are added to the scores, (Q, K) or with more axes before: a
    matrix itself, and one for each sequence where lengths or masks differ. It must be finite;
    what hides a key is a mask.

    Source: Vaswani et al. (2017), equation 1; Dao et al. (2022) for the fused kernel.
    """
    check_attention_inputs(queries, keys, values, bias, same_size=True)
    check_dropout(dropout)
    hidden = Hidden(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
    queries, keys, values = zero_hidden_rows(queries, keys, values, **hidden)
    if not need_weights:
        return fused_attention(queries, keys, values, **hidden, bias=bias, dropout=dropout)
    scores = add_bias(scaled_dot_score(queries, keys), bias)  # (*, Q, K)
    return attention_pooling(scores, values, **hidden, dropout=dropout)


def zero_hidden_rows(
    queries: Tensor, keys: Tensor, values: Tensor, **hidden: Unpack[Hidden]
) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros in queries that see nothing, and in keys and values that no query sees.

    What stands there, NaN included, then reaches neither outputs nor gradients.

    Shape: queries (*, Q, D), keys (*, K, D'), values (*, K, V) -> the same.
    """
    scores_shape = (*queries.shape[:-1], keys.shape[-2])
    active, visible = taking_part(scores_shape, **hidden)
    return zero_rows(queries, active), *zero_pairs(keys, values, visible)


def add_bias(scores: Tensor, bias: Tensor | None) -> Tensor:
    """``scores + bias``, where there is one. Shape: scores (*, Q, K) -> the same."""
    return scores if bias is None else scores + bias.to(scores.dtype)
