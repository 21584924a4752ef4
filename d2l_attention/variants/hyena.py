"""Mixing tokens without attention: long convolutions and gates, as in Hyena."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import check_floats, check_whole
from d2l_attention.attention.computed import keep_computed
from d2l_attention.attention.masks import real_tokens, zero_rows

SHORT = 3  # taps of the short convolution
BANDS = 8  # sines and cosines that tell the filter's network where it stands
WIDTH = 32  # hidden units of that network


def long_convolution(X: Tensor, filters: Tensor) -> Tensor:
    """Y[t] = sum_s filters[s] X[t - s], each column with a filter of its own, by FFT.

    Shape: X (*, n, D), filters (taps, D) -> (*, n, D). O(n log n), where the sum itself is O(n^2).

    The sum is causal. The transform touches all tokens at once, so that the future still
    changes the past by rounding, about 1e-7 (float32) of the largest number in the column, and
    NaN spreads over the whole column. Half precision is computed in single.

    Errors: ``ValueError`` unless there is one filter for each column.

    Source: Poli et al. (2023), section 2.
    """
    check_floats("X", X)
    check_floats("filters", filters)
    if X.ndim < 2 or filters.ndim != 2 or filters.shape[1] != X.shape[-1] or not len(filters):
        raise ValueError(
            "X (*, n, D) and filters (taps, D) must have the same columns, "
            f"got X {tuple(X.shape)} and filters {tuple(filters.shape)}"
        )
    if X.numel() == 0:  # some libraries refuse to transform nothing
        return X.clone()
    length, dtype = X.shape[-2], X.dtype
    filters = filters[:length]  # what lies further back than the first token
    X = X.float() if dtype in (torch.float16, torch.bfloat16) else X
    filters = filters.to(X.dtype)
    # The transform's convolution is circular: zeros behind the end take what would come round.
    size = power_of_two(length + len(filters) - 1)
    # It runs faster along numbers that lie together, so the columns become rows.
    rows, taps = (torch.fft.rfft(Y.transpose(-2, -1).contiguous(), size) for Y in (X, filters))
    return torch.fft.irfft(rows * taps, size)[..., :length].transpose(-2, -1).to(dtype)


def power_of_two(number: int) -> int:
    """The next power of two: a length that the transform likes."""
    return 1 << max(number - 1, 0).bit_length()


class ImplicitFilters(nn.Module):
    """Filters as long as the sequence, from a small network that is told the position.

    The number of parameters does not grow with the length. A window that fades, faster in
    some columns than in others, lets a new filter prefer what is near.

    Shape: ``num_taps`` -> (number of filters, num_taps, num_hiddens).

    Source: Poli et al. (2023), section 3.3.
    """

    def __init__(self, num_filters: int, num_hiddens: int, max_len: int):
        super().__init__()
        self.num_filters, self.max_len = num_filters, max_len
        self.inner = nn.Linear(1 + 2 * BANDS, WIDTH)
        self.middle = nn.Linear(WIDTH, WIDTH)
        self.outer = nn.Linear(WIDTH, num_filters * num_hiddens)
        keep_computed(
            self,
            rates=partial(_rates, num_hiddens),
            norm=partial(_window_norm, num_hiddens, max_len),
        )

    def forward(self, num_taps: int) -> Tensor:
        wide = torch.promote_types(self.rates.dtype, torch.float32)  # in half, places would meet
        place = torch.arange(num_taps, device=self.rates.device, dtype=wide)[:, None] / self.max_len
        angles = 2 * math.pi * place * torch.arange(1, BANDS + 1, device=place.device)
        X = torch.cat((place, angles.cos(), angles.sin()), dim=1).to(self.inner.weight.dtype)
        X = self.outer(self.middle(self.inner(X).sin()).sin())
        # A sum of terms that fade: divided by the window's norm it is about as large as one.
        window = ((-self.rates * place).exp() / self.norm).to(X.dtype)
        return (X.unflatten(1, (self.num_filters, -1)) * window[:, None]).transpose(0, 1)


def _rates(num_hiddens: int) -> Tensor:
    """How fast each column fades: to 1% after a tenth of ``max_len``, ..., after all of it."""
    return math.log(100) * torch.logspace(1, 0, num_hiddens, device="cpu", dtype=torch.float64)


def _window_norm(num_hiddens: int, max_len: int) -> Tensor:
    """The root of the sum of squares of each column's window. Shape: (num_hiddens,)."""
    place = torch.arange(max_len, device="cpu", dtype=torch.float64)[:, None] / max_len
    return (-_rates(num_hiddens) * place).exp().square().sum(dim=0).sqrt()


class HyenaOperator(nn.Module):
    """Each token is multiplied by what a long convolution brings from the tokens before it.

    z_1 = v, then z_{i + 1} = x_i * (h_i conv z_i), ``order`` times; v and the gates x_i are
    projections of the input after a short convolution, the filters h_i come from a small
    network. Always causal, O(n log n), and no token looks at another: there are no weights.

    Shape: X (B, n, num_hiddens), n up to ``max_len``, valid_lens (B,) -> (B, n, num_hiddens).

    Padding stands behind all that counts, where a causal operator does not look. ``valid_lens``
    clears it all the same, since the transform would spread its NaN.

    Errors: ``ValueError`` for another size or more than ``max_len`` tokens.

    Source: Poli et al. (2023), definition 3.1.
    """

    def __init__(self, num_hiddens: int, max_len: int, *, order: int = 2):
        super().__init__()
        for name, number in (("num_hiddens", num_hiddens), ("max_len", max_len), ("order", order)):
            check_whole(name, number)
        self.num_hiddens, self.max_len, self.order = num_hiddens, max_len, order
        columns = (order + 1) * num_hiddens
        self.W_in = nn.Linear(num_hiddens, columns, bias=False)
        self.short = nn.Conv1d(columns, columns, SHORT, groups=columns, bias=False)
        self.filters = ImplicitFilters(order, num_hiddens, max_len)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=False)

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        self.check(X)
        length = X.shape[1]
        if X.numel() == 0:
            return X.clone()
        if valid_lens is not None:
            X = zero_rows(X, real_tokens(valid_lens, X.shape[:2]))
        # Zeros before the first token: then no tap reaches a later one.
        projected = F.pad(self.W_in(X).transpose(1, 2), (SHORT - 1, 0))
        Z, *gates = self.short(projected).transpose(1, 2).chunk(self.order + 1, dim=-1)
        for gate, filters in zip(gates, self.filters(length), strict=True):
            Z = gate * long_convolution(Z, filters)
        return self.W_o(Z)

    def check(self, X: Tensor) -> None:
        check_floats("X", X)
        if X.ndim != 3 or X.shape[-1] != self.num_hiddens:
            raise ValueError(f"X must have shape (B, n, {self.num_hiddens}), got {tuple(X.shape)}")
        if X.shape[1] > self.max_len:
            raise ValueError(f"X must hold at most max_len={self.max_len} tokens, got {X.shape[1]}")
