"""A place in a model as a still picture, for a page that runs no widget."""

import math
import textwrap

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from d2l_attention.views.inside.known import Known, known
from d2l_attention.views.inside.looks import Look
from d2l_attention.views.inside.places import Place
from d2l_attention.views.inside.recording import Held
from d2l_attention.views.inside.sending import Part, scores_of
from d2l_attention.views.picture import DPI, OUTLINE, draw_weights, ramp
from d2l_attention.views.watch_drawing import cut
from d2l_attention.views.words import ALL_LITERAL

WIDTH, TEXT = 9.5, 3.6  # inches: the picture, its words
MOST_ROWS = 12
MOST_MAPS = 8
OPENED = 16  # numbers of a vector that are written out
WORD = 10  # letters


def draw(parts: list[Part], place: Place, title: str) -> Figure:
    """The part with what it calls, or a head's map, or the numbers of a cell."""
    trail = " › ".join([parts[0].name, *place.trail])
    trail += "" if place.trail or place.head is not None else ", from the outside"
    if place.head is not None:
        trail += f" › head {place.head + 1}"
    heading = title or trail
    with matplotlib.rc_context(ALL_LITERAL | {"font.size": 12}):
        if place.cell is not None:
            return _cell(place, heading)
        if place.head is not None:
            return _map(place, heading)
        return _Flow(parts, place, heading).figure


def _map(place: Place, heading: str) -> Figure:
    look = place.part.call.look
    assert look is not None and place.head is not None
    _, Q, K = look.weights.shape
    return draw_weights(
        look.weights[place.head : place.head + 1],
        _words(look.query_words, Q),
        _words(look.key_words, K),
        largest=look.weights.max().item() or 1.0,
        panel_titles=[""],
        title=textwrap.fill(heading, 44),
    )


def _words(words: tuple[str, ...] | None, count: int) -> list[str]:
    return list(words or map(str, range(count)))[:count]


