"""A recorded run as compact text for the browser, cut until it is small enough.

Numbers travel as the bytes of float32 in base64: exact, and shorter than their digits.
"""

import json
from base64 import b64encode
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor, nn

from d2l_attention.views.inside.holding import Held
from d2l_attention.views.inside.known import CHAPTERS, Known, known, source_of
from d2l_attention.views.inside.lanes import Lanes, lanes
from d2l_attention.views.inside.looks import Look
from d2l_attention.views.inside.names import all_different, name_of, path_within
from d2l_attention.views.inside.recording import SILENT, PartCall, Run

MOST_TEXT = 150_000  # characters of a view in a notebook
MOST_PARTS = 500
MOST_NAMES = 12  # of parameters, or of parts that were never called


class Cut(NamedTuple):
    """How much of a tensor and of an attention is sent: the first of each."""

    rows: int
    columns: int
    tokens: int
    heads: int
    size: int  # of queries, keys and values


CUTS = (
    Cut(16, 64, 32, 16, 64),
    Cut(12, 48, 24, 16, 64),
    Cut(12, 32, 16, 12, 32),
    Cut(8, 24, 16, 12, 16),
    Cut(6, 16, 8, 8, 8),
    Cut(4, 8, 8, 4, 4),
    Cut(2, 4, 4, 2, 2),
    Cut(1, 1, 1, 1, 1),
)


class ShownPart(NamedTuple):
    """A call that is shown, under its name among its neighbours."""

    call: PartCall
    name: str
    below: list[int]  # numbers of parts
    left_out: int  # of the calls below

    @property
    def lanes(self) -> Lanes:
        """Where its inputs, parts, heads and outputs stand, of the calls that are kept."""
        call, ins, heads = self.call, len(self.call.inputs), self.call.look is not None
        kept = [*range(len(self.below))]
        if heads:  # they have a number among the calls
            kept = [*kept[: call.heads_at], call.heads_at, *(i + 1 for i in kept[call.heads_at :])]
        first = ins + len(call.calls) + heads
        rows = [*range(ins), *(ins + i for i in kept), *range(first, first + len(call.outputs))]
        new = {row: i for i, row in enumerate(rows)}
        arrows = [(new[one], new[to]) for one, to in call.arrows if one in new and to in new]
        return lanes(ins, len(kept), len(call.outputs), arrows)


def parts_of(run: Run) -> list[ShownPart]:
    """The parts that are shown, the outer ones before the inner ones."""
    parts: list[ShownPart] = []
    waiting = deque([(run.call, type(run.call.module).__name__)])
    number = 1
    while waiting:
        call, name = waiting.popleft()
        names = [name_of(each.module, each.path, call.module, call.path) for each in call.calls]
        names = [
            f"{each}{' (raised)' if inner.raised else ''}"
            for inner, each in zip(call.calls, all_different(names), strict=True)
        ]
        inner = list(zip(call.calls, names, strict=True))
        kept = inner[: max(0, MOST_PARTS - number)]
        waiting.extend(kept)
        below = list(range(number, number + len(kept)))
        parts.append(ShownPart(call, name.replace("/", "∕"), below, len(inner) - len(kept)))
        number += len(kept)
    return parts


def as_text(run: Run) -> str:
    """The run as JSON for inside.js, with the largest cut that is small enough."""
    parts = parts_of(run)
    for cut in CUTS:
        text = _Text(parts, run, cut).text()
        if len(text) <= MOST_TEXT:
            break
    return text


