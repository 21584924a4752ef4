"""Still pictures of the views: what a page shows that runs no widget (GitHub, nbviewer).

Figures are made without pyplot, so that none is kept open behind the reader's back.
"""

import io
import warnings
from base64 import b64encode
from collections.abc import Sequence
from math import ceil

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from PIL import Image, ImageChops, ImageStat
from torch import Tensor

from d2l_attention.views.palette import GROUND, INK, KEY, QUERY
from d2l_attention.views.plots import SIDES, heatmap
from d2l_attention.views.words import ALL_LITERAL, angle_above, cut, set_tokens, turn_labels, whole

DPI = 100
SHARP = 2  # pixels for one of the display, each way: for dense screens and for projectors
MOST_OFF, MEAN_OFF = 16, 2  # of 255: what no eye sees


def draw_weights(
    weights: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    largest: float,
    panel_titles: Sequence[str],
    title: str,
    compare: Tensor | None = None,
) -> Figure:
    """Heat maps of some heads under one colour bar, at most four beside each other.

    Three or four heads whose labels are words stand in rows of two, where words can be read.

    Shape: weights (H, Q, K), compare (H, Q, K) or None; ``largest`` is the weight at the end
    of the scale, ``panel_titles`` has a title for each head.
    """
    num_heads, num_queries, num_keys = weights.shape
    longest_side = max(num_queries, num_keys)
    labelled = num_heads == 1 or longest_side <= 20
    two_by_two = num_heads in (3, 4) and labelled and _are_words(queries, keys)
    rows = 2 if two_by_two else ceil(num_heads / 4)
    columns = ceil(num_heads / rows)
    side = min(5.0, 0.55 * longest_side) if num_heads == 1 else 2.8 if two_by_two else 1.8
    width = side * num_keys / longest_side * columns + 2.8
    height = side * num_queries / longest_side * rows + 0.4 * rows + 1.6
    # Tokens such as '$' are text, not mathematics, and the titles may be made of tokens.
    with matplotlib.rc_context(ALL_LITERAL | {"font.size": 12}):
        figure = Figure(figsize=(max(width, 4.5), height), dpi=DPI, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        used = list(axes.flat[:num_heads])
        for ax in axes.flat[num_heads:]:
            ax.remove()
        for ax, matrix, panel_title in zip(used, weights, panel_titles, strict=True):
            heatmap(ax, matrix, vmin=0.0, vmax=largest, sides=None)
            ax.set(aspect="equal", title=whole(panel_title) if num_heads > 1 else "")
        points = min(12, 72 * side / longest_side) if num_heads == 1 or two_by_two else 8
        if labelled:
            _label(used, queries, keys, columns, points)
        else:
            used[0].set(xticks=[], yticks=[])
        if compare is not None:
            for ax, matrix in zip(used, compare, strict=True):
                _outline(ax, matrix / (compare.max() or 1.0), 2 if longest_side <= 20 else 0.8)
        figure.suptitle(whole(title))
        for ax in used[:columns]:
            ax.set_xlabel(SIDES[1], color=KEY)
        figure.supylabel(SIDES[0], color=QUERY)
        figure.colorbar(used[0].images[0], ax=used, label="weight", shrink=0.8)
    return figure


def _label(
    axes: list[Axes], queries: Sequence[str], keys: Sequence[str], columns: int, points: float
) -> None:
    """Write the tokens at the outer axes."""
    keys = [cut(key, 12) for key in keys]
    set_tokens(axes[0].xaxis, keys)
    set_tokens(axes[0].yaxis, [cut(query, 12) for query in queries])
    angle = angle_above(axes[0], keys, points)
    for ax in axes:
        ax.tick_params(labelsize=points)
        turn_labels(ax, angle)
    for i, ax in enumerate(axes):
        ax.tick_params(labeltop=i < columns)


def _are_words(*labels: Sequence[str]) -> bool:
    """Whether some label is too long to stand above a cell."""
    return any(len(label) > 3 for side in labels for label in side)


def _outline(ax: Axes, strength: Tensor, width: float) -> None:
    halo = withStroke(linewidth=2 * width, foreground=GROUND)  # to be seen on a large weight
    for query, key in strength.nonzero().tolist():
        corner = key - 0.45, query - 0.45
        box = Rectangle(corner, 0.9, 0.9, fill=False, linewidth=width, edgecolor=INK)
        box.set(alpha=strength[query, key].item(), path_effects=[halo])
        ax.add_patch(box)


def pixels(figure: Figure, *, math: bool = True, scale: float = SHARP) -> Image.Image:
    """The figure drawn with ``scale`` pixels for one of the display, each way."""
    figure.set_dpi(scale * DPI)
    # Some labels are made only now, so the setting that made the others must hold again. Hinting
    # is for coarse screens, and costs a tenth of the time.
    settings = {"text.parse_math": True} if math else ALL_LITERAL
    settings = settings | {"text.hinting": "no_hinting"}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        # Matplotlib's font lacks some scripts; the browser, which draws the view, has them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # Not savefig, which draws everything twice: once for the layout, once for the file.
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def png(figure: Figure, *, math: bool = True) -> bytes:
    """The figure as sharp PNG, the same from run to run. Without ``math``, '$' is a dollar."""
    return written(with_palette(pixels(figure, math=math)), optimize=True)


def written(picture: Image.Image, **options) -> bytes:
    """The picture as PNG, with Pillow's ``options``."""
    file = io.BytesIO()
    picture.save(file, "PNG", **options)
    return file.getvalue()


def with_palette(picture: Image.Image) -> Image.Image:
    """An RGB picture with 256 colours, a third of the bytes; as it was, where that would show."""
    reduced = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    difference = ImageChops.difference(picture, reduced.convert("RGB"))
    off = max(high for _, high in difference.getextrema())
    shows = off > MOST_OFF or max(ImageStat.Stat(difference).mean) > MEAN_OFF
    return picture if shows else reduced


def add_picture(bundle: tuple[dict, dict] | dict, data: bytes, text: str, alt: str):
    """A widget's mime bundle with the sharp picture that stands in for it and its description."""
    bundle, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    picture = {"text/plain": text, "image/png": b64encode(data).decode("ascii")}
    # As matplotlib's inline backend says it: how large the picture is on the page.
    width, height = (side // SHARP for side in Image.open(io.BytesIO(data)).size)
    shown = {"alt": alt, "width": width, "height": height}
    return bundle | picture, metadata | {"image/png": shown}