class _Flow:
    """One row below the other: what goes in, the parts in the order of their calls, what comes out.

    Each row has its words on the left and the tensor that it gives on the right.
    """

    def __init__(self, parts: list[Part], place: Place, heading: str):
        call = place.part.call
        described = known(call.module) or Known("")
        self.rows: list[tuple[str, str, Held | None]] = []
        for held in call.inputs:
            self.rows.append(("in", described.inputs.get(held.name, held.name), held))
        inner = [parts[number] for number in place.part.below]
        at = call.heads_at if call.look is not None else -1
        for i, part in enumerate(inner):
            if i == at:
                self.rows.append(("heads", "", None))
            held = part.call.outputs[0] if part.call.outputs else None
            self.rows.append(("part", part.name, held))
        if at >= len(inner):
            self.rows.append(("heads", "", None))
        for held in call.outputs:
            self.rows.append(("out", "" if len(call.outputs) == 1 else held.name, held))
        if len(self.rows) > MOST_ROWS:
            left = len(self.rows) - MOST_ROWS + 1
            self.rows[MOST_ROWS - 2 : -1] = [("more", f"{left} more", None)]
        self.look = call.look
        self._draw(heading, place.part)

    def _draw(self, heading: str, part: Part) -> None:
        heights = [self._height(kind, held) for kind, _, held in self.rows]
        total = sum(heights) + 0.75
        self.figure = Figure(figsize=(WIDTH, total), dpi=DPI, layout="none")
        self.total, top = total, 0.3
        self._text(0.15, top, heading, fontsize=14)
        top += 0.35
        for (kind, name, held), height in zip(self.rows, heights, strict=True):
            middle = top + height / 2
            if kind == "heads":
                self._heads(top, height)
            elif kind == "more":
                self._text(0.45, middle, f"... {name}", color="#616161")
            else:
                self._row(kind, name, held, top, height)
            top += height

    def _height(self, kind: str, held: Held | None) -> float:
        if kind == "heads":
            return 1.75
        if held is None:
            return 0.4
        rows = min(len(held.numbers), 8)
        return 0.42 + 0.19 * max(rows, 1)

    def _row(self, kind: str, name: str, held: Held | None, top: float, height: float) -> None:
        middle = top + height / 2
        if kind == "part":
            box = matplotlib.patches.FancyBboxPatch(
                self._at(0.35, top + height - 0.08),
                (TEXT - 0.75) / WIDTH,
                (height - 0.16) / self.total,
                boxstyle="round,pad=0,rounding_size=0.005",
                facecolor="#eff3ff",
                edgecolor="#08519c",
                transform=self.figure.transFigure,
            )
            self.figure.add_artist(box)
            self._text(0.5, middle, cut(name, 24), weight="bold")
        else:
            self._text(0.35, middle, f"{kind}  {cut(name, 24)}", color="#424242")
        if held is None:
            return
        self._text(TEXT, top + 0.14, _shape(held), fontsize=10, color="#616161")
        if not held.numbers.numel():
            return
        rows = min(len(held.numbers), 8)
        numbers = held.numbers[:rows]
        words = _fitting(held)
        left = TEXT + (0.85 if words[0] else 0.0)
        down = top + height - 0.1
        size = (WIDTH - left - 0.2) / WIDTH, 0.19 * rows / self.total
        ax = self.figure.add_axes((*self._at(left, down), *size))
        heat(ax, numbers)
        if words[0]:
            ax.set_yticks(range(rows), [cut(word, WORD) for word in words[0][:rows]], fontsize=10)
        if words[1]:
            for column, word in enumerate(words[1][: numbers.shape[1]]):
                ax.text(column, 0, cut(word, WORD), ha="center", va="center", fontsize=10,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip

    def _heads(self, top: float, height: float) -> None:
        assert self.look is not None
        H, Q, K = self.look.weights.shape
        shown = min(H, MOST_MAPS)
        text = "who looks at whom" if self.look.shape[0] == 1 else f"{self.look.shape[0]} heads"
        self._text(0.5, top + height / 2, text, weight="bold")
        largest = self.look.weights.max().item() or 1.0
        side = min(1.2, (WIDTH - TEXT - 0.2) / shown - 0.12)
        for head in range(shown):
            x = TEXT + head * (side + 0.12)
            across, down = (side, side * Q / K) if K >= Q else (side * K / Q, side)
            ax = self.figure.add_axes(
                (*self._at(x, top + 0.42 + down), across / WIDTH, down / self.total)
            )
            heat(ax, self.look.weights[head], (0.0, largest))
            name = f"head {head + 1}" if self.look.shape[0] > 1 else "weights"
            self._text(x, top + 0.26, name, fontsize=10)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return x / WIDTH, 1 - y / self.total

    def _text(self, x: float, y: float, words: str, **style) -> None:
        self.figure.text(*self._at(x, y), words, va="center", **style)


def _shape(held: Held) -> str:
    rows, columns = held.numbers.shape
    part = [f"rows 0 to {min(rows, 8) - 1}"] if held.matrix[0] > min(rows, 8) else []
    part += [f"columns 0 to {columns - 1}"] if held.matrix[1] > columns else []
    shape = str(held.shape).replace("'", "")  # '?' is no text here
    if not held.numbers.numel():
        return f"{shape}, {held.dtype}: no numbers to show"
    return f"{shape}{', shown: ' + ', '.join(part) if part else ''}"


def _fitting(held: Held) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words at the rows and at the columns, as in the browser."""
    if held.words is None:
        return (), ()
    rows, columns = held.matrix
    if len(held.words) == rows and (rows > 1 or len(held.words) != columns):
        return held.words, ()
    return (), held.words if len(held.words) == columns else ()


def heat(ax: Axes, numbers: Tensor, scale: tuple[float, float] | None = None) -> None:
    """Numbers as colours, zero on the scale."""
    finite = numbers[numbers.isfinite()]
    low = min(0.0, finite.min().item()) if finite.numel() else 0.0
    high = max(0.0, finite.max().item()) if finite.numel() else 1.0
    low, high = scale or (low, high)
    colours = ListedColormap(ramp())
    options = {"cmap": colours, "vmin": low, "vmax": high or 1.0, "interpolation": "nearest"}
    ax.imshow(numbers.nan_to_num(0.0, 0.0, 0.0).numpy(), aspect="auto", **options)
    ax.set(xticks=[], yticks=[])
    ax.tick_params(length=0)


def _cell(place: Place, heading: str) -> Figure:
    """The steps from a query and a key to the weight, as a list of sentences and two tables."""
    look, head, cell = place.part.call.look, place.head, place.cell
    assert look is not None and head is not None and cell is not None
    q, k = cell
    _, Q, K = look.weights.shape
    queries, keys = _words(look.query_words, Q), _words(look.key_words, K)
    lines = [f"'{queries[q]}' looks at '{keys[k]}'"]
    shown_keys = min(K, 10)
    scores = scores_of(look)[head] if look.queries is not None else None
    if look.kind == "dot" and scores is not None:
        root = look.size**0.5
        total, score = (scores[q, k] * root).item(), scores[q, k].item()
        lines.append(
            f"1  query · key: the {look.size} products add up to {total:.2f};"
            f" divided by √{look.size} = {root:.3g}: score {score:.2f}"
        )
    lines.append("2  softmax over the keys, e^score divided by the sum of all:")
    adds_up = look.values is not None and shown_keys == K == look.shape[2]
    below = 0.5 + 0.35 * (shown_keys + 1) if adds_up else 0.0
    total = 1.0 + 0.35 * (len(lines) + shown_keys) + below
    figure = Figure(figsize=(WIDTH, total), dpi=DPI, layout="none")
    height = figure.get_figheight()
    figure.text(0.02, 1 - 0.3 / height, textwrap.shorten(heading, 78), fontsize=14, va="center")
    for i, line in enumerate(lines):
        weight = "bold" if i == 0 else None
        figure.text(0.02, 1 - (0.7 + 0.35 * i) / height, line, va="center", weight=weight)
    for i in range(shown_keys):
        y = 1 - (0.7 + 0.35 * (len(lines) + i)) / height
        share = look.weights[head, q, i].item()
        hidden = look.visible is not None and not look.visible[head, q, i]
        bias = 0.0 if look.bias is None else look.bias[head, q, i].item()
        words = "hidden" if hidden else "" if scores is None else f"{scores[q, i] + bias:.2f}"
        style = {"va": "center", "weight": "bold" if i == k else None}
        figure.text(0.06, y, cut(keys[i], 14), **style)
        figure.text(0.32, y, words, ha="right", **style)
        power = "0" if hidden else "" if scores is None else _power(scores[q, i].item() + bias)
        figure.text(0.46, y, power, ha="right", **style)
        figure.text(0.56, y, f"{share:.3f}", ha="right", **style)
        colour = OUTLINE if i == k else "#08519c"
        bar = matplotlib.patches.Rectangle(
            (0.6, y - 0.1 / height), 0.36 * share, 0.2 / height, facecolor=colour,
            transform=figure.transFigure,
        )  # fmt: skip
        figure.add_artist(bar)
    if adds_up:
        _answer(figure, look, (head, q), keys, 0.9 + 0.35 * (len(lines) + shown_keys))
    return figure


def _answer(figure: Figure, look: Look, at: tuple[int, int], keys: list[str], top: float) -> None:
    """The last step: each value times its weight, and their sum."""
    assert look.values is not None
    head, q = at
    height = figure.get_figheight()
    weights = look.weights[head, q]
    parts = weights[:, None] * look.values[head].masked_fill(weights[:, None] == 0, 0.0)
    rows = torch.cat([parts, parts.sum(dim=0, keepdim=True)])[:, :OPENED]
    scale = min(0.0, rows.min().item()), max(0.0, rows.max().item()) or 1.0
    size = look.values.shape[-1]
    part = f", the first {OPENED} of {size} numbers" if size > OPENED else ""
    words = f"3  the answer: each value times its weight, and the columns added up{part}:"
    figure.text(0.02, 1 - top / height, words, va="center")
    names = [f"{weight:.3f} × {cut(key, 14)}" for weight, key in zip(weights, keys, strict=True)]
    for i, name in enumerate([*names, "answer"]):
        y = 1 - (top + 0.35 * (i + 1)) / height
        figure.text(0.06, y, name, va="center", weight="bold" if i == len(keys) else None)
        ax = figure.add_axes((0.25, y - 0.13 / height, 0.71, 0.26 / height))
        heat(ax, rows[i : i + 1], scale)
        for column, number in enumerate(rows[i]):
            dark = number > scale[0] + 0.55 * (scale[1] - scale[0])
            text = f"{number:.2f}".replace("-0.00", "0.00")
            ink = "white" if dark else "black"
            ax.text(column, 0, text, ha="center", va="center", fontsize=9, color=ink)


def _power(score: float) -> str:
    power = math.exp(min(score, 700))
    return f"{power:.3g}" if power < 100 else f"{power:.0f}" if power < 1e6 else f"{power:.1e}"
