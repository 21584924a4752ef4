"""Steps of decoding put together from parts, for 8.5, and what to say about wrong ones."""

from collections.abc import Callable
from functools import cache as once
from itertools import combinations

import torch
from torch import Tensor


def step_with(
    *,
    query_position: str = "right",
    key_position: str = "right",
    turns_values: bool = False,
    joined: str = "behind",
    seen: str = "all",
    kept: str = "all",
    scale: bool = True,
) -> Callable:
    """A step as 8.5 wants it, right but for the parts that are given."""

    def decode_step(query, key, value, cache, rotate):
        n = cache[0].shape[2]
        positions = {"right": n, "same": 0, "next": n + 1}

        def turned(X: Tensor, position: str) -> Tensor:
            return rotate(X, offset=positions[position]) if position in positions else X

        query, key = turned(query, query_position), turned(key, key_position)
        value = rotate(value, offset=n) if turns_values else value
        keys, values = (torch.cat(pair, dim=2) for pair in zip(cache, (key, value), strict=True))
        if joined == "key in front":
            keys = torch.cat((key, cache[0]), dim=2)
        if joined == "value in front":
            values = torch.cat((value, cache[1]), dim=2)
        if key_position == "again":
            keys = rotate(keys, offset=0)
        rows = {"all": slice(None), "old": slice(n), "new": slice(n, None)}[seen]
        scores = query @ keys[:, :, rows].mT / (query.shape[-1] ** 0.5 if scale else 1)
        output = scores.softmax(dim=-1) @ values[:, :, rows]
        new_caches = {
            "all": (keys, values),
            "old": cache,
            "new": (key, value),
            "swapped": (values, keys),
        }
        return output, new_caches[kept]

    return decode_step


TABLE = [
    (
        {"query_position": "same", "key_position": "same"},
        "Every token is given the same position, or none, so the order of the words is lost. A "
        "token's position is the number of tokens before it, and the cache knows that number.",
    ),
    (
        {"kept": "new"},
        "The cache that you return holds only the newest token: the next step forgets all that "
        "came before. Return what has been joined.",
    ),
    (
        {"turns_values": True},
        "You rotate the values, too. (At position 0 that changed nothing.) Positions belong into "
        "the scores: a value is read as it is, wherever it stands.",
    ),
    (
        {"seen": "new"},
        "Each token sees itself alone. Either the cache that you return never grows, or the old "
        "keys are left out of the scores.",
    ),
    ({"seen": "old"}, "The new token sees the old ones, and does not see itself."),
    ({"kept": "swapped"}, "Keys and values have changed places in the cache that you return."),
    (
        {"query_position": "same"},
        "The query is at position 0 in every step, or not rotated, and the key where it stands. "
        "Both belong to the same token: give both its position.",
    ),
    (
        {"key_position": "same"},
        "The key is at position 0 in every step, or not rotated, and the query where it stands. "
        "Both belong to the same token: give both its position.",
    ),
    (
        {"query_position": "next"},
        "The query stands one place behind its own key. Both belong to the same token: give both "
        "its position.",
    ),
    (
        {"key_position": "next"},
        "The key stands one place behind its own query. Both belong to the same token: give both "
        "its position.",
    ),
    (
        {"key_position": "again"},
        "Each step rotates the old keys again, and they turn further and further. A key is turned "
        "once, when its token is new: rotate first, then join.",
    ),
    (
        {"joined": "key in front"},
        "Keys and values are joined in opposite orders, one newest first and one newest last: "
        "each key now points at another token's value.",
    ),
    ({"scale": False}, "The division by the root of D is missing; it was no bug."),
]


@once
def candidates() -> list[tuple[Callable, str]]:
    """Every mistake alone, then two that can be made together, or three with two bugs left."""
    bugs = TABLE[:3]
    threes = [(*two, third) for two in combinations(bugs, 2) for third in TABLE]
    found = [(step_with(**parts), why) for parts, why in TABLE]
    for several in [*combinations(TABLE, 2), *threes]:
        names = [name for wrong, _ in several for name in wrong]
        if len(names) == len(set(names)):
            parts = {name: part for wrong, _ in several for name, part in wrong.items()}
            found.append((step_with(**parts), f"{several[0][1]} And that is not all."))
    return found
