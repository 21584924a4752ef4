"""Turning pairs of columns, in parts that can be wrong: for 7.4 and 7.6."""

from collections.abc import Callable

import torch
from torch import Tensor

# Which columns are a pair ---------------------------------------------------------------------


def neighbours(X: Tensor) -> tuple[Tensor, Tensor]:
    return X[..., 0::2], X[..., 1::2]


def halves(X: Tensor) -> tuple[Tensor, ...]:
    return X.chunk(2, dim=-1)


# How a pair goes back to its columns ----------------------------------------------------------


def side_by_side(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), dim=-1).flatten(start_dim=-2)


def end_to_end(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat((first, second), dim=-1)


# How far the pairs of each position turn ------------------------------------------------------


def angles(positions: Tensor, d: int) -> Tensor:
    # In float64: far positions would lose the digits that a test compares.
    return positions[:, None] * 10000 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def one_frequency(positions: Tensor, d: int) -> Tensor:
    return positions[:, None].expand(-1, d // 2).float()


def half_the_exponent(positions: Tensor, d: int) -> Tensor:
    return positions[:, None] * 10000 ** (-torch.arange(d // 2) / d)


def divided_by_pairs(positions: Tensor, d: int) -> Tensor:
    return positions[:, None] * 10000 ** (-torch.arange(0, d, 2) / (d // 2))


def multiplied(positions: Tensor, d: int) -> Tensor:
    return positions[:, None] * 10000 ** (torch.arange(0, d, 2) / d)


def in_degrees(positions: Tensor, d: int) -> Tensor:
    return angles(positions, d).deg2rad()


def backwards(positions: Tensor, d: int) -> Tensor:
    return -angles(positions, d)


def from_1(positions: Tensor, d: int) -> Tensor:
    return angles(positions + 1, d)


# What turning is ------------------------------------------------------------------------------


def turn(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return first * cos - second * sin, first * sin + second * cos


def both_signs_plus(first, second, cos, sin) -> tuple[Tensor, Tensor]:
    return first * cos + second * sin, first * sin + second * cos


def cosines_alone(first, second, cos, sin) -> tuple[Tensor, Tensor]:
    return first * cos, second * cos


def entry_by_entry(first, second, cos, sin) -> tuple[Tensor, Tensor]:
    return first * sin, second * cos


def added(first, second, cos, sin) -> tuple[Tensor, Tensor]:
    return first + sin, second + cos


def one_after_the_other(first, second, cos, sin) -> tuple[Tensor, Tensor]:
    first = first * cos - second * sin
    return first, first * sin + second * cos


def rotate_with(
    *,
    pairs: Callable = neighbours,
    join: Callable = side_by_side,
    how_far: Callable = angles,
    turn: Callable = turn,
    axis: int = -2,
) -> Callable[[Tensor, int], Tensor]:
    """``rotate(X, offset)``, right but for the parts that are given."""

    def rotate(X, offset):
        t = how_far(torch.arange(offset, offset + X.shape[axis]), X.shape[-1])
        t = t if axis == -2 else t[:, None]
        return join(*turn(*pairs(X), t.cos().to(X), t.sin().to(X)))

    return rotate


right = rotate_with()
