"""From scores to an answer: softmax the scores, then average the values.

Pure functions: no parameters, no state, inputs never modified. Letters in the ``Shape`` lines:
B batch, H heads, Q queries, K keys, D size of a query or key, V size of a value; ``*`` any
leading axes.
"""

import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention.checks import check_bias, check_dropout, check_floats, check_pooling
from d2l_attention.attention.fused import fused_attention
from d2l_attention.attention.masks import Visible, check_attention_inputs, clear
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
    before it, so that their rows still sum to one. A function knows no eval mode: give it 0 there.

    Source: D2L equation 11.1.1.
    """
    check_pooling(scores, values)
    check_floats("scores", scores)
    visible = Visible.of(scores.shape, valid_lens, mask, is_causal, offset, scores.device)
    weights = visible.softmax(scores)  # (*, Q, K)
    values = clear(values, visible.unseen)
    return F.dropout(weights, check_dropout(dropout)) @ values, weights  # (*, Q, V)


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
    ``dropout`` falls always: a function knows no eval mode.
    Lengths (B, Q) and masks are (Q, K) matrices themselves; on the CPU dropout makes PyTorch
    build one as well (of one head at a time, where it is large), and so do more than four axes.
    In self-attention a padded token is a query, too: where it may hold NaN, give it the length 0
    by lengths (B, Q). Ask for the weights where you need a second derivative: PyTorch's kernel has
    none, unless it drops out on the CPU.

    ``bias`` holds floats that are added to the scores, (Q, K) or with more axes before: a
    matrix itself, and one for each sequence where lengths or masks differ. It must be finite, in
    the precision of the queries too; what hides a key is a mask.

    What a query can see must be finite, and so must its scores. Where they are not, the explicit
    formula gives NaN to the queries concerned, and PyTorch's kernel sometimes another answer: 0 to
    a query of NaN with fewer than 16 keys, or NaN to a query from which a key of NaN is hidden,
    while another one sees it.

    Source: Vaswani et al. (2017), equation 1; Dao et al. (2022) for the fused kernel.
    """
    shape = check_attention_inputs(queries, keys, values, same_size=True)
    check_dropout(dropout)
    if bias is not None:
        check_bias(bias, shape)
    visible = Visible.of(shape, valid_lens, mask, is_causal, offset, queries.device)
    queries, keys, values = visible.clear(queries, keys, values)
    if not need_weights:
        return fused_attention(queries, keys, values, visible, bias, dropout)
    scores = add_bias(scaled_dot_score(queries, keys), bias)  # (*, Q, K)
    weights = visible.softmax(scores)  # (*, Q, K)
    return F.dropout(weights, dropout) @ values, weights  # (*, Q, V)
