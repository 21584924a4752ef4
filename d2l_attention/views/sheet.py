"""A still picture of texts and tensors, each at its place in inches from the upper left corner."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from d2l_attention.views import palette
from d2l_attention.views.palette import GROUND, HATCHED, INK, ON_STRONG, ON_WEAK, TURN
from d2l_attention.views.picture import DPI
from d2l_attention.views.words import LITERAL, whole

TITLE, SMALL = 14, 10  # points


class Sheet:
    """A figure that is filled piece by piece. Words are written letter by letter."""

    def __init__(self, width: float, height: float):
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), dpi=DPI, layout="none")

    def text(self, x: float, y: float, words: str, **style) -> None:
        place = x / self.width, 1 - y / self.height
        style = LITERAL | {"fontsize": 12, "va": "center"} | style
        self.figure.text(*place, whole(words), **style)

    def box(self, x: float, y: float, width: float, height: float, **style) -> None:
        left, bottom, *size = self._inside(x, y, width, height)
        self.figure.add_artist(Rectangle((left, bottom), *size, zorder=-1, **style))

    def heat(
        self,
        place: tuple[float, float, float, float],
        matrix: Tensor,
        scale: tuple[float, float] | None = None,
        *,
        numbers: bool = False,
    ) -> Axes:
        """A matrix at ``place`` (x, y, width, height); what is not finite is hatched.

        Without a ``scale`` its own smallest and largest number are the ends, and zero is between.
        """
        ax = self.figure.add_axes(self._inside(*place))
        cells, mask = matrix.numpy(), matrix.numpy().dtype == bool
        finite = cells[np.isfinite(cells)]
        low, high = (0, 1) if mask else scale or (finite.min(initial=0), finite.max(initial=0))
        colours = ListedColormap([GROUND, INK]) if mask else palette.colormap()
        drawn = np.where(np.isfinite(cells), cells, low)
        limits = {"vmin": low, "vmax": high or 1.0, "interpolation": "nearest"}
        ax.imshow(drawn, cmap=colours, aspect="auto", **limits)
        ax.set(xticks=[], yticks=[])
        ax.tick_params(length=0, labelsize=SMALL)
        for (row, column), number in np.ndenumerate(cells):
            odd = not np.isfinite(number)
            if odd:
                box = Rectangle((column - 0.5, row - 0.5), 1, 1, **HATCHED)
                ax.add_patch(box).set_hatch("xxx" if np.isnan(number) else "///")
            if numbers and not mask:
                dark = not odd and (number - low) / ((high - low) or 1) > TURN
                style = {"ha": "center", "va": "center", "fontsize": 9}
                words = ax.text(column, row, in_digits(number), **style)
                words.set_color(ON_STRONG if dark else ON_WEAK)
                if odd:
                    words.set_bbox({"facecolor": GROUND, "edgecolor": "none", "pad": 0.5})
        return ax

    def _inside(self, x: float, y: float, width: float, height: float):
        left, bottom = x / self.width, 1 - (y + height) / self.height
        return left, bottom, width / self.width, height / self.height


def in_digits(number: float) -> str:
    """As in the browser: short, and never 0 for what is not 0."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else str(number)
    if number == int(number) and abs(number) < 1e5:
        return str(int(number))
    if 0.005 <= abs(number) < 1000:
        return f"{number:.2f}"
    return f"{number:.0e}".replace("e+0", "e").replace("e-0", "e-")
