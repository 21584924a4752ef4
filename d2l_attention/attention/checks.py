"""Checks that fail early, with the argument's name, what was expected and what came."""

from typing import Any

import torch
from torch import Tensor


def check_shape(a: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless tensor ``a`` has exactly this shape (D2L's ``check_shape``).

    Errors: ``ValueError`` with the expected and the actual shape.
    """
    if tuple(a.shape) != tuple(shape):
        raise ValueError(f"expected a tensor of shape {tuple(shape)}, got {tuple(a.shape)}")


def check_dropout(dropout: float) -> float:
    """Return ``dropout`` if it is a probability below 1; at 1 nothing would be left."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
    return dropout


def check_whole(name: str, number: int, lowest: int = 1) -> None:
    """Raise unless the argument ``name`` is a whole number, ``lowest`` or more."""
    if not isinstance(number, int) or number < lowest:
        raise ValueError(f"{name} must be a whole number from {lowest} on, got {number!r}")


def check_divides(part: str, parts: int, whole: str, size: int) -> None:
    """Raise unless the argument ``whole``, of this size, splits into ``parts`` equal parts."""
    if not all(isinstance(n, int) and n >= 1 for n in (parts, size)) or size % parts:
        raise ValueError(
            f"{part} must divide {whole}, whole numbers, got {whole}={size} and {part}={parts}"
        )


def check_heads(num_hiddens: int, num_heads: int) -> None:
    """Raise unless ``num_hiddens`` splits into ``num_heads`` equal slices."""
    check_divides("num_heads", num_heads, "num_hiddens", num_hiddens)


def check_same_size(queries: Tensor, keys: Tensor) -> None:
    """Raise unless queries (*, Q, D) and keys (*, K, D) share their last axis."""
    if min(queries.ndim, keys.ndim) < 2:
        raise ValueError(
            "queries and keys must be matrices of rows, (*, Q, D) and (*, K, D), "
            f"got queries {tuple(queries.shape)} and keys {tuple(keys.shape)}; "
            "for numbers write `x[:, None]`"
        )
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            "queries and keys must have the same size (last axis) for a dot product, "
            f"got queries {tuple(queries.shape)} and keys {tuple(keys.shape)}"
        )


def check_floats(name: str, given: Any) -> None:
    """Raise unless the argument ``name`` is a tensor of floats."""
    if not isinstance(given, Tensor) or not given.is_floating_point():
        actual = given.dtype if isinstance(given, Tensor) else type(given).__name__
        raise TypeError(f"{name} must be a tensor of floats, got {actual}")


def check_attention_inputs(
    queries: Any,
    keys: Any,
    values: Any,
    bias: Tensor | None = None,
    *,
    same_size: bool = False,
) -> None:
    """Raise unless queries (*, Q, D), keys (*, K, D') and values (*, K, V) fit together.

    ``bias``, if there is one, must fit the scores (*, Q, K); ``same_size`` asks for D = D'.
    """
    for name, given in (("queries", queries), ("keys", keys), ("values", values)):
        check_floats(name, given)
    shapes = queries.shape, keys.shape, values.shape
    wrong = None
    if min(map(len, shapes)) < 2:
        wrong = "queries, keys and values must have at least two axes"
    elif not shapes[0][:-2] == shapes[1][:-2] == shapes[2][:-2]:
        wrong = "queries, keys and values must share their leading axes"
    elif shapes[1][-2] != shapes[2][-2]:
        wrong = "keys and values must come in pairs (same axis -2)"
    if wrong is not None:
        named = zip(("queries", "keys", "values"), shapes, strict=True)
        actual = ", ".join(f"{name} {tuple(shape)}" for name, shape in named)
        raise ValueError(f"{wrong}, got {actual}")
    if same_size:
        check_same_size(queries, keys)
    check_bias(bias, (*queries.shape[:-1], keys.shape[-2]))


def check_bias(bias: Tensor | None, scores_shape: tuple[int, ...]) -> None:
    """Raise unless ``bias``, if there is one, can be added to scores of this shape."""
    if bias is None:
        return
    check_floats("bias", bias)
    sizes = zip(reversed(bias.shape), reversed(scores_shape), strict=False)
    if not 2 <= bias.ndim <= len(scores_shape) or any(
        size not in (1, expected) for size, expected in sizes
    ):
        raise ValueError(
            f"bias of shape {tuple(bias.shape)} does not fit scores of shape {scores_shape}"
        )


def check_pooling(scores: Tensor, values: Tensor) -> None:
    """Raise unless scores (*, Q, K) and values (*, K, V) hold one row for each key."""
    fit = min(scores.ndim, values.ndim) >= 2 and scores.shape[:-2] == values.shape[:-2]
    if not fit or scores.shape[-1] != values.shape[-2]:
        raise ValueError(
            "scores (*, Q, K) and values (*, K, V) must hold one row for each key, "
            f"got scores {tuple(scores.shape)} and values {tuple(values.shape)}"
        )


def check_valid_lens(valid_lens: Tensor, num_keys: int) -> tuple[int, int]:
    """Raise unless ``valid_lens``, (B,) or (B, Q), holds integers from 0 to ``num_keys``.

    Returns the smallest and the largest, as far as they can be known.
    """
    if not isinstance(valid_lens, Tensor):
        raise TypeError(f"valid_lens must be a tensor of integers, got {type(valid_lens).__name__}")
    if valid_lens.is_floating_point() or valid_lens.is_complex() or valid_lens.dtype == torch.bool:
        raise TypeError(f"valid_lens must be a tensor of integers, got {valid_lens.dtype}")
    if valid_lens.ndim not in (1, 2):
        raise ValueError(
            f"valid_lens must have shape (B,) or (B, Q), got {tuple(valid_lens.shape)}"
        )
    # A compiled or traced graph cannot branch on the numbers in a tensor.
    in_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if valid_lens.numel() == 0 or in_graph:
        return 0, num_keys
    lowest, highest = (int(bound) for bound in valid_lens.aminmax())
    if lowest < 0 or highest > num_keys:
        raise ValueError(
            f"valid_lens must lie between 0 and the number of keys, {num_keys}, "
            f"got values from {lowest} to {highest}"
        )
    return lowest, highest


def check_bool(mask: Tensor) -> None:
    """Raise unless the mask is boolean: 0/1 floats and additive masks are too easy to mix up."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        actual = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(
            f"mask must be a boolean tensor (True = may attend), got {actual}; "
            "write `mask.bool()` for ones and zeros, `scores_mask == 0` for an additive mask"
        )


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
