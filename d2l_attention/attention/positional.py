"""Telling positions apart: attention alone does not know the order of its keys.

There are three ways to say where a token is: in its embedding, in the queries and keys of a head,
and in the scores. A ``Positions`` module has a hook for each. One object serves a model,
which calls it on its embeddings, and the model's self-attention layers.
"""

from functools import partial

import torch
from torch import Tensor, nn

from d2l_attention.attention.checks import as_whole, check_dropout, check_shape, check_whole
from d2l_attention.attention.computed import keep_computed
from d2l_attention.attention.masks import check_offset


class Positions(nn.Module):
    """The three hooks; each does nothing until a kind of positions overrides it.

    ``offset`` is the position of the first token, or of the first query: tokens that are
    decoded one at a time are not at 0.
    """

    def forward(self, X: Tensor, *, offset: int = 0) -> Tensor:
        """What enters the first layer. Shape: X (B, n, num_hiddens) -> the same."""
        return X

    def transform(self, X: Tensor, *, offset: int = 0) -> Tensor:
        """Queries or keys of every head. Shape: X (B, H, n, D / H) -> the same."""
        return X

    def bias(self, num_queries: int, num_keys: int, *, offset: int = 0) -> Tensor | None:
        """What is added to the scores. Shape: (H, Q, K), or ``None`` for nothing."""
        return None


class AddedPositions(Positions):
    """Row i of ``P`` is added to token i. Shape: ``P`` (1, max_len, num_hiddens)."""

    P: Tensor

    def __init__(self, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(check_dropout(dropout))

    def forward(self, X: Tensor, *, offset: int = 0) -> Tensor:
        _, max_len, num_hiddens = self.P.shape
        if not X.is_floating_point():
            raise TypeError(f"X must hold floats (embeddings, not token numbers), got {X.dtype}")
        if X.ndim != 3 or X.shape[-1] != num_hiddens:
            raise ValueError(f"X must have shape (B, n, {num_hiddens}), got {tuple(X.shape)}")
        if as_whole(offset) is None:
            raise ValueError(f"offset must be a whole number, got {offset!r}")
        if offset < 0 or offset + X.shape[1] > max_len:
            raise ValueError(
                f"positions {offset} to {offset + X.shape[1] - 1} do not fit max_len={max_len}: "
                "build the encoding with a larger max_len"
            )
        return self.dropout(X + self.P[:, offset : offset + X.shape[1]].to(X.dtype))


class PositionalEncoding(AddedPositions):
    """Add sines and cosines of the position, one frequency for each pair of columns.

    P[i, 2j] = sin(i / 10000^(2j / d)) and P[i, 2j + 1] = cos(i / 10000^(2j / d)).
    An odd ``num_hiddens`` ends on a sine.

    Shape: X (B, n, num_hiddens) -> the same.

    Errors: ``ValueError`` where the sequence runs past ``max_len``, or is of another size.

    Source: Vaswani et al. (2017), section 3.5; D2L equation 11.6.2.
    """

    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000):
        super().__init__(dropout)
        check_whole("num_hiddens", num_hiddens)
        check_whole("max_len", max_len)
        keep_computed(self, P=partial(_sines, num_hiddens, max_len))


def _sines(num_hiddens: int, max_len: int) -> Tensor:
    """P of ``PositionalEncoding``, (1, max_len, num_hiddens)."""
    # In float64: in float32 the sine of position 100,000 is off in the fourth digit. On the
    # CPU, because not every device has float64.
    columns = torch.arange(num_hiddens, dtype=torch.float64, device="cpu")
    wavelength = 10000 ** ((columns - columns % 2) / num_hiddens)
    angles = torch.arange(max_len, device="cpu")[:, None] / wavelength
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())[None]


class LearnedPositionalEncoding(AddedPositions):
    """Add a vector that is learned for each position, as an embedding of the numbers 0, 1, ...

    A position that training never reaches keeps the random row it began with.

    Shape: X (B, n, num_hiddens) -> the same.

    Errors: ``ValueError`` where the sequence runs past ``max_len``, or is of another size.

    Source: Gehring et al. (2017), section 3.1; D2L 15.8.
    """

    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000):
        super().__init__(dropout)
        check_whole("num_hiddens", num_hiddens)
        check_whole("max_len", max_len)
        self.P = nn.Parameter(torch.randn(1, max_len, num_hiddens))


