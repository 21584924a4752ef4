"""Attention in the windows of a feature map, and in windows moved by half their size: Swin."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import as_whole, check_floats, check_whole
from d2l_attention.attention.computed import keep_computed
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.positional import Positions


def partition_windows(X: Tensor, window_size: int) -> Tensor:
    """Cut feature maps into squares; the pixels of a square become the tokens of a sequence.

    Shape: X (B, rows, columns, C) -> (B * windows, window_size**2, C). The windows of a map follow
    each other row by row, and so do the pixels of a window.

    Errors: ``ValueError`` unless ``window_size`` divides rows and columns.

    Source: Liu et al. (2021), section 3.2.
    """
    check_map(X)
    check_whole("window_size", window_size)
    batch, rows, columns, size = X.shape
    if rows % window_size or columns % window_size:
        raise ValueError(
            f"window_size={window_size} does not divide the map of {rows} rows, {columns} columns"
        )
    down, across = rows // window_size, columns // window_size
    X = X.reshape(batch, down, window_size, across, window_size, size)
    # The two axes inside a window move together; a reshape alone would mix the windows up.
    return X.transpose(2, 3).reshape(batch * down * across, window_size**2, size)


def merge_windows(windows: Tensor, window_size: int, rows: int, columns: int) -> Tensor:
    """Put the windows back to feature maps: the inverse of ``partition_windows``.

    Shape: windows (B * windows, window_size**2, C) -> (B, rows, columns, C).

    Errors: ``ValueError`` where the windows do not fill maps of this size.
    """
    check_whole("window_size", window_size)
    down, across = rows // window_size, columns // window_size
    whole = down * window_size == rows and across * window_size == columns and down * across > 0
    shape = tuple(windows.shape)
    if not whole or len(shape) != 3 or shape[1] != window_size**2 or shape[0] % (down * across):
        raise ValueError(
            f"windows must have shape (B * windows, {window_size**2}, C) and fill maps of "
            f"{rows} rows and {columns} columns, got {shape}"
        )
    X = windows.reshape(
        shape[0] // (down * across), down, across, window_size, window_size, shape[2]
    )
    return X.transpose(2, 3).reshape(len(X), rows, columns, shape[2])


class RelativePositionBias(Positions):
    """One learned number for each head and each way from a query to a key in a window.

    A window of M x M pixels has (2M - 1)^2 such ways: up to M - 1 rows up or down, and as many
    columns to either side.

    Shape of the bias: (H, window_size**2, window_size**2).

    Source: Liu et al. (2021), section 3.2, equation 4.
    """

    def __init__(self, window_size: int, num_heads: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty((2 * window_size - 1) ** 2, num_heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        keep_computed(self, index=partial(_ways, window_size))

    def bias(self, num_queries: int, num_keys: int, *, offset: int = 0) -> Tensor:
        return self.table[self.index].movedim(-1, 0)


def _ways(window_size: int) -> Tensor:
    """The number of the way from each pixel of a window to each, (pixels, pixels)."""
    one_axis = torch.arange(window_size, device="cpu")
    pixels = torch.cartesian_prod(one_axis, one_axis)
    way = pixels[:, None] - pixels + window_size - 1  # (window_size**2, window_size**2, 2), from 0
    return way[..., 0] * (2 * window_size - 1) + way[..., 1]


class WindowAttention(nn.Module):
    """Multi-head self-attention of each pixel with those of its own window, on feature maps.

    Shape: X (B, rows, columns, num_hiddens) -> the same; with ``need_weights`` a pair, the
    second weights (B * windows, H, window_size**2, window_size**2), the windows as in
    ``partition_windows`` of the map that was padded and shifted.

    Windows never meet. A layer with ``shift=window_size // 2`` after one with ``shift=0`` lets them
    talk: it moves the map up and left, and what falls off comes in again at the far side.
    There pixels share a window that are no neighbours, and a mask keeps them apart. Along an
    axis that one window covers nothing is shifted.

    A map that the windows do not fill is padded below and on the right; nobody sees the padding.

    Errors: ``ValueError`` unless ``shift`` is smaller than ``window_size``, or for another size.

    Source: Liu et al. (2021), section 3.2, equations 3 and 4.
    """

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        window_size: int,
        *,
        shift: int = 0,
        dropout: float = 0.0,
    ):
        super().__init__()
        window_size = check_whole("window_size", window_size)
        if as_whole(shift) is None or not 0 <= shift < window_size:
            raise ValueError(
                f"shift must lie in [0, window_size), got shift={shift}, window_size={window_size}"
            )
        self.num_hiddens, self.window_size, self.shift = num_hiddens, window_size, shift
        positions = RelativePositionBias(window_size, num_heads)
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout, positions=positions)

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass: see ``AttentionLayer``."""
        return self.attention.attention_weights

    def forward(self, X: Tensor, *, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        check_floats("X", X)
        check_map(X)
        if X.shape[-1] != self.num_hiddens:
            raise ValueError(
                f"X must have shape (B, rows, columns, {self.num_hiddens}), got {tuple(X.shape)}"
            )
        batch, rows, columns, _ = X.shape
        padding = -rows % self.window_size, -columns % self.window_size
        padded = F.pad(X, (0, 0, 0, padding[1], 0, padding[0])) if any(padding) else X
        shifts = [self.shift if size > self.window_size else 0 for size in (rows, columns)]
        moved = padded.roll([-shift for shift in shifts], dims=(1, 2)) if any(shifts) else padded

        mask = window_mask(rows, columns, self.window_size, shifts, X.device)
        mask = None if mask is None else mask.repeat(batch, 1, 1)
        windows = partition_windows(moved, self.window_size)
        result = self.attention(windows, windows, windows, mask=mask, need_weights=need_weights)
        output, weights = result if need_weights else (result, None)
        output = merge_windows(output, self.window_size, *padded.shape[1:3])
        output = output.roll(shifts, dims=(1, 2)) if any(shifts) else output
        output = output[:, :rows, :columns]
        return (output, weights) if need_weights else output


def window_mask(
    rows: int,
    columns: int,
    window_size: int,
    shifts: list[int],
    device: torch.device | str | None = None,
) -> Tensor | None:
    """Which pixels of a window are neighbours in the map, once it is padded and shifted.

    Shape: (windows, window_size**2, window_size**2) bool, or ``None`` where all are.
    """
    if not any(shifts) and rows % window_size == 0 and columns % window_size == 0:
        return None
    down = axis_labels(rows, window_size, shifts[0], device)[:, None]
    across = axis_labels(columns, window_size, shifts[1], device)
    labels = torch.where((down > 0) & (across > 0), 3 * down + across, 0)  # 0 is padding
    tokens = partition_windows(labels[None, :, :, None], window_size)[
        ..., 0
    ]  # (windows, window_size**2)
    queries, keys = tokens[:, :, None], tokens[:, None, :]
    return (queries == keys) & (keys > 0)


def axis_labels(size: int, window_size: int, shift: int, device=None) -> Tensor:
    """0 for padding, 1 for a pixel that moved, 2 for one that came in at the far side.

    Shape: (size, rounded up to whole windows), in the order after the shift.
    """
    padded = size + -size % window_size
    place = torch.arange(padded, device=device)
    labels = torch.where(place < padded - shift, 1, 2)
    return labels.masked_fill((place + shift) % padded >= size, 0)


def check_map(X: Tensor) -> None:
    """Raise unless ``X`` holds numbers in the shape of feature maps."""
    if not isinstance(X, Tensor):
        raise TypeError(f"X must be a tensor of floats, got {type(X).__name__}")
    if X.ndim != 4 or 0 in X.shape[1:3]:
        raise ValueError(f"X must have shape (B, rows, columns, C), got {tuple(X.shape)}")
