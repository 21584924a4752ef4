"""Checks that fail early, with the argument's name, what was expected and what came."""

import operator
from numbers import Real
from typing import Any

from torch import Tensor


def check_shape(a: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless tensor ``a`` has exactly this shape (D2L's ``check_shape``).

    Errors: ``ValueError`` with the expected and the actual shape.
    """
    if tuple(a.shape) != tuple(shape):
        raise ValueError(f"expected a tensor of shape {tuple(shape)}, got {tuple(a.shape)}")


def check_dropout(dropout: float) -> float:
    """Return ``dropout`` if it is a probability below 1; at 1 nothing would be left."""
    if not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), got {dropout!r}")
    return dropout


def check_whole(name: str, number: Any, lowest: int = 1) -> int:
    """Return the argument ``name`` if it is a whole number, ``lowest`` or more."""
    whole = as_whole(number)
    if whole is None or whole < lowest:
        raise ValueError(f"{name} must be a whole number from {lowest} on, got {number!r}")
    return whole


def as_whole(number: Any) -> int | None:
    """The number if it is whole: NumPy's integers are, True and 8.0 are not."""
    try:
        return None if isinstance(number, bool) else operator.index(number)
    except TypeError:
        return None


def check_divides(part: str, parts: Any, whole: str, size: Any) -> None:
    """Raise unless the argument ``whole``, of this size, splits into ``parts`` equal parts."""
    if any((as_whole(number) or 0) < 1 for number in (parts, size)) or size % parts:
        raise ValueError(
            f"{part} must divide {whole}, whole numbers, got {whole}={size} and {part}={parts}"
        )


def check_heads(num_hiddens: int, num_heads: int) -> None:
    """Raise unless ``num_hiddens`` splits into ``num_heads`` equal slices."""
    check_divides("num_heads", num_heads, "num_hiddens", num_hiddens)


def check_same_size(queries: Tensor, keys: Tensor) -> None:
    """Raise unless queries (*, Q, D) and keys (*, K, D) are floats and share their last axis."""
    check_floats("queries", queries)
    check_floats("keys", keys)
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


def check_bias(bias: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise unless ``bias`` can be added to scores of this shape."""
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
