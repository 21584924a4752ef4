"""A computation as a few drawn states that one steps through: numbers fly to their new cells."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from matplotlib.patches import Polygon
from PIL import Image
from torch import Tensor
from traitlets import Int, Unicode, validate

from d2l_attention.views.palette import COLOURS, NUM_COLOURS, TURN, ramp
from d2l_attention.views.picture import pixels, written
from d2l_attention.views.sheet import Sheet
from d2l_attention.views.view import View, script, styled, within
from d2l_attention.views.words import whole

# Form, fill, edge and letters, as palette.py names them; a weight's fill is its place on the ramp.
KINDS = {
    "plain": ("box", "ground", "rule", "ink"),
    "label": ("left", "ground", "ground", "ink"),
    "head": ("none", "ground", "ground", "ink"),
    "query": ("round", "ground", "role-query", "role-query"),
    "key": ("box", "ground", "role-key", "role-key"),
    "value": ("diamond", "ground", "role-value", "role-value"),
    "weight": ("box", "ground", "role-weight", "on-weak"),
    "output": ("double", "ground", "role-output", "role-output"),
    "ghost": ("dashed", "ground", "rule", "faint"),
    "frame": ("frame", "ground", "ink", "ink"),
    "done": ("box", "ink", "ink", "ground"),
    # Four tokens that move about.
    "shade 0": ("box", "pale", "faint", "ink"),
    "shade 1": ("box", "rule", "faint", "ink"),
    "shade 2": ("box", "faint", "faint", "ground"),
    "shade 3": ("box", "ink", "faint", "ground"),
}
MARGINS = {"none": 0, "round": 0.35, "double": 0.35}  # beside letters; else 0.1
LETTERS, GAP, UNIT, WIDEST = 0.4, 0.04, 0.36, 12.0  # in units; the last two of the still in inches
SHARPNESS = 1.25  # pixels of the still for one of the display
# What a page's style says: of the box, and of the letters in it.
MORE = {"frame": "fill: none; stroke-width: 0.09", "dashed": "stroke-dasharray: 0.08"}
STYLES = {
    kind: (
        f"fill: var(--{fill}); stroke: var(--{edge}); stroke-width: 0.04; {MORE.get(form, '')}",
        f"fill: var(--{letters}); text-anchor: {'start' if form == 'left' else 'middle'}",
    )
    for kind, (form, fill, edge, letters) in KINDS.items()
}


@dataclass(frozen=True)
class Cell:
    """A text in a box; its corner and size count in units, the height of a line of numbers."""

    text: str
    x: float
    y: float
    w: float
    h: float
    kind: str
    size: float  # of its letters
    id: tuple[str, int, int] | None = None
    origin: str = ""
    level: int = 0


@dataclass(frozen=True)
class State:
    """What is found, one sentence about it, and the cells of its grids."""

    title: str
    words: str
    cells: Sequence[Cell]


def grid(
    rows, x, y, kind="plain", *, name="", origin="", label="", width=1.0, height=1.0, digits=2
) -> list[Cell]:
    """Numbers or words (R, C) or (C,) as cells, row below row from the corner (``x``, ``y``).

    With a ``name`` a cell flies to where the next state's grid of this name has its row and column
    (a list of lists of names: one for each cell). ``origin`` names a grid of the state before from
    which new cells come, each from those of its row and column: a sum from all that it sums.
    ``kind`` is one of ``KINDS`` or a list of lists, ``label`` stands at the left, from 0 on.

    Errors: ``ValueError`` for a kind that there is not, a weight that is none.
    """
    rows = rows.detach().cpu().tolist() if isinstance(rows, Tensor) else rows
    rows = rows if isinstance(rows, list | tuple) else [rows]
    rows = rows if rows and isinstance(rows[0], list | tuple) else [rows]
    middle = y + (len(rows) - 1) * height / 2
    cells = [Cell(whole(label), 0, middle, x, height, "label", LETTERS)] if label else []
    texts = [[as_text(entry, digits) for entry in row] for row in rows]
    longest = max(len(text) for row in texts for text in row)
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            one, each = (its if isinstance(its, str) else its[i][j] for its in (kind, name))
            if one not in KINDS:
                raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {one!r}")
            if one == "weight" and not (isinstance(entry, float | int) and 0 <= entry <= 1):
                raise ValueError(f"a weight must be a number from 0 to 1, got {entry!r}")
            level = round(entry * (NUM_COLOURS - 1)) if one == "weight" else 0
            place = (each, i, j) if each == name else (each, 0, 0)
            box = round(x + j * width, 3), round(y + i * height, 3), width, height, one
            fits = (width - MARGINS.get(KINDS[one][0], 0.1)) / (0.62 * max(1, longest))
            if KINDS[one][0] == "diamond":  # what is wide is low
                inside = width - 2 * GAP, height - 2 * GAP
                fits = 0.95 / (0.62 * max(1, longest) / inside[0] + 0.75 / inside[1])
            size = LETTERS if one == "label" else round(min(LETTERS, 0.6 * height, fits), 3)
            cells.append(Cell(texts[i][j], *box, size, place if each else None, origin, level))
    return cells


def as_text(entry: Any, digits: int = 2) -> str:
    """A word as it is, a whole number whole, another with so many digits."""
    if isinstance(entry, str):
        return whole(entry)
    if not math.isfinite(entry):
        return "NaN" if math.isnan(entry) else "∞" if entry > 0 else "−∞"
    text = f"{entry:d}" if isinstance(entry, int) else f"{entry:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


class Player(View):
    """Steps through ``states``; ``step``, from 0, is what is shown, and may be set and linked.

    Errors: ``ValueError`` for no states, two cells of one name in a state, an origin that the state
    before does not have; ``TypeError`` for what is no ``State``.
    """

    _esm = script("renderPlayer", "player.js")
    _css = styled("player.css")

    step = Int(0).tag(sync=True)
    # Numbers travel as text: a saved notebook would give each entry of a list its own line.
    states_text = Unicode().tag(sync=True)

    def __init__(self, states: Sequence[State]):
        self.states = list(states)
        if not self.states:
            raise ValueError("states must have a state, got none")
        for state in self.states:
            if not isinstance(state, State):
                raise TypeError(f"states must be a list of State, got {type(state).__name__}")
        cells = [cell for state in self.states for cell in state.cells]
        self._size = max(c.x + c.w for c in cells), max(c.y + c.h for c in cells)
        shapes = list(dict.fromkeys((cell.kind, cell.w, cell.h) for cell in cells))
        sent = {
            "size": self._size,
            "styles": STYLES,
            "shapes": [(*shape, outlines(*shape)) for shape in shapes],
            "states": _sent(self.states, shapes),
        }
        alt = " ".join(f"{n}. {s.title}: {s.words}" for n, s in enumerate(self.states, start=1))
        super().__init__(states_text=json.dumps(sent, ensure_ascii=False), alt=alt)

    @validate("step")
    def _step_exists(self, proposal):
        return within("step", proposal["value"], 0, len(self.states) - 1)

    def __repr__(self) -> str:
        return f"Player({len(self.states)} states)"

    def still(self) -> bytes:
        """All states beside each other as a PNG, for a page that runs no widget."""
        width, height = (side * UNIT for side in self._size)
        most = max(1, int(WIDEST / (width + 0.3)))
        columns = math.ceil(len(self.states) / math.ceil(len(self.states) / most))
        letters = int(width * 72 / 6.2)  # so many of 11 points in a line
        texts = [
            (wrap(whole(s.title), letters), wrap(whole(s.words), letters)) for s in self.states
        ]
        above, below = (0.2 * max(len(pair[i]) for pair in texts) + 0.1 for i in (0, 1))
        panel, rows = above + height + below + 0.3, math.ceil(len(texts) / columns)
        sheet = Sheet(columns * (width + 0.3), rows * panel)
        ax = sheet.figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, sheet.width), ylim=(sheet.height, 0))
        ax.axis("off")
        for number, (state, (title, words)) in enumerate(zip(self.states, texts, strict=True)):
            left, top = number % columns * (width + 0.3) + 0.15, number // columns * panel + 0.1
            for i, line in enumerate(title):
                sheet.text(left, top + 0.2 * i + 0.1, line, fontsize=11, fontweight="bold")
            for i, line in enumerate(words):
                sheet.text(left, top + above + height + 0.2 * i + 0.15, line, fontsize=11)
            for cell in state.cells:
                _draw(sheet, ax, cell, left, top + above)
        # So many small letters: as many pixels, and as few colours, as the eye needs.
        picture = pixels(sheet.figure, math=False, scale=SHARPNESS)
        few = picture.quantize(32, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        return written(few, optimize=True)


def _sent(states: Sequence[State], shapes: list[tuple]) -> list[dict]:
    """What the page draws; each cell that is new with the cells that it comes from."""
    sent, before = [], {}
    for number, state in enumerate(states, start=1):
        named = {cell.id: cell for cell in state.cells if cell.id}
        if len(named) < sum(cell.id is not None for cell in state.cells):
            raise ValueError(f"state {number}: two cells must not have the same name and place")
        cells = []
        for cell in state.cells:
            start = [cell.id] if cell.id in before else _origins(cell, before, named, number)
            shape = shapes.index((cell.kind, cell.w, cell.h))
            look = cell.text, cell.x, cell.y, shape, cell.size, cell.level
            cells.append((*look, _key(cell.id), [_key(each) for each in start]))
        head = {"title": whole(state.title), "words": whole(state.words), "said": _in_words(state)}
        sent.append(head | {"cells": cells})
        before = named
    return sent


def _origins(cell: Cell, before: dict, named: dict, number: int) -> list[tuple]:
    found = [key for key in before if key[0] == cell.origin]
    if cell.origin and not found and number > 1:
        raise ValueError(f"state {number}: no cell of the state before is named {cell.origin!r}")
    for axis in (1, 2):  # as in broadcasting: an axis of size 1 fits all
        mine = {key[axis] for key in named if cell.id and key[0] == cell.id[0]}
        if len(mine) > 1 and len({key[axis] for key in found}) > 1:
            found = [key for key in found if key[axis] == cell.id[axis]]
    return found


def _key(place: tuple | None) -> str:
    return " ".join(map(str, place)) if place else ""


def _in_words(state: State) -> str:
    """Each label with the numbers behind it."""
    parts = []
    for cell in state.cells:
        if cell.kind == "label" or not parts:
            parts.append(cell.text)
        elif cell.text:
            parts[-1] += f" {cell.text}"
    return "; ".join(part for part in parts if part)


def outlines(kind: str, w: float, h: float) -> list[list[tuple[float, float]]]:
    """The corners of a kind's form in its box: of one polygon, of two, or of none."""
    form = KINDS[kind][0]
    if form in ("left", "none"):
        return []

    if form == "round":
        turns = [math.pi * i / 12 for i in range(24)]
        across, down = (round(side / 2 - GAP, 3) for side in (w, h))
        at = [(across * (1 + math.cos(turn)), down * (1 + math.sin(turn))) for turn in turns]
        return [[(round(GAP + x, 3), round(GAP + y, 3)) for x, y in at]]
    if form == "diamond":
        return [[(GAP, h / 2), (w / 2, GAP), (w - GAP, h / 2), (w / 2, h - GAP)]]
    insets = (GAP, GAP + 0.07) if form == "double" else (GAP,)
    return [[(d, d), (w - d, d), (w - d, h - d), (d, h - d)] for d in insets]


def _draw(sheet: Sheet, ax, cell: Cell, left: float, top: float) -> None:
    """The cell in the still, as player.js draws it."""
    form, *names = KINDS[cell.kind]
    fill, edge, letters = (COLOURS[name][0] for name in names)
    if cell.kind == "weight":
        fill = ramp()[cell.level]
        letters = COLOURS["on-strong" if cell.level > TURN * (NUM_COLOURS - 1) else "on-weak"][0]
    style = {"facecolor": fill, "edgecolor": edge, "linewidth": 1.0}
    more = {"frame": {"fill": False, "linewidth": 2.5}, "dashed": {"linestyle": ":"}}
    style |= more.get(form, {})
    x, y = left + cell.x * UNIT, top + cell.y * UNIT
    for corners in outlines(cell.kind, cell.w, cell.h):
        ax.add_patch(Polygon([(x + a * UNIT, y + b * UNIT) for a, b in corners], **style))
    middle, side = (GAP, "left") if form == "left" else (cell.w / 2, "center")
    points = cell.size * UNIT * 72
    place = x + middle * UNIT, y + cell.h / 2 * UNIT
    sheet.text(*place, cell.text, fontsize=points, ha=side, color=letters)
