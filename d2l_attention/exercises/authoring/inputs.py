"""Inputs for cases."""

from collections.abc import Sequence

import torch
from torch import Tensor


def normal(seed: int, *shapes: Sequence[int]) -> tuple[Tensor, ...]:
    """Tensors of these shapes, the same at each call."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def in_dtype(inputs: tuple, dtype: torch.dtype) -> tuple:
    """The inputs with all floating-point tensors as ``dtype``."""
    return tuple(
        X.to(dtype) if isinstance(X, Tensor) and X.is_floating_point() else X for X in inputs
    )
