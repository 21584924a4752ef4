"""Telling positions apart: attention alone does not know the order of its keys."""

import torch
from torch import Tensor, nn

from d2l_attention.checks import check_dropout


class PositionalEncoding(nn.Module):
    """Add sines and cosines of the position, one frequency for each pair of columns.

    P[i, 2j] = sin(i / 10000^(2j / d)) and P[i, 2j + 1] = cos(i / 10000^(2j / d)).
    An odd ``num_hiddens`` ends on a sine.

    Shape: X (B, n, num_hiddens) -> the same. ``offset`` is the position of the first
    token, for decoding one token at a time.

    Errors: ``ValueError`` where the sequence runs past ``max_len``, or is of another size.

    Source: Vaswani et al. (2017), section 3.5; D2L equation 11.6.2.
    """

    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000):
        super().__init__()
        self.dropout = nn.Dropout(check_dropout(dropout))
        # In float64: in float32 the sine of position 100,000 is off in the fourth digit.
        columns = torch.arange(num_hiddens, dtype=torch.float64)
        wavelength = 10000 ** ((columns - columns % 2) / num_hiddens)
        angles = torch.arange(max_len)[:, None] / wavelength
        P = torch.where(columns % 2 == 0, angles.sin(), angles.cos())
        # A buffer follows the module to its device; computed, so checkpoints leave it out.
        self.register_buffer("P", P[None].to(torch.get_default_dtype()), persistent=False)

    def forward(self, X: Tensor, *, offset: int = 0) -> Tensor:
        _, max_len, num_hiddens = self.P.shape
        if not X.is_floating_point():
            raise TypeError(f"X must hold floats (embeddings, not token numbers), got {X.dtype}")
        if X.ndim != 3 or X.shape[-1] != num_hiddens:
            raise ValueError(f"X must have shape (B, n, {num_hiddens}), got {tuple(X.shape)}")
        if offset < 0 or offset + X.shape[1] > max_len:
            raise ValueError(
                f"positions {offset} to {offset + X.shape[1] - 1} do not fit max_len={max_len}: "
                "build the encoding with a larger max_len"
            )
        return self.dropout(X + self.P[:, offset : offset + X.shape[1]].to(X.dtype))
