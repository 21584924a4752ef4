"""A place in a model as a still picture, for a page that runs no widget."""

import math
import textwrap

import torch
from matplotlib.figure import Figure

from d2l_attention.views.inside.holding import Held
from d2l_attention.views.inside.known import Known, known
from d2l_attention.views.inside.looks import Look
from d2l_attention.views.inside.places import Place
from d2l_attention.views.inside.sending import ShownPart, scores_of
from d2l_attention.views.palette import FAINT, GROUND, RULE, WEIGHT
from d2l_attention.views.picture import draw_weights
from d2l_attention.views.plots import scale_of
from d2l_attention.views.sheet import SMALL, TITLE, WHOLE, Sheet
from d2l_attention.views.words import cut, set_tokens

WIDTH, SIDE = 9.5, 0.6  # inches: the picture, and in it the arrows that go past parts
LINE, GAP = 0.35, 0.28  # inches
MOST_ROWS, MOST_MAPS, MOST_KEYS = 8, 8, 10
MOST_LINES, TRACKS = 12, 6
LEGEND = "■ above 0, □ below 0: the area is the size. Hatched: no number."
OPENED = 16  # numbers of a vector that are written out
Row = tuple[str, str, Held | None]  # its kind, its words, the tensor that it gives


def draw(parts: list[ShownPart], place: Place, title: str) -> Figure:
    """The part with what it calls, or a head's map, or the numbers of a cell."""
    trail = " › ".join([parts[0].name, *place.trail])
    trail += "" if place.trail or place.head is not None else ", from the outside"
    if place.head is not None:
        trail += f" › head {place.head + 1}"
    if place.cell is not None:
        return _cell(place, title or trail)
    return (_flow if place.head is None else _map)(parts, place, title or trail)


def _map(_parts: list[ShownPart], place: Place, heading: str) -> Figure:
    look, head = place.part.call.look, place.head
    assert look is not None and head is not None
    lowest, largest = scale_of(look.weights)  # of all heads
    return draw_weights(
        look.weights[head : head + 1],
        *_words(look),
        largest=largest or 1.0,
        lowest=lowest,
        panel_titles=[""],
        title=textwrap.fill(heading, 44),
    )


def _words(look: Look) -> tuple[list[str], list[str]]:
    """The words of the queries and of the keys, else their numbers."""
    _, Q, K = look.weights.shape
    given = (look.query_words, Q), (look.key_words, K)
    queries, keys = (list(words or map(str, range(count)))[:count] for words, count in given)
    return queries, keys


def _flow(parts: list[ShownPart], place: Place, heading: str) -> Figure:
    """Lines of what goes in, the parts and what comes out, as in the browser, with their arrows."""
    rows, placed = _rows(parts, place.part), place.part.lanes
    left_out = max(0, len(placed.lines) - MOST_LINES)
    lines = placed.lines if not left_out else [*placed.lines[: MOST_LINES - 1], placed.lines[-1]]
    sizes = [(line, _width(line)) for line in lines]
    heights = [max(_height(*rows[row], width) for row in line) for line, width in sizes]
    sheet, top = Sheet(WIDTH, sum(heights) + GAP * len(lines) + 0.95), 0.6
    sheet.text(0.15, 0.3, heading, fontsize=TITLE)
    boxes: dict[int, tuple[float, float, float, float]] = {}
    for number, ((line, width), height) in enumerate(zip(sizes, heights, strict=True)):
        if left_out and number == MOST_LINES - 1:
            count = sum(map(len, placed.lines[MOST_LINES - 1 : -1]))
            sheet.text(WIDTH / 2, top - GAP / 2, f"...  {count} more", ha="center", color=FAINT)
        left = (WIDTH - SIDE - len(line) * (width + 0.1) + 0.1) / 2
        for i, row in enumerate(line):
            box = boxes[row] = left + i * (width + 0.1), top, width, height
            _row(sheet, *rows[row], place.part.call.look, box)
        top += height + GAP
    sheet.text(0.15, top, LEGEND, fontsize=SMALL, color=FAINT)
    line_of = {row: i for i, line in enumerate(lines) for row in line}
    for source, to in placed.arrows:
        if source in boxes and to in boxes:
            _arrow(sheet, boxes, source, to, line_of[to] - line_of[source] > 1, placed.tracks)
    return sheet.figure


