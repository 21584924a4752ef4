"""Boxes, arrows and shapes: the pen with which the course's schematics are drawn.

All lengths are inches, so that a box can be made for its text; (0, 0) is the lower left corner.
What a box is can be read without colour: a tensor has round corners, a learned step a thick edge,
and so has the part that is marked; its name is in bold.
Queries, keys, values and weights have their colours, an output has two edges.
"""

import re
from itertools import pairwise
from math import dist
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text

from d2l_attention.views.palette import (
    FAINT,
    GROUND,
    INK,
    KEY,
    PALE,
    POSITION,
    QUERY,
    VALUE,
    WEIGHT,
)

DPI = 80
TITLE, TEXT, SHAPE = 16, 14, 13  # points
TENSOR, FIXED, LEARNED, NEW = "tensor", "fixed step", "learned step", "new row"
MARKED = "what the picture is about"
KINDS: dict[str, dict[str, Any]] = {
    TENSOR: {"facecolor": GROUND, "linewidth": 1.5},
    FIXED: {"facecolor": PALE, "linewidth": 1.5},
    LEARNED: {"facecolor": PALE, "linewidth": 3.5},
    NEW: {"facecolor": INK, "linewidth": 1.0},
    MARKED: {"facecolor": GROUND, "linewidth": 3.5},
}
ROLES = dict.fromkeys(("query", "queries", "q"), QUERY) | dict.fromkeys(("key", "keys", "k"), KEY)
ROLES |= dict.fromkeys(("value", "values", "v"), VALUE)
ROLES |= {"weights": WEIGHT, "positions": POSITION}

Point = tuple[float, float]