def rotary_speeds(head_size: int, base: float = 10000) -> Tensor:
    """The angle by which each pair turns from one position to the next: base^(-2j / head_size).

    Shape: (head_size / 2,), in float64 on the CPU: in float32 the angle at position 100,000 is
    off by 0.005, and not every device has float64.

    Source: Su et al. (2021), section 3.2.2; Xiong et al. (2023), section 2.1, for a larger base.
    """
    columns = torch.arange(0, head_size, 2, dtype=torch.float64, device="cpu")
    return base ** (-columns / head_size)


class RotaryEncoding(Positions):
    """Turn each pair of columns of a query or key by an angle that grows with its position.

    Pair j of token i turns by i / base^(2j / d). The dot product of two turned vectors
    depends on their distance alone: turning both further turns neither against the other.
    Values are not turned: what is read says nothing of its position.

    ``speeds`` gives the angle by which each pair turns from one position to the next, in place of
    base^(-2j / d): see ``d2l_attention.variants.longer_rotary``.

    Shape: X (B, H, n, head_size) -> the same; speeds (head_size / 2,).

    Errors: ``ValueError`` unless ``head_size`` is even and ``speeds`` are half as many, or where
    the heads have another size.

    Source: Su et al. (2021), section 3.2.2, equation 34.
    """

    def __init__(self, head_size: int, base: float = 10000, *, speeds: Tensor | None = None):
        super().__init__()
        if (as_whole(head_size) or 1) % 2 or head_size < 2:
            raise ValueError(f"head_size must be even, columns turn in pairs, got {head_size}")
        if not base > 0:
            raise ValueError(f"base must be positive, got {base}")
        self.head_size = head_size
        speeds = rotary_speeds(head_size, base) if speeds is None else speeds
        check_shape(speeds, (head_size // 2,))
        if speeds.requires_grad:
            raise ValueError("speeds must be fixed numbers, got a tensor that requires a gradient")
        self.speeds = speeds.to("cpu", torch.float64, copy=True)

    def angles(self, num_positions: int, *, offset: int = 0) -> Tensor:
        """The angle of each position and pair. Shape: (n, head_size / 2), in float64."""
        check_offset(offset)
        positions = torch.arange(offset, offset + num_positions, device="cpu")
        return positions[:, None] * self.speeds

    def transform(self, X: Tensor, *, offset: int = 0) -> Tensor:
        if X.ndim != 4 or X.shape[-1] != self.head_size:
            raise ValueError(f"X must have shape (B, H, n, {self.head_size}), got {tuple(X.shape)}")
        angles = self.angles(X.shape[-2], offset=offset)
        cos, sin = angles.cos().to(X), angles.sin().to(X)  # in the dtype and device of X
        # The paper's pairs are neighbours, columns 2j and 2j + 1. Many libraries pair column
        # j with j + d/2 instead: the same for a model trained so, not for its weights here.
        first, second = X[..., 0::2], X[..., 1::2]
        turned = first * cos - second * sin, first * sin + second * cos
        return torch.stack(turned, dim=-1).flatten(start_dim=-2)


class ALiBi(Positions):
    """Subtract from each score the distance of query and key, times the slope of the head.

    The slopes are fixed: a steep head looks nearby, a flat one far. The paper's queries see
    only the past; where queries also see the future, its distance counts the same, -m |i - j|.

    Shape of the bias: (H, Q, K).

    Source: Press et al. (2022), section 3.
    """

    slopes: Tensor

    def __init__(self, num_heads: int):
        super().__init__()
        num_heads = check_whole("num_heads", num_heads)
        keep_computed(self, slopes=partial(_alibi_slopes, num_heads))

    def bias(self, num_queries: int, num_keys: int, *, offset: int = 0) -> Tensor:
        check_offset(offset)
        device = self.slopes.device
        queries = torch.arange(offset, offset + num_queries, device=device)[:, None]
        distance = (queries - torch.arange(num_keys, device=device)).abs()  # (Q, K)
        # In half precision a long distance would be infinite before the slope makes it small.
        wide = torch.promote_types(self.slopes.dtype, torch.float32)
        return (-self.slopes[:, None, None].to(wide) * distance).to(self.slopes.dtype)


def _alibi_slopes(num_heads: int) -> Tensor:
    """2^-1, 2^-2, ..., 2^-8 for 8 heads; for another power of two as many steps from 1 to 2^-8.

    Between two powers of two the authors take the slopes of the lower one, then every other
    slope of the higher: 12 heads are those of 8, then 2^-0.5, 2^-1.5, 2^-2.5, 2^-3.5.
    """
    lower = 2 ** (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * head / lower) for head in range(1, lower + 1)]
    between = [2 ** (-4 * head / lower) for head in range(1, 2 * lower, 2)]
    return torch.tensor(slopes + between[: num_heads - lower], device="cpu")
