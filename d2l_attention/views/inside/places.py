"""A place in a recorded run: a part, in it perhaps a head, and in that perhaps a cell.

Written as the view writes it: "decoder/block 2/cross-attention/head 1/query 3, key 1".
"""

import re
from typing import NamedTuple

from d2l_attention.views.inside.sending import ShownPart

HEAD, CELL = re.compile(r"head (\d+)"), re.compile(r"query (\d+), key (\d+)")


class Place(NamedTuple):
    """``trail`` are the names that were passed, without the model's own."""

    trail: tuple[str, ...]
    part: ShownPart
    head: int | None = None
    cell: tuple[int, int] | None = None

    def __str__(self) -> str:
        names = list(self.trail)
        names += [] if self.head is None else [f"head {self.head + 1}"]
        names += [] if self.cell is None else ["query {}, key {}".format(*self.cell)]
        return "/".join(names)


def find(parts: list[ShownPart], text: str) -> Place:
    """The place that ``text`` names. A cell may be named by its words: "voit, sees".

    Errors: ``ValueError`` for a name that is not there; it lists those that are.
    """
    if not isinstance(text, str):
        raise TypeError(f"at must be a str such as 'encoder/block 1', got {text!r}")
    place = Place((), parts[0])
    for name in text.split("/") if text else []:
        if place.head is not None:
            place = place._replace(cell=_cell(place, name))
            continue
        below = {parts[number].name: parts[number] for number in place.part.below}
        if name in below:
            place = Place((*place.trail, name), below[name])
            continue
        look, head = place.part.call.look, HEAD.fullmatch(name)
        if look is None or head is None or not 1 <= int(head[1]) <= len(look.weights):
            known = list(below)
            known += [f"head {i + 1}" for i in range(0 if look is None else len(look.weights))]
            where = "/".join(place.trail) or "the model"
            there = ", ".join(known) if known else "nothing"
            raise ValueError(f"{where} has no part called {name!r}; it has {there}")
        place = place._replace(head=int(head[1]) - 1)
    return place


def _cell(place: Place, name: str) -> tuple[int, int]:
    look = place.part.call.look
    assert look is not None
    _, Q, K = look.weights.shape
    words = [list(words or ()) for words in (look.query_words, look.key_words)]
    numbers = CELL.fullmatch(name)
    if numbers:
        cell = int(numbers[1]), int(numbers[2])
    else:
        query, _, key = name.partition(", ")
        if query not in words[0] or key not in words[1]:
            raise ValueError(
                f"a cell is named by its query and its key, as 'query 0, key 1' or by their words "
                f"as 'word, word', got {name!r}"
            )
        cell = words[0].index(query), words[1].index(key)
    if not (cell[0] < Q and cell[1] < K):
        raise ValueError(f"the map has {Q} queries and {K} keys, counted from 0, got {name!r}")
    return cell