class Box(NamedTuple):
    """What an arrow begins or ends at. Where a line branches it has no width and no height."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def middle(self) -> Point:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2


class Diagram:
    """A figure with a title, on which boxes and arrows are put.

    ``boxes`` holds pairs of box and text, ``arrows`` the corners of each line.
    """

    def __init__(self, title: str, width: float, height: float):
        # By pyplot, which teaches a notebook to show figures; closed, or it would be shown twice.
        self.figure = plt.figure(figsize=(width, height), dpi=DPI, facecolor=GROUND)
        plt.close(self.figure)
        self.figure.set_layout_engine("none")  # everything has its place already
        self.ax = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
        self.ax.axis("off")
        self._write(title, width / 2, height - 0.28, TITLE)
        self.boxes: list[tuple[Box, Text]] = []
        self.arrows: list[list[Point]] = []
        self._kinds: set[str] = set()
        self._named: list[tuple[str, Patch]] = []  # what can be lit in a small copy

    def box(
        self,
        text: str,
        x: float,
        y: float,
        width: float,
        height: float = 0.75,
        *,
        kind: str = FIXED,
        copies: int = 1,
        size: int = TEXT,
    ) -> Box:
        """A box around (x, y); with ``copies`` the same one several times, each behind the next.

        Returns the box with all its copies: what arrows begin and end at.
        """
        corners = "round,pad=0,rounding_size=0.2" if kind == TENSOR else "square,pad=0"
        left, bottom = x - width / 2, y - height / 2
        for i in reversed(range(copies)):
            corner = left + 0.09 * i, bottom + 0.09 * i
            style = KINDS[kind] | {"edgecolor": _colour(text) if kind == TENSOR else INK}
            patch = FancyBboxPatch(corner, width, height, corners, **style)
            self.ax.add_patch(patch)
        self._named.append((_in_one_line(text), patch))
        if kind == TENSOR and text.startswith("output"):
            inner = (left + 0.05, bottom + 0.05), width - 0.1, height - 0.1
            self.ax.add_patch(FancyBboxPatch(*inner, corners, edgecolor=INK, fill=False))
        behind = 0.09 * (copies - 1)
        box = Box(left, bottom, left + width + behind, bottom + height + behind)
        written = self._write(text, x, y, size)
        written.set_fontweight("bold" if kind == MARKED else "normal")
        written.set_color(_colour(text) if kind == TENSOR else INK)
        self.boxes.append((box, written))
        self._kinds.add(kind)
        return box

    def cells(self, box: Box, number: int) -> None:
        """Rows of a tensor as small squares along the lower edge of its box; the last is new."""
        side = 0.2
        for i in range(number):
            kind = NEW if i == number - 1 else TENSOR
            corner = box.middle[0] + (i - number / 2) * side, box.bottom + 0.12
            style = KINDS[kind] | {"linewidth": 1.0, "edgecolor": INK}
            self.ax.add_patch(Rectangle(corner, side, side, **style))
            self._kinds.add(kind)

    def frame(self, text: str, left: float, bottom: float, right: float, top: float) -> None:
        """A thin line around several boxes, with what they are together in its lower left."""
        side, corner = (right - left, top - bottom), (left, bottom)
        style: dict[str, Any] = {"fill": False, "edgecolor": FAINT, "linestyle": "--"}
        patch = Rectangle(corner, *side, linewidth=1.2, zorder=0, **style)
        self._named.append((_in_one_line(text), self.ax.add_patch(patch)))
        self._write(text, left + 0.1, bottom + 0.2, SHAPE, ha="left")

    def lane(self, left: float, bottom: float, right: float, top: float) -> None:
        """A thin line around what happens to one token: not dashed, as the frame of a block is."""
        style: dict[str, Any] = {"fill": False, "edgecolor": FAINT}
        size = right - left, top - bottom
        self.ax.add_patch(Rectangle((left, bottom), *size, linewidth=1.2, zorder=0, **style))

    def link(self, start: Point, end: Point) -> None:
        """A thin arrow, straight and oblique, in the colour of weights: one token looks at one."""
        line: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 12, "linewidth": 1.5}
        self.ax.add_patch(FancyArrowPatch(start, end, color=WEIGHT, zorder=1, shrinkB=0, **line))

    def branch(self, x: float, y: float) -> Box:
        """A dot on a line, from which a further arrow may begin."""
        self.ax.plot(x, y, marker="o", markersize=7, color=INK)
        return Box(x, y, x, y)

    def arrow(
        self,
        start: Box,
        end: Box,
        label: str = "",
        *,
        x: float | None = None,
        y: float | None = None,
    ) -> None:
        """An arrow from border to border: straight where it can be, else right and then up or down.

        To a box on the left it goes up or down first.

        Lines meet the middle of a box; ``x`` moves an upright one, ``y`` the level one that leaves.
        The label is above the longest piece where that is level, right of it where it is upright.
        """
        corners = _route(start, end, x, y)
        line: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 16, "linewidth": 1.8}
        # Above the boxes: the tip lies on a border.
        self.ax.add_patch(FancyArrowPatch(path=Path(corners), color=INK, zorder=2, **line))
        self.arrows.append(corners)
        if label:
            (x0, y0), (x1, y1) = max(pairwise(corners), key=lambda piece: dist(*piece))
            x, y = (x0 + x1) / 2, (y0 + y1) / 2
            if y0 == y1:
                written = self._write(label, x, y + 0.07, SHAPE, va="bottom")
            else:
                written = self._write(label, x + 0.07, y, SHAPE, ha="left")
            written.set_color(_colour(label))

    def _write(
        self, text: str, x: float, y: float, size: int, ha: str = "center", va: str = "center"
    ) -> Text:
        return self.ax.text(x, y, text, fontsize=size, color=INK, ha=ha, va=va)

    def shrink(self, lit: str, height: float = 1.6) -> None:
        """Make it a small guide with one word, ``lit``: these boxes, or this frame, are dark.

        Errors: ``ValueError`` where nothing has this name; it lists the names that there are.
        """
        if lit not in dict(self._named):
            raise ValueError(f"nothing is called {lit!r}; there are {sorted(dict(self._named))}")
        for text in list(self.ax.texts):
            text.remove()
        for patch in self.ax.patches:
            patch.set(edgecolor=FAINT, linewidth=0.8)
            if isinstance(patch, FancyArrowPatch):
                patch.set(color=FAINT, mutation_scale=5)
        for dot in self.ax.lines:
            dot.set(markersize=2, color=FAINT)
        for name, patch in self._named:
            if name == lit and patch.get_fill():
                patch.set(facecolor=INK, edgecolor=INK)
            elif name == lit:
                patch.set(edgecolor=INK, linewidth=2.5, linestyle="-")
        left, bottom, right, top = self.ax.dataLim.padded(0.1).extents
        self.ax.set(xlim=(left, right), ylim=(bottom, top))
        self.ax.set_title(lit, fontsize=9)
        self.figure.set_size_inches(height * (right - left) / (top - bottom), height)

    def add_legend(self) -> None:
        """Say below what the kinds of boxes mean. To be called once, at the end."""
        used = [kind for kind in KINDS if kind in self._kinds - {MARKED}]
        samples = [Patch(**KINDS[kind], edgecolor=INK, label=kind) for kind in used]
        style: dict[str, Any] = {
            "frameon": False,
            "fontsize": SHAPE,
            "borderpad": 0,
            "labelcolor": INK,
        }
        self.ax.legend(handles=samples, loc="lower right", ncols=max(1, len(used)), **style)


def _in_one_line(text: str) -> str:
    return text.replace("-\n", "-").replace("\n", " ")


def _colour(text: str) -> str:
    """That of the one role in its first line, else ink."""
    words = re.findall(r"\w+", text.partition("\n")[0])
    roles = [ROLES[word] for word in words if word in ROLES]
    return roles[0] if len(roles) == 1 else INK


def _route(start: Box, end: Box, x: float | None, y: float | None) -> list[Point]:
    """The corners of the line between two boxes."""
    smaller = min(start, end, key=lambda box: box.top - box.bottom)
    level = smaller.middle[1] if y is None else y
    if max(start.bottom, end.bottom) <= level <= min(start.top, end.top):
        return [(start.right, level), (end.left, level)]
    smaller = min(start, end, key=lambda box: box.right - box.left)
    upright = smaller.middle[0] if x is None else x
    leave, enter = (start.bottom, end.top) if end.top < start.bottom else (start.top, end.bottom)
    if max(start.left, end.left) <= upright <= min(start.right, end.right):
        return [(upright, leave), (upright, enter)]
    if end.right < start.left:
        upright, level = start.middle[0], end.middle[1]
        leave = start.bottom if level < start.bottom else start.top
        return [(upright, leave), (upright, level), (end.right, level)]
    level, upright = start.middle[1] if y is None else y, end.middle[0]
    return [(start.right, level), (upright, level), (upright, enter)]
