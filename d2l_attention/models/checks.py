"""What models and searches ask of their arguments, in the words of all of them.

Letters in the ``Shape`` lines: B batch, n tokens.
"""

from typing import Any

import torch
from torch import Tensor


def check_tokens(name: str, X: Any) -> None:
    """Raise unless the argument ``name`` is a batch of sentences of token numbers, (B, n).

    Errors: ``ValueError`` for floats and bool too: an embedding takes int32 and int64 alone.
    """
    if not isinstance(X, Tensor):
        raise ValueError(f"{name} must hold token numbers, (B, n), got {type(X).__name__}")
    if X.dtype not in (torch.int32, torch.int64) or X.ndim != 2:
        raise ValueError(
            f"{name} must hold token numbers, (B, n), got {X.dtype} of shape {tuple(X.shape)}"
        )


def check_some_tokens(name: str, X: Any) -> None:
    """``check_tokens``, for a network that takes a step a token and cannot take none."""
    check_tokens(name, X)
    if X.shape[1] == 0:
        raise ValueError(f"{name} must hold a token a sentence or more, got {tuple(X.shape)}")


def check_rows(X: Tensor, rows: int) -> None:
    """Raise unless X has a sentence for each of the state."""
    if len(X) != rows:
        raise ValueError(f"X must have as many rows as the state, {rows}, got {len(X)}")
