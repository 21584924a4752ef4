"""Who may attend to whom, as boolean tensors: True means 'may attend'; the softmax under them.

The same convention as ``torch.nn.functional.scaled_dot_product_attention``. A mask
broadcasts to the scores, (*, Q, K): letters as in ``pooling.py``.
"""

from typing import TypedDict, Unpack

import torch
from torch import Tensor

from d2l_attention.attention.checks import (
    check_bool,
    check_floats,
    check_lens_shape,
    check_mask_shape,
    check_valid_lens,
)


class Masking(TypedDict):
    """The four arguments that hide keys from queries, as layers hand them down together.

    What each means: see ``attention_mask``.
    """

    valid_lens: Tensor | None
    mask: Tensor | None
    is_causal: bool
    offset: int


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


def real_tokens(valid_lens: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Which tokens of ``shape`` are no padding, with one length a sequence.

    Shape: valid_lens (B,), ``shape`` (B, *, n) -> bool (B, 1, ..., n).

    Errors: as ``length_mask``, and ``ValueError`` unless there is one length a sequence.
    """
    *leading, num_tokens = shape
    real = length_mask(valid_lens, num_tokens)
    if list(valid_lens.shape) != leading[:1]:
        raise ValueError(
            f"valid_lens must have shape {tuple(leading[:1])}, one length a sequence, "
            f"got {tuple(valid_lens.shape)}"
        )
    return real.reshape(*leading[:1], *[1] * (len(leading) - 1), num_tokens)


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


def attention_mask(
    scores_shape: tuple[int, ...],
    valid_lens: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    device: torch.device | str | None = None,
    *,
    offset: int = 0,
) -> Tensor | None:
    """Everything a layer was told about visibility, as one mask for scores (*, Q, K).

    A key is visible where ``valid_lens``, ``mask`` and ``is_causal`` all say so. ``offset`` keys
    stand before the first query: see ``causal_mask``.

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
    causal = None
    if is_causal and num_keys > offset + 1:  # else the first query sees all there is already
        causal = causal_mask(num_queries, num_keys, offset=offset, device=device)
    return combine_masks(mask, lengths, causal)


def taking_part(
    scores_shape: tuple[int, ...],
    valid_lens: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
) -> tuple[Tensor | None, Tensor | None]:
    """Which queries see any key, and which keys are seen by any query: ``(seeing, seen)``.

    Shape: bool, broadcastable to (*, Q) and to (*, K); ``None`` is 'all of them'. The other rows
    take no part: see ``zero_rows``.

    Lengths (B,) and ``is_causal`` say it without a (Q, K) matrix. Errors: as ``attention_mask``.
    """
    *leading, num_queries, num_keys = scores_shape
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, got {offset}")
    shortest = num_keys
    if valid_lens is not None:
        shortest, _ = check_valid_lens(valid_lens, num_keys)
        check_lens_shape(valid_lens, tuple(scores_shape))
    if mask is not None:
        check_mask_shape(mask, tuple(scores_shape))
    if num_keys == 0:  # there is nothing to see
        return torch.zeros(1, dtype=torch.bool), None
    if mask is not None or (valid_lens is not None and valid_lens.ndim == 2):
        given = valid_lens if mask is None else mask
        device = None if given is None else given.device
        whole = attention_mask(scores_shape, valid_lens, mask, is_causal, device, offset=offset)
        assert whole is not None  # one of the two was given
        return whole.any(dim=-1), whole.any(dim=-2)
    seeing = seen = None
    reach = num_queries + offset if is_causal else num_keys  # keys that the last query may see
    if valid_lens is not None:
        lens = valid_lens.reshape(-1, *[1] * len(leading))  # (B, 1, ..., 1)
        # Key 0 is in nobody's future: a query sees something unless its length is 0.
        seeing = lens > 0 if shortest == 0 else None
        if shortest < num_keys:
            seen = torch.arange(num_keys, device=lens.device) < lens
    if reach < num_keys:
        device = None if valid_lens is None else valid_lens.device
        seen = combine_masks(seen, torch.arange(num_keys, device=device) < reach)
    return seeing, seen


def with_head_axis(mask: Tensor | None, scores_shape: tuple[int, ...]) -> Tensor | None:
    """(B, Q, K) -> (B, 1, Q, K): one mask a sequence, for each of its heads; or an error."""
    if mask is None:
        return None
    check_bool(mask)
    mask = mask[:, None] if mask.ndim == 3 else mask
    check_mask_shape(mask, scores_shape)
    return mask


def in_any_head(mask: Tensor | None) -> Tensor | None:
    """(B, H, Q, K) -> (B, Q, K): a token takes part if it does in one head."""
    return mask.any(dim=1) if mask is not None and mask.ndim == 4 else mask


def zero_rows(rows: Tensor, kept: Tensor | None) -> Tensor:
    """Zeros in the rows that take no part. Weight 0 is not enough: 0 times NaN is NaN.

    Shape: rows (*, n, D), kept bool, broadcastable to (*, n) -> (*, n, D).
    """
    if kept is None:
        return rows
    return rows.masked_fill(~kept.unsqueeze(-1).to(rows.device), 0.0)


def zero_pairs(keys: Tensor, values: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    """``zero_rows`` of both. In self-attention they are one tensor: then once is enough."""
    shown = zero_rows(keys, seen)
    return shown, shown if values is keys else zero_rows(values, seen)


def zero_hidden_rows(
    queries: Tensor, keys: Tensor, values: Tensor, **masking: Unpack[Masking]
) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros in queries that see nothing, and in keys and values that no query sees.

    What stands there, NaN included, then reaches neither outputs nor gradients.

    Shape: queries (*, Q, D), keys (*, K, D'), values (*, K, V) -> the same.
    """
    scores_shape = (*queries.shape[:-1], keys.shape[-2])
    seeing, seen = taking_part(scores_shape, **masking)
    return zero_rows(queries, seeing), *zero_pairs(keys, values, seen)


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

    Errors: ``TypeError`` unless the scores are floats, and those of ``attention_mask``.

    Source: D2L 11.3.2.1.
    """
    check_floats("X", X)
    visible = attention_mask(X.shape, valid_lens, mask, is_causal, X.device, offset=offset)
    if visible is None:
        return X.softmax(dim=-1)
    # The lowest finite number rather than -inf: a row with nothing visible stays finite
    # until the second fill clears it, and so do its gradients.
    scores = X.masked_fill(~visible, torch.finfo(X.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~visible, 0.0)