def _arrow(sheet: Sheet, boxes: dict, source: int, to: int, far: bool, tracks: dict) -> None:
    """From below the one to above the other; past what is between on a track at the right."""
    (x, y, width, height), (left, top, across, _) = boxes[source], boxes[to]
    start, end, low = x + width / 2, left + across / 2, y + height
    way = [(start, low)]
    if far:
        side = max(at + wide for at, _, wide, _ in boxes.values())
        track = side + 0.1 + 0.08 * (tracks[source] % TRACKS)
        low += 0.05 + 0.01 * (tracks[source] % TRACKS)
        way += [(start, low), (track, low), (track, top - 0.1)]
    sheet.arrow([*way, (end, top - 0.1), (end, top)], color=FAINT)


def _rows(parts: list[ShownPart], part: ShownPart) -> list[Row]:
    call, described = part.call, known(part.call.module) or Known("")
    rows: list[Row] = []
    for number in part.below:
        inner = parts[number]
        rows.append(("part", inner.name, next(iter(inner.call.outputs), None)))
    if call.look is not None:
        rows.insert(call.heads_at, ("heads", "", None))
    came_in = [("in", described.inputs.get(held.name, held.name), held) for held in call.inputs]
    went_out = [("out", held.name if len(call.outputs) > 1 else "", held) for held in call.outputs]
    return [*came_in, *rows, *went_out]


def _width(line: list[int]) -> float:
    return min(6.0, (WIDTH - SIDE) / len(line) - 0.1)


def _shown(held: Held, width: float) -> tuple[int, int]:
    """How many rows and columns of a tensor are drawn."""
    at_rows, at_columns = _fitting(held)
    wide = 0.7 if at_columns else 0.4 if held.dtype.startswith(WHOLE) else 0.1
    room = width - 0.2 - (0.85 if at_rows else 0.0)
    return min(len(held.numbers), MOST_ROWS), min(held.numbers.shape[1], int(room / wide))


def _height(kind: str, name: str, held: Held | None, width: float) -> float:
    if held is None:
        return 1.35 if kind == "heads" else 0.4
    return 0.5 + 0.15 * max(_shown(held, width)[0], 1) + 0.17 * bool(_fitting(held)[1])


def _row(sheet: Sheet, kind: str, name: str, held: Held | None, look: Look | None, box) -> None:
    x, y, width, height = box
    if kind == "heads":
        return _heads(sheet, look, box)
    if kind == "part":
        sheet.box(*box, facecolor=GROUND, edgecolor=RULE)
    words = cut(name if kind == "part" else f"{kind}  {name}", int(width * 11))
    weight = "bold" if kind == "part" else None
    sheet.text(x + 0.1, y + 0.16, words, weight=weight, fontsize=11)
    if held is not None:
        shown = _shown(held, width)
        words = cut(_shape(held, shown), int(width * 13))
        sheet.text(x + 0.1, y + 0.34, words, fontsize=SMALL, color=FAINT)
        if held.numbers.numel():
            _tensor(sheet, held, shown, box)


def _tensor(sheet: Sheet, held: Held, shown: tuple[int, int], box) -> None:
    """The first lines of a matrix, with its words at the rows or at the columns."""
    x, y, width, height = box
    at_rows, at_columns = _fitting(held)
    left, (rows, columns) = x + 0.1 + (0.85 if at_rows else 0.0), shown
    cell = min((x + width - 0.1 - left) / columns, 0.7 if at_columns else 0.4)
    if not held.dtype.startswith((*WHOLE, "bool")) and not at_columns:
        cell = min(cell, 0.15)
    place = left, y + 0.45 + 0.17 * bool(at_columns), cell * columns, 0.15 * rows
    ax = sheet.heat(place, held.numbers[:rows, :columns], kind=held.dtype)
    if at_rows:
        set_tokens(ax.yaxis, [cut(word, 10) for word in at_rows[:rows]])
    if at_columns:
        ax.xaxis.tick_top()
        set_tokens(ax.xaxis, [cut(word, 8) for word in at_columns[:columns]])


def _heads(sheet: Sheet, look: Look | None, box: tuple[float, float, float, float]) -> None:
    assert look is not None
    (H, Q, K), several = look.weights.shape, look.shape[0] > 1
    x, y, width, _ = box
    text = f"{look.shape[0]} heads: who looks at whom" if several else "who looks at whom"
    sheet.text(x + width / 2, y + 0.14, text, weight="bold", fontsize=11, ha="center")
    scale = scale_of(look.weights)
    shown = min(H, MOST_MAPS)
    side = min(0.85, width / shown - 0.12)
    across, down = side * min(1, K / Q), side * min(1, Q / K)
    left = x + (width - shown * (across + 0.12)) / 2
    for head in range(shown):
        at = left + head * (across + 0.12)
        sheet.heat((at, y + 0.45, across, down), look.weights[head], scale, coloured=True)
        name = f"head {head + 1}" if several else "weights"
        sheet.text(at, y + 0.34, name, fontsize=9)


