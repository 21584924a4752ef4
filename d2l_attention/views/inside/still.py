"""A place in a model as a still picture, for a page that runs no widget."""

import math
import textwrap

import torch
from matplotlib.figure import Figure

from d2l_attention.views.inside.known import Known, known
from d2l_attention.views.inside.looks import Look
from d2l_attention.views.inside.places import Place
from d2l_attention.views.inside.recording import Held
from d2l_attention.views.inside.sending import ShownPart, scores_of
from d2l_attention.views.palette import FAINT, GROUND, INK, PALE, RULE, WEIGHT
from d2l_attention.views.picture import draw_weights
from d2l_attention.views.sheet import SMALL, TITLE, Sheet
from d2l_attention.views.words import LITERAL, cut, set_tokens

WIDTH, TEXT = 9.5, 3.6  # inches: the picture, its words
LINE = 0.35  # inches
MOST_ROWS, MOST_MAPS, MOST_KEYS = 12, 8, 10
MOST_LINES = 8  # of a tensor
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
    return draw_weights(
        look.weights[head : head + 1],
        *_words(look),
        largest=look.weights.max().item() or 1.0,
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
    """One row below the other: what goes in, the parts in the order of their calls, what comes out.

    Each row has its words on the left and the tensor that it gives on the right.
    """
    rows = _rows(parts, place.part)
    heights = [_height(kind, held) for kind, _, held in rows]
    sheet, top = Sheet(WIDTH, sum(heights) + 0.75), 0.65
    sheet.text(0.15, 0.3, heading, fontsize=TITLE)
    for (kind, name, held), height in zip(rows, heights, strict=True):
        middle = top + height / 2
        if kind == "heads":
            _heads(sheet, place.part.call.look, top, height)
        elif kind == "part":
            colours = {"facecolor": PALE, "edgecolor": RULE}
            sheet.box(0.35, top + 0.08, TEXT - 0.75, height - 0.16, **colours)
            sheet.text(0.5, middle, cut(name, 24), weight="bold")
        else:
            sheet.text(0.35, middle, f"{kind}  {cut(name, 24)}", color=INK)
        if held is not None:
            sheet.text(TEXT, top + 0.14, _shape(held), fontsize=SMALL, color=FAINT)
            if held.numbers.numel():
                _tensor(sheet, held, top + height - 0.1)
        top += height
    return sheet.figure


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
    rows = [*came_in, *rows, *went_out]
    if len(rows) > MOST_ROWS:
        left = len(rows) - MOST_ROWS + 1
        rows[MOST_ROWS - 2 : -1] = [("...", f"{left} more", None)]
    return rows


def _height(kind: str, held: Held | None) -> float:
    if held is None:
        return 1.75 if kind == "heads" else 0.4
    return 0.42 + 0.19 * max(min(len(held.numbers), MOST_LINES), 1)


def _tensor(sheet: Sheet, held: Held, bottom: float) -> None:
    """The first lines of a matrix, with its words at the rows or at the columns."""
    numbers = held.numbers[:MOST_LINES]
    at_rows, at_columns = _fitting(held)
    left, height = TEXT + (0.85 if at_rows else 0.0), 0.19 * len(numbers)
    ax = sheet.heat((left, bottom - height, WIDTH - left - 0.2, height), numbers)
    if at_rows:
        set_tokens(ax.yaxis, [cut(word, 10) for word in at_rows[: len(numbers)]])
    style = {"ha": "center", "va": "center", "fontsize": SMALL}
    for column, word in enumerate(at_columns[: numbers.shape[1]]):
        label = ax.text(column, 0, cut(word, 10), **style, **LITERAL)
        label.set_bbox({"facecolor": GROUND, "edgecolor": "none", "pad": 1.0})


def _heads(sheet: Sheet, look: Look | None, top: float, height: float) -> None:
    assert look is not None
    (H, Q, K), several = look.weights.shape, look.shape[0] > 1
    text = f"{look.shape[0]} heads" if several else "who looks at whom"
    sheet.text(0.5, top + height / 2, text, weight="bold")
    scale = 0.0, look.weights.max().item() or 1.0
    shown = min(H, MOST_MAPS)
    side = min(1.2, (WIDTH - TEXT - 0.2) / shown - 0.12)
    across, down = side * min(1, K / Q), side * min(1, Q / K)
    for head in range(shown):
        x = TEXT + head * (side + 0.12)
        sheet.heat((x, top + 0.42, across, down), look.weights[head], scale)
        name = f"head {head + 1}" if several else "weights"
        sheet.text(x, top + 0.26, name, fontsize=SMALL)


def _shape(held: Held) -> str:
    shape = str(held.shape).replace("'", "")  # '?' is no text here
    if not held.numbers.numel():
        return f"{shape}, {held.dtype}: no numbers to show"
    rows, columns = min(len(held.numbers), MOST_LINES), held.numbers.shape[1]
    part = [f"rows 0 to {rows - 1}"] if held.matrix[0] > rows else []
    part += [f"columns 0 to {columns - 1}"] if held.matrix[1] > columns else []
    return f"{shape}{', shown: ' + ', '.join(part) if part else ''}"


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
        sheet.box(5.7, y - 0.1, 3.42 * share, 0.2, facecolor=WEIGHT)
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
        sheet.heat((2.375, y - 0.13, 6.745, 0.26), rows[i : i + 1], scale, numbers=True)
