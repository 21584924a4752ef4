"""Attention as pure functions: no parameters, no state, inputs never modified.

Letters in the ``Shape`` lines: B batch, H heads, Q queries, K keys, D size of a query or
key, V size of a value; ``*`` any leading axes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention._checks import (
    check_attention_inputs,
    check_bias,
    check_dropout,
    check_same_size,
)
from d2l_attention.attention._fused import fused_pooling
from d2l_attention.attention.masks import attention_mask
from d2l_attention.attention.scores import scaled_dot_score
from d2l_attention.attention.visibility import Visibility, clear, visibility


def masked_softmax(
    X: Tensor, valid_lens: Tensor | None = None, *, mask: Tensor | None = None
) -> Tensor:
    """Softmax over the last axis that gives hidden entries exactly zero weight.

    Shape: X (*, Q, K) scores, valid_lens (B,) or (B, Q), mask bool -> (*, Q, K).

    A query that may attend to nothing gets weights of zero: not NaN (softmax of a row of
    -inf) and not uniform (softmax of a row of -1e6). ``X`` is left as it was.

    Source: D2L 11.3.2.1.
    """
    visible = attention_mask(X.shape, valid_lens, mask, device=X.device)
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
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Softmax the scores, then average the values: the last two steps of any attention.

    Shape: scores (*, Q, K), values (*, K, V) -> output (*, Q, V), weights (*, Q, K).

    ``dropout`` falls on the weights that do the averaging; the weights returned are those
    before it, so that their rows still sum to one.

    Source: D2L equation 11.1.1.
    """
    fit = min(scores.ndim, values.ndim) >= 2 and scores.shape[:-2] == values.shape[:-2]
    if not fit or scores.shape[-1] != values.shape[-2]:
        raise ValueError(
            "scores (*, Q, K) and values (*, K, V) must hold one row for each key, "
            f"got scores {tuple(scores.shape)} and values {tuple(values.shape)}"
        )
    visible = attention_mask(scores.shape, valid_lens, mask, is_causal, scores.device)
    if visible is not None:
        values = clear(values, visible.any(dim=-2))
    weights = masked_softmax(scores, mask=visible)
    return F.dropout(weights, check_dropout(dropout)) @ values, weights


def dot_product_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    valid_lens: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(q . k / sqrt(D)) v, without a (Q, K) matrix unless the weights are asked for.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> output (*, Q, V), and with
    ``need_weights`` also weights (*, Q, K).

    ``valid_lens``, ``mask`` (True = may attend) and ``is_causal`` all hide keys; a key is
    visible where all three say so. ``is_causal`` lets query i see keys 0 to i, as in PyTorch;
    for queries that start later there is ``causal_mask(..., offset=...)``. Lengths (B, Q) and
    masks are (Q, K) matrices themselves; on the CPU more than four axes make PyTorch build one
    as well, and dropout a part of one at a time. In self-attention a padded token is a query,
    too: where it may hold NaN, give it the length 0 by lengths (B, Q).

    ``bias`` holds floats that are added to the scores, (Q, K) or with more axes before: a
    matrix itself, and one for each sequence where lengths or masks differ. It must be finite;
    what hides a key is a mask.

    Source: Vaswani et al. (2017), equation 1; Dao et al. (2022) for the fused kernel.
    """
    check_attention_inputs(queries, keys, values)
    check_same_size(queries, keys)
    check_dropout(dropout)
    scores_shape = (*queries.shape[:-1], keys.shape[-2])
    check_bias(bias, scores_shape)
    visible = visibility(scores_shape, valid_lens, mask, is_causal, queries.device)
    queries, keys, values = visible.clear(queries, keys, values)
    pooled = dot_product_pooling(
        queries, keys, values, visible, dropout=dropout, bias=bias, need_weights=need_weights
    )
    return pooled if need_weights else pooled[0]


def dot_product_pooling(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Visibility,
    *,
    dropout: float,
    bias: Tensor | None,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """``dot_product_attention`` of inputs that ``visible`` has cleared and cut."""
    bias = visible.cut(bias)
    if not need_weights:
        return fused_pooling(queries, keys, values, visible, dropout, bias), None
    scores = scaled_dot_score(queries, keys)
    scores = scores if bias is None else scores + bias.to(scores.dtype)
    matrix = visible.matrix(scores.device)
    output, weights = attention_pooling(scores, values, mask=matrix, dropout=dropout)
    return output, visible.widen(weights)
