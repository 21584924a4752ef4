"""Pictures of attention. What takes an Axes draws on it and returns it.

Weights are drawn from the ground (0) to dark (large): readable in grey and by the colour-blind.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, to_hex
from matplotlib.patches import Rectangle
from matplotlib_inline.backend_inline import set_matplotlib_formats
from torch import Tensor

from d2l_attention.views import palette
from d2l_attention.views.palette import (
    CUT,
    HATCHED,
    KEY,
    ON_STRONG,
    ON_WEAK,
    QUERY,
    RULE,
)
from d2l_attention.views.words import set_tokens

CMAP = palette.colormap()
matplotlib.colormaps.register(CMAP, force=True)


def set_style() -> None:
    """Figures for a notebook that is also shown in a lecture room: large type, few lines."""
    plt.rcParams.update(
        {
            "figure.dpi": 80,
            "figure.constrained_layout.use": True,
            "font.size": 13,
            "axes.titlesize": 14,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "lines.linewidth": 2.5,
        }
        | palette.style()
    )
    if get_ipython() is not None:
        # Twice the pixels at the same size on the page, for dense screens and for projectors.
        set_matplotlib_formats("retina")


def on_cpu(weights: Any) -> Tensor:
    """Weights to draw, NumPy's too, what it masks as NaN: on the CPU, no gradient.

    Half precision becomes float32; what is small in float64 would be 0 in it, and stays.
    """
    if not isinstance(weights, Tensor):
        weights = torch.tensor(np.ma.filled(np.asanyarray(weights, dtype=float), math.nan))
    weights = weights.detach().cpu()
    return weights if weights.dtype == torch.float64 else weights.float()


def scale_of(weights: Tensor) -> tuple[float, float]:
    """From 0, or from the lowest weight below it, to the highest; NaN and inf do not count."""
    finite = weights[weights.isfinite()]
    if len(finite) == 0:
        return 0.0, 1.0
    return min(0.0, finite.min().item()), finite.max().item()


def heatmap(
    ax: Axes,
    weights: Tensor | np.ndarray,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    vmin: float | None = None,
    vmax: float | None = None,
    numbers: bool = False,
    cmap: str | Colormap = CMAP,
) -> Axes:
    """Weights (Q, K) as a picture: a row for each query, a column for each key.

    ``queries`` and ``keys`` are token labels, and are written as they are: a '$' begins no
    formula. ``numbers`` writes each weight in its cell.
    The colours go from ``vmin`` to ``vmax``: where these are ``None``, from 0, or from the lowest
    weight below it, to the highest. A weight that is NaN or infinite is no part of that scale: NaN
    is a cross, or with ``numbers`` its name, and infinity has the colour of the scale's end.
    Give several panels of one figure the same ``vmin`` and ``vmax``.

    Errors: ``ValueError`` where the weights are no matrix or the labels do not fit.
    """
    weights = on_cpu(weights)
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(
            f"weights must have shape (Q, K), a weight or more, got {tuple(weights.shape)}"
        )
    low, high = scale_of(weights)
    vmin, vmax = low if vmin is None else vmin, high if vmax is None else vmax
    # Nearest: where a cell is smaller than a few pixels, the default blends neighbours.
    colours = weights.nan_to_num(nan=math.nan, posinf=vmax, neginf=vmin).numpy()
    image = ax.imshow(
        colours, cmap=cmap, vmin=vmin, vmax=vmax, aspect="auto", interpolation="nearest"
    )
    for axis, labels, size in ((ax.yaxis, queries, 0), (ax.xaxis, keys, 1)):
        if labels is None:
            continue
        if len(labels) != weights.shape[size]:
            raise ValueError(f"got {len(labels)} labels for weights {tuple(weights.shape)}")
        set_tokens(axis, labels)
    ax.xaxis.tick_top()  # keys are above their columns, as in the views
    ax.xaxis.set_label_position("top")
    ax.spines[:].set(visible=True, color=RULE, linewidth=0.8)  # 0 is the ground
    rows, columns = weights.isnan().nonzero(as_tuple=True)
    if len(rows) > 0 and not numbers:  # without colour a cell would look as 0 does
        ax.plot(columns, rows, linestyle="", marker="x", color=CUT, markersize=6)
    if numbers:
        for row, line in enumerate(weights.tolist()):
            for column, value in enumerate(line):
                shade = image.cmap(image.norm(value))  # of NaN it is clear
                dark = shade[3] and palette.luminance(to_hex(shade)) < 0.18
                color = ON_STRONG if dark else ON_WEAK
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
    return ax


def hatch_zeros(ax: Axes, weights: Tensor | np.ndarray) -> Axes:
    """Cover cells whose weight is exactly 0: '0.00' may also be a small weight, rounded."""
    for row, line in enumerate((on_cpu(weights) == 0).tolist()):
        for hidden, cells in groupby(range(len(line)), key=line.__getitem__):
            first, *more = cells
            if hidden:
                corner = first - 0.5, row - 0.5
                ax.add_patch(Rectangle(corner, len(more) + 1, 1, zorder=4, **HATCHED))
    return ax


def show_heatmaps(
    matrices: Tensor | np.ndarray,
    xlabel: str,
    ylabel: str,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (2.5, 2.5),
    cmap: str | Colormap = CMAP,
) -> None:
    """A grid of heat maps under one colour bar (D2L's ``show_heatmaps``).

    Shape: matrices (rows, columns, Q, K). ``titles`` are those of the columns. NumPy drops the
    masks of masked arrays in a list: give ``np.ma.stack`` of them.

    All panels share one scale, that of ``heatmap``, so equal colours are equal weights. (D2L scales
    each panel on its own and shows the bar of the last.)

    Errors: ``ValueError`` where the matrices have not four axes or the titles do not fit.
    """
    matrices = on_cpu(matrices)
    if matrices.ndim != 4 or 0 in matrices.shape:
        raise ValueError(
            "matrices must have shape (rows, columns, Q, K), a weight or more, "
            f"got {tuple(matrices.shape)}"
        )
    rows, columns = matrices.shape[:2]
    if titles is not None and len(titles) != columns:
        raise ValueError(f"got {len(titles)} titles for {columns} columns")
    low, high = scale_of(matrices)
    figure, axes = plt.subplots(
        rows, columns, figsize=figsize, sharex=True, sharey=True, squeeze=False
    )
    for row in range(rows):
        for column in range(columns):
            ax = heatmap(axes[row, column], matrices[row, column], vmin=low, vmax=high, cmap=cmap)
            ax.tick_params("x", labeltop=row == 0)
            if row == 0:
                ax.set_xlabel(xlabel)
            if column == 0:
                ax.set_ylabel(ylabel)
            if titles is not None and row == 0:
                ax.set_title(titles[column])
    figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.6)


def compare_heatmaps(
    rows: Sequence[Sequence[Tensor | np.ndarray]],
    titles: Sequence[str],
    labels: Sequence[Sequence[str]],
    finding: str,
    row_titles: Sequence[str] = ("",),
) -> np.ndarray:
    """Small weight matrices of several sentences, with numbers, under one scale from 0 to 1.

    Where weights are negative, it begins with the lowest of all.

    ``rows`` holds a list of (n, n) weights for each row of the grid; the columns share
    ``titles`` and token ``labels``. ``finding`` is the title of the whole. Weights of exactly
    0 are hatched.

    Returns the grid of Axes.
    """
    size = (3.2 * len(titles) + 1.2, 2.7 * len(rows) + 1.0)
    figure, axes = plt.subplots(
        len(rows), len(titles), figsize=size, squeeze=False, layout="constrained"
    )
    low = min((scale_of(on_cpu(weights))[0] for line in rows for weights in line), default=0.0)
    # A panel has room for some twenty letters in a row.
    slant = 0 if all(len(" ".join(names)) <= 20 for names in labels) else 40
    for line, matrices, row_title in zip(axes, rows, row_titles, strict=True):
        for ax, weights, names in zip(line, matrices, labels, strict=True):
            heatmap(ax, weights, names, names, vmin=low, vmax=1.0, numbers=True)
            ax.tick_params("x", rotation=slant, labeltop=ax.get_subplotspec().is_first_row())
            ax.tick_params("y", labelleft=ax is line[0] or names != labels[0])
            hatch_zeros(ax, weights)
        line[0].set_ylabel(f"{row_title}\nquery".strip(), color=QUERY)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title)
        ax.set_xlabel("key", color=KEY)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.7, label="weight")
    figure.suptitle(finding, fontsize=17)
    return axes
