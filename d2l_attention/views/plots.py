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
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, to_hex
from matplotlib.patches import Rectangle
from matplotlib_inline.backend_inline import set_matplotlib_formats
from torch import Tensor

from d2l_attention.views import palette
from d2l_attention.views.palette import (
    CUT,
    GROUND,
    HATCHED,
    INK,
    KEY,
    ON_STRONG,
    ON_WEAK,
    QUERY,
    RULE,
)
from d2l_attention.views.words import angle_above, set_tokens, turn_labels

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


SIDES = "queries", "keys"  # what the rows and the columns of weights are


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
    sides: tuple[str, str] | None = SIDES,
) -> Axes:
    """Weights (Q, K) as a picture: a row for each query, a column for each key.

    ``queries`` and ``keys`` are token labels, and are written as they are: a '$' begins no
    formula. ``numbers`` writes each weight in its cell. ``sides`` name rows and columns, in the
    colours of their roles, once in a row or column of panels. ``None`` names nothing.
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
    if keys is not None:
        turn_labels(ax, angle_above(ax, keys))
    if sides is not None:
        name_sides(ax, *sides)
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


def name_sides(ax: Axes, rows: str, columns: str) -> Axes:
    """Write what rows and columns are, unless a panel beside this one or above it has said so."""
    mine = ax.get_subplotspec()
    panels = [(each, each.get_subplotspec()) for each in ax.figure.axes if mine and each is not ax]
    panels = [(each, place) for each, place in panels if place is not None]
    left = [each for each, place in panels if place.rowspan == mine.rowspan]
    above = [each for each, place in panels if place.colspan == mine.colspan]
    if rows not in [each.get_ylabel() for each in left]:
        ax.set_ylabel(rows, color=QUERY)
    if columns not in [each.get_xlabel() for each in above]:
        ax.set_xlabel(columns, color=KEY, labelpad=7)
    return ax


def squares(
    ax: Axes, numbers: Tensor | np.ndarray, rows: Sequence[str] | None = None, color: str = INK
) -> Axes:
    """Numbers (R, C) of both signs, a square for each: filled above 0, hollow below, 0 is none.

    The area is the size; the largest fills its cell. ``rows`` are labels.
    """
    numbers = on_cpu(numbers)
    R, C = numbers.shape
    halves = 0.42 * (numbers.abs() / (numbers.abs().max() or 1.0)).sqrt()
    around = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    boxes = [(j, i) + halves[i, j].item() * around for i in range(R) for j in range(C)]
    fills = [color if number > 0 else GROUND for number in numbers.flatten().tolist()]
    ax.add_collection(PolyCollection(boxes, facecolors=fills, edgecolors=color, linewidths=0.8))
    ax.set(xlim=(-0.5, C - 0.5), ylim=(R - 0.5, -0.5), aspect="equal")
    if rows is not None:
        set_tokens(ax.yaxis, rows)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.spines[:].set(visible=True, color=RULE, linewidth=0.8)
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
            looks = {"vmin": low, "vmax": high, "cmap": cmap, "sides": (ylabel, xlabel)}
            ax = heatmap(axes[row, column], matrices[row, column], **looks)
            ax.tick_params("x", labeltop=row == 0)
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
    size = (3.3 * len(titles) + 1.2, 2.7 * len(rows) + 1.0)
    figure, axes = plt.subplots(
        len(rows), len(titles), figsize=size, squeeze=False, layout="constrained"
    )
    low = min((scale_of(on_cpu(weights))[0] for line in rows for weights in line), default=0.0)
    slant = max(angle_above(ax, names) for ax, names in zip(axes[0], labels, strict=True))
    for line, matrices, row_title in zip(axes, rows, row_titles, strict=True):
        for ax, weights, names in zip(line, matrices, labels, strict=True):
            heatmap(ax, weights, names, names, vmin=low, vmax=1.0, numbers=True)
            turn_labels(ax, slant)
            ax.tick_params("x", labeltop=ax.get_subplotspec().is_first_row())
            ax.tick_params("y", labelleft=ax is line[0] or names != labels[0])
            hatch_zeros(ax, weights)
        line[0].set_ylabel(f"{row_title}\n{SIDES[0]}".strip(), color=QUERY)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.7, label="weight")
    figure.suptitle(finding, fontsize=17)
    return axes