def _shape(held: Held, shown: tuple[int, int]) -> str:
    shape = str(held.shape).replace("'", "")  # '?' is no text here
    if not held.numbers.numel():
        return f"{shape}, {held.dtype}: no numbers to show"
    rows, columns = shown
    return f"{shape}{f', here {rows} × {columns}' if held.matrix != shown else ''}"


def _fitting(held: Held) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words at the rows and at the columns, as in the browser."""
    words, (rows, columns) = held.words or (), held.matrix
    if len(words) == rows and (rows > 1 or len(words) != columns):
        return words, ()
    return (), words if len(words) == columns else ()


def _cell(place: Place, heading: str) -> Figure:
    """The steps from a query and a key to the weight, as a list of sentences and two tables."""
    look, head, cell = place.part.call.look, place.head, place.cell
    assert look is not None and head is not None and cell is not None
    (q, k), (queries, keys) = cell, _words(look)
    scores = scores_of(look)[head, q] if look.queries is not None else None
    lines = [f"'{queries[q]}' looks at '{keys[k]}'"]
    if look.kind == "dot" and scores is not None:
        root, score = look.size**0.5, scores[k].item()
        lines.append(
            f"1  query · key: the {look.size} products add up to {score * root:.2f};"
            f" divided by √{look.size} = {root:.3g}: score {score:.2f}"
        )
    lines.append("2  softmax over the keys, e^score divided by the sum of all:")
    shown = min(len(keys), MOST_KEYS)
    adds_up = look.values is not None and shown == len(keys) == look.shape[2]
    below = 0.5 + LINE * (shown + 1) if adds_up else 0.0
    sheet, y = Sheet(WIDTH, 1.0 + LINE * (len(lines) + shown) + below), 0.7
    sheet.text(0.2, 0.3, textwrap.shorten(heading, 78), fontsize=TITLE)
    for i, line in enumerate(lines):
        sheet.text(0.2, y, line, weight="bold" if i == 0 else None)
        y += LINE
    for i, key in enumerate(keys[:shown]):
        share, style = look.weights[head, q, i].item(), {"weight": "bold" if i == k else None}
        sheet.text(0.57, y, cut(key, 14), **style)
        columns = [*_score(look, scores, (head, q, i)), f"{share:.3f}"]
        for x, words in zip((3.04, 4.37, 5.32), columns, strict=True):
            sheet.text(x, y, words, ha="right", **style)
        sheet.box(5.7, y - 0.1, 3.42 * max(share, 0.0), 0.2, facecolor=WEIGHT)
        y += LINE
    if adds_up:
        _answer(sheet, look, (head, q), keys, y + 0.2)
    return sheet.figure


def _score(look: Look, scores: torch.Tensor | None, at: tuple[int, int, int]) -> tuple[str, str]:
    """A key's score with its bias, and e to the power of it."""
    if look.visible is not None and not look.visible[at]:
        return "hidden", "0"
    if scores is None:
        return "", ""
    score = scores[at[2]].item() + (0.0 if look.bias is None else look.bias[at].item())
    power = math.exp(min(score, 700))
    digits = ".3g" if power < 100 else ".0f" if power < 1e6 else ".1e"
    return f"{score:.2f}", f"{power:{digits}}"


def _answer(sheet: Sheet, look: Look, at: tuple[int, int], keys: list[str], y: float) -> None:
    """The last step: each value times its weight, and their sum."""
    assert look.values is not None
    weights, values = look.weights[at], look.values[at[0]]
    parts = weights[:, None] * values.masked_fill(weights[:, None] == 0, 0.0)
    rows = torch.cat([parts, parts.sum(dim=0, keepdim=True)])[:, :OPENED]
    scale = min(0.0, rows.min().item()), max(0.0, rows.max().item())
    size = values.shape[-1]
    part = f", the first {OPENED} of {size} numbers" if size > OPENED else ""
    sheet.text(
        0.2, y, f"3  the answer: each value times its weight, and the columns added up{part}:"
    )
    names = [f"{weight:.3f} × {cut(key, 14)}" for weight, key in zip(weights, keys, strict=True)]
    for i, name in enumerate([*names, "answer"]):
        y += LINE
        sheet.text(0.57, y, name, weight="bold" if i == len(keys) else None)
        place = 2.375, y - 0.13, 6.745, 0.26
        sheet.heat(place, rows[i : i + 1], scale, numbers=True, coloured=True)
