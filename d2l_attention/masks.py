"""Who may attend to whom, as boolean tensors: True means 'may attend'.

The same convention as ``torch.nn.functional.scaled_dot_product_attention``. A mask
broadcasts to the scores, (*, Q, K): letters as in ``functional.py``.
"""

import torch
from torch import Tensor

from d2l_attention.checks import check_valid_lens


def length_mask(valid_lens: Tensor, num_keys: int) -> Tensor:
    """Hide the padding: key ``j`` is visible where ``j < valid_lens``.

    Shape: valid_lens (B,) -> (B, 1, K), one length a sequence;
    (B, Q) -> (B, Q, K), one length a query.

    Errors: ``TypeError`` unless the lengths are integers, ``ValueError`` where one is
    negative or beyond ``num_keys``.
    """
    check_valid_lens(valid_lens, num_keys)
    positions = torch.arange(num_keys, device=valid_lens.device)
    lens = valid_lens if valid_lens.ndim == 2 else valid_lens[:, None]
    return positions < lens[..., None]


def causal_mask(
    num_queries: int,
    num_keys: int | None = None,
    *,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Hide the future: query ``i`` sees key ``j`` where ``j <= i + offset``.

    ``offset`` is the number of keys that stand before the first query: when tokens are
    generated one at a time, the new query is not at position 0. ``num_keys`` defaults to
    ``offset + num_queries``.

    Shape: (Q, K).
    """
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, got {offset}")
    num_keys = offset + num_queries if num_keys is None else num_keys
    queries = torch.arange(num_queries, device=device)[:, None]
    return torch.arange(num_keys, device=device) <= queries + offset


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """A key is visible where every mask says so; ``None`` hides nothing.

    Shape: any that broadcast together -> their common shape; no mask at all -> ``None``.

    Errors: ``TypeError`` for a mask that is not boolean.
    """
    given = [mask for mask in masks if mask is not None]
    for mask in given:
        check_bool(mask)
    combined = None
    for mask in given:
        combined = mask if combined is None else combined & mask
    return combined


def check_bool(mask: Tensor) -> None:
    """Raise unless the mask is boolean: 0/1 floats and additive masks are too easy to mix up."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        actual = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(
            f"mask must be a boolean tensor (True = may attend), got {actual}; "
            "write `mask.bool()` for ones and zeros, `scores_mask == 0` for an additive mask"
        )


def attention_mask(
    scores_shape: tuple[int, ...],
    valid_lens: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    device: torch.device | str | None = None,
) -> Tensor | None:
    """Everything a layer was told about visibility, as one mask for scores (*, Q, K).

    ``valid_lens`` counts along the first axis of the scores, B. A ``mask`` is (K,), (Q, K) or
    has as many axes as the scores: with scores (B, H, Q, K) a mask of three axes could mean
    batch or heads, so it is refused.

    Shape: at least two axes, broadcastable to ``scores_shape``; or ``None``: all visible.
    """
    if len(scores_shape) < 2:
        raise ValueError(f"scores must have shape (*, Q, K), got {tuple(scores_shape)}")
    *leading, num_queries, num_keys = scores_shape
    if mask is not None:
        check_mask_shape(mask, tuple(scores_shape))
        mask = mask[None] if mask.ndim == 1 else mask
    lengths = None
    if valid_lens is not None:
        lengths = length_mask(valid_lens, num_keys)
        check_lens_shape(valid_lens, tuple(scores_shape))
        lengths = lengths.reshape(lengths.shape[0], *[1] * (len(leading) - 1), *lengths.shape[1:])
    causal = causal_mask(num_queries, num_keys, device=device) if is_causal else None
    return combine_masks(mask, lengths, causal)


def check_lens_shape(valid_lens: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise unless the lengths are one a sequence of the scores, or one a query."""
    *leading, num_queries, _ = scores_shape
    fits = bool(leading) and valid_lens.shape[0] == leading[0]
    if not fits or valid_lens.ndim == 2 and valid_lens.shape[1] not in (1, num_queries):
        raise ValueError(
            f"valid_lens {tuple(valid_lens.shape)} does not fit scores of shape {scores_shape}: "
            "expected (B,) or (B, Q)"
        )


def check_mask_shape(mask: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise unless the boolean mask broadcasts, without ambiguity, to the scores' shape."""
    check_bool(mask)
    sizes = zip(reversed(mask.shape), reversed(scores_shape), strict=False)
    one_meaning = mask.ndim in (1, 2, len(scores_shape))
    if not one_meaning or any(size not in (1, expected) for size, expected in sizes):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not fit scores of shape {scores_shape}: "
            f"expected (Q, K) or {len(scores_shape)} axes, each of the scores' size or 1"
        )