class _Text:
    """Values, words and descriptions are numbered, and equal ones are sent once."""

    def __init__(self, parts: list[ShownPart], run: Run, cut: Cut):
        self.cut = cut
        self.values: dict[str, int] = {}
        self.words: dict[str, int] = {}
        self.about: dict[str, int] = {}
        self.looks: list[dict] = []
        self.parts = [self._part(part) for part in parts]
        self.left_out = run.left_out + sum(part.left_out for part in parts)

    def text(self) -> str:
        lists = {"values": self.values, "words": self.words, "about": self.about}
        whole = {name: [json.loads(text) for text in found] for name, found in lists.items()}
        whole |= {"parts": self.parts, "looks": self.looks, "left_out": self.left_out}
        return _json(whole)

    def _part(self, part: ShownPart) -> dict:
        call = part.call
        module = call.module
        described = known(module)
        about = {
            "does": described.does if described else "",
            "formula": _formula(described, call),
            "chapter": _chapter(described.chapter if described else None),
            "code": source_of(module),
        }
        own = [(name, tuple(p.shape)) for name, p in module.named_parameters(recurse=False)]
        sent = {
            "name": part.name,
            "kind": type(module).__name__,
            "about": _number(self.about, about),
            "in": [self._held(held, described) for held in call.inputs],
            "out": [self._held(held) for held in call.outputs],
            "params": sum(p.numel() for p in module.parameters() if not _is_lazy(p)),
            "below": part.below,
        }
        placed = part.lanes
        sent |= {"lines": placed.lines, "arrows": placed.arrows, "tracks": [*placed.tracks.items()]}
        sent |= {"own": own[:MOST_NAMES]} if own else {}
        sent |= {"more": part.left_out} if part.left_out else {}
        silent = _never_called(module, call)
        sent |= {"never": silent} if silent else {}
        if call.look is not None:
            sent |= {"look": len(self.looks), "heads_at": call.heads_at}
            self.looks.append(self._look(call.look))
        return sent

    def _held(self, held: Held, described: Known | None = None) -> list:
        numbers = held.numbers
        if numbers.numel():  # else, in a mode of fake tensors, it could not even be cut
            numbers = numbers[: self.cut.rows, : self.cut.columns]
        value = {
            "shape": held.shape,
            "kind": held.dtype,
            "all": held.matrix,
            "sent": tuple(numbers.shape),
            "x": _bytes(numbers),
        }
        words = -1 if held.words is None else _number(self.words, held.words)
        name = described.inputs.get(held.name, held.name) if described else held.name
        sent: list = [name, _number(self.values, value), words]
        if held.best is not None:
            best = held.best[: len(numbers)]
            sent.append([[(word, round(share, 4)) for word, share in row] for row in best])
        return sent

    def _look(self, look: Look) -> dict:
        H, Q, K = self.cut.heads, self.cut.tokens, self.cut.tokens
        weights = look.weights[:H, :Q, :K]
        sent = {"all": look.shape, "sent": tuple(weights.shape), "kind": look.kind}
        sent |= {"weights": _bytes(weights), "size": look.size}
        for name in ("queries", "keys", "values"):
            X = getattr(look, name)
            if X is None or (name == "values" and K < look.shape[2]):
                continue  # without all of the values the sum would be another one
            X = X[:H, :Q, : self.cut.size] if name == "queries" else X[:H, :K, : self.cut.size]
            sent |= {name: _bytes(X), f"{name}_size": X.shape[-1]}
        if look.values is not None:
            sent["values_all"] = look.values_all
        if look.queries is not None and look.keys is not None:
            sent["scores"] = _bytes(scores_of(look)[:H, :Q, :K])
        if look.w_v is not None:
            sent["w_v"] = _bytes(look.w_v[: self.cut.size])
        if look.bias is not None:
            sent["bias"] = _bytes(look.bias[:H, :Q, :K])
        if look.visible is not None:
            sent["visible"] = "".join("01"[seen] for seen in look.visible[:H, :Q, :K].flatten())
        for name, words in (("qwords", look.query_words), ("kwords", look.key_words)):
            sent[name] = -1 if words is None else _number(self.words, words)
        return sent


def scores_of(look: Look) -> Tensor:
    """The scores before bias and mask, (H, Q, K), of the parts that were kept."""
    queries, keys = look.queries, look.keys
    assert queries is not None and keys is not None
    if look.w_v is not None:
        return (queries[..., :, None, :] + keys[..., None, :, :]).tanh() @ look.w_v
    return queries @ keys.mT / look.size**0.5


def _formula(described: Known | None, call: PartCall) -> str:
    """None for an attention that was given a bias: no formula has one."""
    given = {name for held in call.inputs for name in held.name.split(" = ")}
    return described.formula if described and "bias" not in given else ""


def _chapter(number: int | None) -> str:
    return "" if number is None else f"Chapter {number}, {CHAPTERS[number]}"


def _never_called(module: nn.Module, call: PartCall) -> list[str]:
    """Parts whose ``forward`` was not called, nor that of a part in them."""
    paths = [each.path for each in call.calls]
    if call.look is not None:
        paths.append(f"{call.path}.attention" if call.path else "attention")
    begun = set()
    for path in paths:  # each part, and those that it stands in
        names = path_within(path, call.path).split(".")
        begun.add(names[0])
    silent = [
        name
        for name, child in module.named_children()
        if name not in begun and type(child) not in SILENT and any(True for _ in child.parameters())
    ]
    return silent[:MOST_NAMES]


def _is_lazy(parameter: nn.Parameter) -> bool:
    return isinstance(parameter, nn.parameter.UninitializedParameter)


def _number(found: dict[str, int], value) -> int:
    return found.setdefault(_json(value), len(found))


def _json(value) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _bytes(tensor: Tensor) -> str:
    if not tensor.numel():
        return ""
    numbers = tensor.to(torch.float32).contiguous().numpy().astype("<f4")
    return b64encode(numbers.tobytes()).decode("ascii")
