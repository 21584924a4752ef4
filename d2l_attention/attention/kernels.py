"""Attention pooling by similarity: kernels and Nadaraya-Watson regression (D2L 11.2).

A kernel turns a difference between query and key into a weight that is not normalised yet.
For another width, divide first: ``lambda x: gaussian(x / width)``.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.attention.checks import check_floats


def gaussian(x: Tensor) -> Tensor:
    """exp(-x^2 / 2): every key counts, near ones most. Shape: any -> the same."""
    # Times 1.0: the square of a large whole number, as of a time stamp, would wrap round.
    return torch.exp(-((1.0 * wide(x)) ** 2) / 2)


def boxcar(x: Tensor) -> Tensor:
    """1 where |x| < 1, else 0: all near keys count alike. Shape: any -> the same."""
    return (wide(x).abs() < 1).to(x.dtype)


def constant(x: Tensor) -> Tensor:
    """1 everywhere: plain averaging. Shape: any -> the same."""
    return torch.ones_like(x)


def epanechikov(x: Tensor) -> Tensor:
    """max(1 - |x|, 0): weight falls in a straight line to 0. Shape: any -> the same.

    Name and formula are D2L's. Epanechnikov's own kernel (1969) is the parabola
    max(1 - x^2, 0); this triangle is a close relative.
    """
    # Not clamp(min=0): its slope at the triangle's ends is another one by the version of PyTorch.
    return (1 - wide(x).abs()).relu()


def wide(x: Tensor) -> Tensor:
    """Small whole numbers as int64: bytes, as of grey values, would wrap round."""
    return x if x.is_floating_point() else x.long()


def nadaraya_watson(
    x_train: Tensor, y_train: Tensor, x_val: Tensor, kernel: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Predict y at ``x_val`` as an average of ``y_train``, weighted by similarity of x.

    Queries are ``x_val``, keys ``x_train``, values ``y_train``.

    Shape: x_train (K,), y_train (K,), x_val (Q,) -> predictions (Q,), weights (Q, K), one
    row a query. (D2L's weights stand the other way round, one column a query.)

    A query with no key in reach gets weights 0 and prediction 0, where D2L divides 0 by 0.
    In float32 even a Gaussian has an end: beyond about 14 widths its weights are 0. Where x and y
    are of two dtypes, predictions are of the finer one.

    Errors: ``TypeError`` unless ``y_train`` holds floats, ``ValueError`` unless the shapes fit.

    Source: Nadaraya (1964), Watson (1964); D2L equation 11.2.2.
    """
    for name, tensor in (("x_train", x_train), ("y_train", y_train), ("x_val", x_val)):
        if tensor.ndim != 1:
            raise ValueError(f"{name} must have one axis, got shape {tuple(tensor.shape)}")
    if len(x_train) != len(y_train):
        raise ValueError(
            f"x_train and y_train must have the same length, got {len(x_train)} and {len(y_train)}"
        )
    check_floats("y_train", y_train)
    similarity = kernel(wide(x_val)[:, None] - wide(x_train))  # (Q, K)
    single = torch.promote_types(similarity.dtype, torch.float32)  # float16 ends at 65,504
    total = similarity.sum(dim=-1, keepdim=True, dtype=single)
    weights = similarity / total.masked_fill(total == 0, 1)
    weights = weights.to(torch.result_type(similarity, 1.0))
    dtype = torch.promote_types(weights.dtype, y_train.dtype)
    return weights.to(dtype) @ y_train.to(dtype), weights
