"""A still picture of texts and tensors, each at its place in inches from the upper left corner."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon, Rectangle
from torch import Tensor

from d2l_attention.views.palette import GROUND, HATCHED, INK, ON_STRONG, ON_WEAK, TURN, ramp
from d2l_attention.views.picture import DPI
from d2l_attention.views.words import LITERAL, whole

TITLE, SMALL = 14, 10  # points
WHOLE = "int", "uint"  # how kinds of whole numbers begin


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

    def arrow(self, way: Sequence[tuple[float, float]], **style) -> None:
        """A line through these points, with a head at its end."""
        across, down = zip(*((x / self.width, 1 - y / self.height) for x, y in way), strict=True)
        self.figure.add_artist(Line2D(across, down, linewidth=1, zorder=-2, **style))
        x, y = way[-1]
        corners = [(x - 0.04, y - 0.07), (x + 0.04, y - 0.07), (x, y)]
        head = [(x / self.width, 1 - y / self.height) for x, y in corners]
        self.figure.add_artist(Polygon(head, linewidth=0, **style))

    def heat(
        self,
        place: tuple[float, float, float, float],
        matrix: Tensor,
        scale: tuple[float, float] | None = None,
        *,
        kind: str = "float32",
        numbers: bool = False,
        coloured: bool = False,
    ) -> Axes:
        """A matrix at ``place`` (x, y, width, height), as squares; what is not finite is hatched.

        The area of a square is the size of a number, filled above 0, hollow below. Whole numbers
        are written, True is a cell filled. Without a ``scale`` the largest square is the matrix's
        own. ``coloured`` are weights.
        """
        ax = self.figure.add_axes(self._inside(*place))
        cells, (R, C) = matrix.numpy().astype(float), matrix.shape
        mask, whole = kind == "bool", kind.startswith(WHOLE)
        numbers = not mask and (numbers or whole)
        squares = not (mask or whole or coloured)
        finite = cells[np.isfinite(cells)]
        low, high = (0, 1) if mask else scale or (finite.min(initial=0), finite.max(initial=0))
        shades = [GROUND, INK] if mask else ramp() if coloured else [GROUND]
        drawn = np.where(np.isfinite(cells), cells, low)
        limits = {"vmin": low, "vmax": high or 1.0, "interpolation": "nearest"}
        ax.imshow(drawn, cmap=ListedColormap(shades), aspect="auto", **limits)
        ax.set(xticks=[], yticks=[])
        ax.tick_params(length=0, labelsize=SMALL)
        wide, tall = place[2] / max(C, 1), place[3] / max(R, 1)  # inches of a cell
        most = 0.9 * min(tall, 0.3 * wide if numbers else wide)
        for (row, column), number in np.ndenumerate(cells):
            odd = not np.isfinite(number)
            if odd:
                box = Rectangle((column - 0.5, row - 0.5), 1, 1, **HATCHED)
                ax.add_patch(box).set_hatch("xxx" if np.isnan(number) else "///")
            elif squares and number:  # beside its number, if that is written
                side = most * min(1.0, abs(number) / max(-low, high)) ** 0.5
                across, down = side / wide, side / tall
                corner = column - 0.3 * numbers - across / 2, row - down / 2
                colour = INK if number > 0 else GROUND
                ax.add_patch(Rectangle(corner, across, down, facecolor=colour, edgecolor=INK))
            if numbers:
                dark = coloured and not odd and (number - low) / ((high - low) or 1) > TURN
                beside = squares and not odd
                style = {"ha": "center", "va": "center", "fontsize": min(9 - beside, 25 * wide)}
                words = ax.text(column + 0.12 * beside, row, in_digits(number), **style)
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
