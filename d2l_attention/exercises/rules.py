"""Rules about attention weights, for the step ``holds``: what is wrong with a result, or None.

Each takes the student's weights (*, Q, K) and then the inputs of the exercise.
"""

from typing import Any

from torch import Tensor


def rows_sum_to_one(weights: Tensor, *_: Any) -> str | None:
    """For rows with something to attend to; leave out cases that have others."""
    sums = weights.sum(dim=-1)
    if near_one(sums):
        return None
    row = f"Row 0 of your weights sums to {sums.flatten()[0]:.3g}"
    worst = (sums - 1).abs().flatten().argmax()
    if worst:
        row = f"Row {worst} of your weights sums to {sums.flatten()[worst]:.3g}"
    columns = near_one(weights.sum(dim=-2)) if weights.ndim > 1 else False
    if columns:
        return (
            f"{row}, while every column sums to 1: your softmax runs over the queries. Softmax "
            "over the keys (the last axis, `dim=-1`) makes every row sum to 1."
        )
    return f"{row}; softmax over the keys (the last axis) makes every row sum to 1."


def near_one(sums: Tensor) -> bool:
    return bool(((sums - 1).abs() < 1e-2).all())


def no_nan(weights: Tensor, *_: Any) -> str | None:
    if not weights.isnan().any():
        return None
    row = weights.isnan().reshape(-1, weights.shape[-1]).any(dim=-1).nonzero()[0].item()
    return f"Row {row} of your weights is NaN."


def hidden_weights_are_zero(weights: Tensor, _scores: Tensor, mask: Tensor) -> str | None:
    """For exercises whose inputs are scores (*, Q, K) and a mask, True = may attend."""
    hidden = weights.masked_fill(mask, 0.0)
    if not hidden.any():
        return None
    place = hidden.nonzero()[0].tolist()
    return (
        f"Entry {place} of your weights is {hidden[tuple(place)].item():.3g}, but the mask is "
        "False there: that key may get no weight at all."
    )


def masked_before_the_softmax(weights: Tensor, scores: Tensor, mask: Tensor) -> str | None:
    """For the same inputs: the visible weights are not just those of an unmasked softmax."""
    unmasked = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
    if mask.all() or not near_zero(weights - unmasked):
        return None
    row = (~mask).any(dim=-1).flatten().nonzero()[0].item()
    return (
        f"Row {row} of your weights sums to {weights.sum(dim=-1).flatten()[row]:.3g}: the hidden "
        "key still took its share of the softmax. Mask the scores, before the softmax, so that "
        "the visible keys share all of the weight."
    )


def near_zero(difference: Tensor) -> bool:
    return bool((difference.abs() < 1e-4).all())
