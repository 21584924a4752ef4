"""How well a query and a key fit, as a number: the scores that a softmax turns into weights.

Letters in the ``Shape`` lines: B batch, H heads, Q queries, K keys, D size of a query or
key; ``*`` any leading axes.
"""

import math

from torch import Tensor

from d2l_attention.attention.additive import additive_score_in_chunks, worth_chunking
from d2l_attention.attention.checks import check_same_size


def gaussian_score(queries: Tensor, keys: Tensor, width: float | Tensor = 1.0) -> Tensor:
    """-|q - k|^2 / (2 width^2): its softmax is the Gaussian kernel, normalised.

    Shape: queries (*, Q, D), keys (*, K, D) -> (*, Q, K). ``width`` is a number, or a tensor
    that broadcasts to (*, Q, K): (Q, 1) is a width for each query. It may be learned.

    Errors: ``TypeError`` unless floats: bytes, as of grey values, would wrap round.

    Source: D2L equation 11.3.1.
    """
    check_same_size(queries, keys)
    if isinstance(width, int | float) and not width > 0:
        raise ValueError(f"width must be positive, got {width}")
    differences = queries.unsqueeze(-2) - keys.unsqueeze(-3)  # (*, Q, K, D)
    # Divided before they are squared, so that half precision does not overflow.
    width = width[..., None] if isinstance(width, Tensor) else width
    return -(differences / width).square().sum(dim=-1) / 2


def dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """q . k, large where query and key point the same way.

    Shape: queries (*, Q, D), keys (*, K, D) -> (*, Q, K). Errors: ``TypeError`` unless floats.
    Source: Luong et al. (2015).
    """
    check_same_size(queries, keys)
    return queries @ keys.transpose(-2, -1)


def scaled_dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """q . k / sqrt(D): the scores' variance stays near 1 whatever D is.

    Shape: queries (*, Q, D), keys (*, K, D) -> (*, Q, K). Errors: ``TypeError`` unless floats.
    Source: Vaswani et al. (2017), section 3.2.1; D2L equation 11.3.2.
    """
    check_same_size(queries, keys)
    # Scaled before the product, so that half precision does not overflow in it.
    return dot_score(queries / math.sqrt(queries.shape[-1]), keys)


def bilinear_score(queries: Tensor, keys: Tensor, M: Tensor) -> Tensor:
    """q^T M k: a dot product for queries and keys of unequal sizes.

    Shape: queries (*, Q, D), keys (*, K, D'), M (D, D') -> (*, Q, K).
    Source: Luong et al. (2015), 'general' score.
    """
    if M.shape != (queries.shape[-1], keys.shape[-1]):
        raise ValueError(
            f"M must have shape (query size, key size) = {(queries.shape[-1], keys.shape[-1])}, "
            f"got {tuple(M.shape)}"
        )
    return dot_score(queries @ M, keys)


def additive_score(queries: Tensor, keys: Tensor, w_v: Tensor) -> Tensor:
    """w_v . tanh(q + k), for queries and keys already projected to the same hidden size D.

    Project the keys once and reuse them for every query. ``AdditiveAttention`` holds the
    projections. Where there are many pairs, ``additive.py`` computes the same faster and in
    less memory; for a second derivative its memory is the plain formula's.

    Shape: queries (*, Q, D), keys (*, K, D), w_v (D,) -> (*, Q, K).
    Source: Bahdanau et al. (2015), appendix A.1.2; D2L equation 11.3.7.
    """
    check_same_size(queries, keys)
    if w_v.shape != queries.shape[-1:]:
        raise ValueError(f"w_v must have shape ({queries.shape[-1]},), got {tuple(w_v.shape)}")
    if worth_chunking(queries, keys, w_v):
        return additive_score_in_chunks(queries, keys, w_v)
    sums = queries.unsqueeze(-2) + keys.unsqueeze(-3)  # (*, Q, K, D)
    # In place: to fill a second tensor of this size takes longer than the tanh.
    return sums.tanh_() @ w_v


def add_bias(scores: Tensor, bias: Tensor | None) -> Tensor:
    """``scores + bias``, where there is one. Shape: scores (*, Q, K) -> the same."""
    return scores if bias is None else scores + bias.to(scores.dtype)
