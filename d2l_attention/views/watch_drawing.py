"""What a run looks like: as compact text for the browser, and as a still picture."""

import json
import math
import textwrap
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from d2l_attention.views.palette import CUT, FAINT, INK, PALE, RULE
from d2l_attention.views.recorder import Recording, Step
from d2l_attention.views.sheet import TITLE, Sheet
from d2l_attention.views.values import DICTS, drawable
from d2l_attention.views.words import cut

SIDE = 24  # rows and columns of a matrix that are drawn
MOST_TEXT = 300_000  # characters of numbers in a notebook
LARGE = 1e6  # numbers of this size do not stretch a scale that others have
CHARACTERS = 7  # of a number, with the space behind it
# Matrices of a tensor and their sides that are sent: the first that stay below MOST_TEXT.
SIZES = ((16, SIDE), (4, SIDE), (1, SIDE), (1, 12), (1, 6), (0, 0))
MOST_PANELS = 6  # of a still picture
WIDEST_LINE = 72
BRACKETS = {list: "[]", tuple: "()", set: "{}"} | dict.fromkeys(DICTS, "{}")
BRACKETS |= {frozenset: ("frozenset({", "})"), deque: ("deque([", "])")}
COLUMN = 26  # letters of a name and its value, side by side
LINE, PANEL = 0.25, (2.4, 1.75)  # inches: a line, and a tensor with its name


def matrices(tensor: Tensor, most: int, side: int) -> Tensor:
    """The first ``most`` matrices (n, R, C) of a tensor, cut at ``side``."""
    rows = tensor if tensor.ndim > 1 else tensor[None]
    return rows.reshape(-1, *rows.shape[-2:])[:most, :side, :side]


def in_words(value: Any, depth: int = 3) -> str:
    """A value in a few words: a shape, a number, a short text, the shapes in a list."""
    if getattr(value, "is_nested", False) is True:
        return "a nested tensor"
    if isinstance(value, Tensor | np.ndarray):
        if tuple(value.shape):
            return str(tuple(value.shape))
        try:
            value = value.item()
        except RuntimeError:  # on meta, fake, inside vmap: it has no number, or has several
            return "()"
    if type(value) is set and not value:
        return "set()"  # {} is a dict
    if type(value) in BRACKETS and depth:
        start, end = BRACKETS[type(value)]
        if type(value) in DICTS:
            entries = [f"{key!r}: {in_words(value[key], depth - 1)}" for key in list(value)[:6]]
        elif type(value) in (set, frozenset):  # their own order is another one in each process
            entries = sorted(in_words(entry, depth - 1) for entry in value)[:6]
        else:
            entries = [in_words(entry, depth - 1) for entry in islice(value, 6)]
        more = [f"... {len(value)} in all"] if len(value) > 6 else []
        return start + ", ".join(entries + more) + end
    if isinstance(value, float):
        return f"{value:.4g}"
    if type(value) in (int, bool, complex, str, type(None), slice, range, torch.Size):
        return cut(repr(value), 60)
    name = getattr(value, "__name__", None)
    return f"{type(value).__name__} {name}" if isinstance(name, str) else type(value).__name__


def scales(*recordings: Recording) -> dict[str, tuple[float, float]]:
    """For each name the smallest and the largest finite number that it ever holds."""
    found: dict[str, tuple[float, float]] = {}
    changes = (step.changed.items() for run in recordings for step in run.steps)
    for name, value in (change for items in changes for change in items):
        tensor = drawable(value)
        if tensor is None or tensor.dtype == torch.bool or not tensor.isfinite().any():
            continue
        finite = tensor[tensor.isfinite()]
        # Beside a score of -1e9, which is as good as -inf, all others would have one colour.
        usual = finite[finite.abs() < LARGE]
        finite = usual if usual.numel() else finite
        # Zero is on the scale: the lightest colour of weights means nothing else.
        low, high = found.get(name, (0.0, 0.0))
        found[name] = min(low, finite.min().item()), max(high, finite.max().item())
    return found


def as_text(recording: Recording, scale: Mapping[str, tuple], axes: Mapping[str, str]) -> str:
    """The run as JSON for watch.js. What is too much is sent in part."""
    held = [drawable(value) for step in recording.steps for value in step.changed.values()]
    tensors = [tensor for tensor in held if tensor is not None]

    def length(size: tuple[int, int]) -> int:
        return CHARACTERS * sum(matrices(tensor, *size).numel() for tensor in tensors)

    most, side = next(size for size in SIZES if length(size) <= MOST_TEXT)
    values: dict[str, int] = {}
    steps = [_step(step, values, most, side, recording) for step in recording.steps]
    listings = [[each.name, list(each.lines.items())] for each in recording.listings]
    run = {
        "listings": listings,
        "steps": steps,
        "values": [json.loads(text) for text in values],
        "scales": {name: [float(f"{end:.4g}") for end in ends] for name, ends in scale.items()},
        "axes": dict(axes),
        "note": recording.note,
    }
    return json.dumps(run, separators=(",", ":"))


