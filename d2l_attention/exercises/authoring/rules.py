"""Rules about attention weights (*, Q, K), for ``rules=`` and for ``holds``."""

from typing import Any

from torch import Tensor


def rows_sum_to_one(weights: Tensor, *_: Any) -> str | None:
    """For rows with something to attend to; leave out cases that have others."""
    sums = weights.sum(dim=-1)
    if near_one(sums):
        return None
    row = (sums - 1).abs().flatten().argmax() if near_one(sums.flatten()[:1]) else 0
    row_sum = f"Row {int(row)} of your weights sums to {sums.flatten()[row]:.3g}"
    if weights.ndim > 1 and near_one(weights.sum(dim=-2)):
        return (
            f"{row_sum}, while every column sums to 1: your softmax runs over the queries. Softmax "
            "over the keys (the last axis, `dim=-1`) makes every row sum to 1."
        )
    return f"{row_sum}; softmax over the keys (the last axis) makes every row sum to 1."


def near_one(sums: Tensor) -> bool:
    return bool(((sums - 1).abs() < 1e-2).all())


def no_nan(weights: Tensor, *_: Any) -> str | None:
    if not weights.isnan().any():
        return None
    row = weights.isnan().reshape(-1, weights.shape[-1]).any(dim=-1).nonzero()[0].item()
    return f"Row {row} of your weights is NaN."
