"""Pictures of attention: every function draws on the Axes that it is given and returns it.

Weights are drawn from white (0) to dark (large): readable in grey and by the colour-blind.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from torch import Tensor

CMAP = "Blues"


def set_style() -> None:
    """Figures for a notebook that is also shown in a lecture room: large type, few lines."""
    plt.rcParams.update(
        {
            "figure.facecolor": "white",
            "figure.dpi": 80,
            "figure.constrained_layout.use": True,
            "font.size": 13,
            "axes.titlesize": 14,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "lines.linewidth": 2.5,
        }
    )


def heatmap(
    ax: Axes,
    weights: Tensor,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    vmin: float = 0.0,
    vmax: float | None = None,
    numbers: bool = False,
    cmap: str = CMAP,
) -> Axes:
    """Weights (Q, K) as a picture: a row for each query, a column for each key.

    ``queries`` and ``keys`` are token labels; ``numbers`` writes each weight in its cell.
    Give several panels of one figure the same ``vmin`` and ``vmax``.

    Errors: ``ValueError`` where the weights are no matrix or the labels do not fit.
    """
    if weights.ndim != 2:
        raise ValueError(f"weights must have shape (Q, K), got {tuple(weights.shape)}")
    weights = weights.detach().cpu().float().numpy()
    image = ax.imshow(weights, cmap=cmap, vmin=vmin, vmax=vmax, aspect="auto")
    for axis, labels, size in ((ax.yaxis, queries, 0), (ax.xaxis, keys, 1)):
        if labels is None:
            continue
        if len(labels) != weights.shape[size]:
            raise ValueError(f"got {len(labels)} labels for weights {tuple(weights.shape)}")
        axis.set_ticks(range(len(labels)), labels)
    ax.spines[:].set_visible(False)
    if numbers:
        for row, line in enumerate(weights.tolist()):
            for column, value in enumerate(line):
                dark = image.norm(value) > 0.6
                color = "white" if dark else "black"
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
    return ax


def show_heatmaps(
    matrices: Tensor,
    xlabel: str,
    ylabel: str,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (2.5, 2.5),
    cmap: str = "Reds",
) -> None:
    """A grid of heat maps under one colour bar (D2L's ``show_heatmaps``).

    Shape: matrices (rows, columns, Q, K). ``titles`` are those of the columns.

    All panels share one scale, so equal colours are equal weights. (D2L scales each panel on
    its own and shows the bar of the last.)

    Errors: ``ValueError`` where the matrices have not four axes or the titles do not fit.
    """
    if matrices.ndim != 4:
        raise ValueError(
            f"matrices must have shape (rows, columns, Q, K), got {tuple(matrices.shape)}"
        )
    rows, columns = matrices.shape[:2]
    if titles is not None and len(titles) != columns:
        raise ValueError(f"got {len(titles)} titles for {columns} columns")
    matrices = matrices.detach().cpu().float()
    figure, axes = plt.subplots(
        rows, columns, figsize=figsize, sharex=True, sharey=True, squeeze=False
    )
    low, high = min(0.0, matrices.min().item()), matrices.max().item()
    for row in range(rows):
        for column in range(columns):
            ax = heatmap(axes[row, column], matrices[row, column], vmin=low, vmax=high, cmap=cmap)
            if row == rows - 1:
                ax.set_xlabel(xlabel)
            if column == 0:
                ax.set_ylabel(ylabel)
            if titles is not None and row == 0:
                ax.set_title(titles[column])
    figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.6)