def _step(step: Step, values: dict[str, int], most: int, side: int, recording: Recording) -> dict:
    """One step; its values are numbered, and equal ones are sent once."""
    changed = {}
    for name, value in step.changed.items():
        text = json.dumps(_value(value, most, side), separators=(",", ":"))
        changed[name] = values.setdefault(text, len(values))
    found = {
        "f": recording.listings.index(step.listing),
        "n": step.call,
        "d": step.depth,
        "l": step.line,
        "c": changed,
        "names": " ".join(step.names),
    }
    found |= {"i": step.in_place} if step.in_place else {}
    return found | ({"e": step.error} if step.error else {})


def _value(value: Any, most: int, side: int) -> dict:
    tensor = drawable(value)
    if tensor is None:
        return {"t": in_words(value)}
    sent = matrices(tensor, most, side)
    numbers = [f"{number:.4g}" for number in sent.double().flatten().tolist()]
    kind = str(value.dtype).removeprefix("torch.")
    return {"s": list(value.shape), "d": kind, "m": list(sent.shape), "x": " ".join(numbers)}


def shape_words(shape: tuple[int, ...], letters: str = "") -> str:
    """``(2, 5)``; with letters for its axes, ``Q 2, K 5``."""
    if len(letters) == len(shape):
        return ", ".join(f"{letter} {size}" for letter, size in zip(letters, shape, strict=True))
    return str(tuple(shape))


class Page:
    """A step as a still picture: the source on the left, the names on the right.

    Lengths are in inches; ``scale`` holds the ends of the colours of each name.
    """

    def __init__(self, recording: Recording, at: int, scale: Mapping, axes: Mapping, title: str):
        self.step, self.scale, self.axes, self.title = recording.steps[at], scale, axes, title
        lines = list(self.step.listing.lines.items())
        now = next((i for i, (line, _) in enumerate(lines) if line == self.step.line), 0)
        first = max(0, min(now - 10, len(lines) - 20))
        self.lines = lines[first : first + 20]
        longest = min(max(len(text) for _, text in self.lines), WIDEST_LINE)
        # The newest names first, and of those the ones that the line changed.
        names = sorted(reversed(self.step.names), key=lambda name: name not in self.step.changed)
        tensors = {name: drawable(self.step.names[name]) for name in names}
        drawn = [name for name in names if tensors[name] is not None][:MOST_PANELS]
        self.tensors = {name: tensors[name] for name in drawn}
        self.others = [name for name in names if name not in drawn]
        self.error = textwrap.wrap(self.step.error or "", int(longest * 1.1) + 4)
        self.left = 0.105 * longest + 1.0
        self.width = self.left + 2 * PANEL[0] + 0.8
        self.below = 0.75 + math.ceil(len(self.tensors) / 2) * PANEL[1]
        source = (len(self.lines) + len(self.error)) * LINE
        self.height = max(source + 1.0, self.below + math.ceil(len(self.others) / 2) * LINE + 0.25)

    def draw(self, sheet: Sheet, top: float) -> None:
        sheet.text(0.2, top + 0.3, self.title, fontsize=TITLE)
        for i, (line, text) in enumerate(self.lines):
            y, here = top + 0.7 + LINE * i, line == self.step.line
            if here:
                band = {"facecolor": PALE, "edgecolor": INK}
                sheet.box(0.1, y - LINE / 2, self.left - 0.2, LINE, **band)
            mono = {"family": "monospace"}
            sheet.text(0.6, y, str(line), ha="right", color=FAINT, **mono)
            words = cut(text.expandtabs(4), WIDEST_LINE)  # no font has a tab
            sheet.text(0.75, y, words, weight="bold" if here else None, **mono)
        for i, words in enumerate(self.error, start=len(self.lines)):
            sheet.text(0.2, top + 0.75 + LINE * i, words, color=CUT)
        across, down = PANEL
        for i, (name, tensor) in enumerate(self.tensors.items()):
            x, y = self.column(i), top + 0.7 + down * (i // 2)
            matrix = matrices(tensor, 1, SIDE)[0]
            few = matrix.shape[0] <= 8 and matrix.shape[1] <= 6
            scale, place = self.scale.get(name, (0.0, 1.0)), (x, y + 0.15, across, down - 0.6)
            kind = str(self.step.names[name].dtype).removeprefix("torch.")
            ax = sheet.heat(place, matrix, scale, kind=kind, numbers=few)
            changed = name in self.step.changed
            colour, width = (INK, 3) if changed else (RULE, 0.8)
            ax.spines[:].set(color=colour, linewidth=width)
            words = shape_words(self.step.names[name].shape, self.axes.get(name, ""))
            part = ", in part" if max(tensor.shape[-2:]) > SIDE else ""
            words = f"  {words}{part}"  # a long name is cut, never its shape
            words = cut(name, max(COLUMN - len(words), 6)) + words
            sheet.text(x, y, words, weight="bold" if changed else None)
        for i, name in enumerate(self.others):
            words = cut(f"{name} = {in_words(self.step.names[name])}", COLUMN)
            weight = "bold" if name in self.step.changed else None
            sheet.text(self.column(i), top + self.below + LINE * (i // 2), words, weight=weight)

    def column(self, i: int) -> float:
        return self.left + (PANEL[0] + 0.3) * (i % 2)


def draw(pages: list[Page]) -> Figure:
    """Steps of runs as one still picture, one below the other."""
    sheet = Sheet(max(page.width for page in pages), sum(page.height for page in pages))
    top = 0.0
    for page in pages:
        page.draw(sheet, top)
        top += page.height
    return sheet.figure
