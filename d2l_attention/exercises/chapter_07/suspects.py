"""Implementations that the student's test of 7.6 has to accept, and others to reject.

Shape: queries (B, H, Q, D), keys (B, H, K, D), values (B, H, K, V) -> (B, H, Q, V). Query i stands
at position ``first_query + i``, key j at ``first_key + j``.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.exercises.chapter_07 import turning
from d2l_attention.exercises.chapter_07.turning import rotate_with


def attend_with(
    *,
    turn_queries: Callable = turning.right,
    turn_keys: Callable = turning.right,
    turn_values: Callable = lambda values, first: values,
    scaled: bool = True,
) -> Callable[..., Tensor]:
    """Rotary attention, right but for the parts that are given."""

    def attend(queries, keys, values, first_query, first_key):
        q, k = turn_queries(queries, first_query), turn_keys(keys, first_key)
        scores = q @ k.mT / (queries.shape[-1] ** 0.5 if scaled else 1.0)
        return scores.softmax(dim=-1) @ turn_values(values, first_key)

    return attend


def as_it_is(X: Tensor, first: int) -> Tensor:
    return X


def turn_all_pairs(values: Tensor, first: int) -> Tensor:
    """An odd number of columns leaves the last one as it is: an error would give it away."""
    even = values.shape[-1] // 2 * 2
    return torch.cat((turning.right(values[..., :even], first), values[..., even:]), dim=-1)


def from_position_0(X: Tensor, first: int) -> Tensor:
    return turning.right(X, 0)


right = attend_with()


def another_right_one(queries, keys, values, first_query, first_key):
    """Distances are all that counts, so the keys may as well stand at 0; other last digits."""
    return right(queries, keys, values, first_query - first_key, 0)


def nothing_like_it(queries, keys, values, first_query, first_key):
    return torch.zeros(1)


def zeros(queries, keys, values, first_query, first_key):
    return torch.zeros_like(right(queries, keys, values, first_query, first_key))


# What a student may expect who has turned other pairs, or all of them the other way.
in_halves = rotate_with(pairs=turning.halves, join=turning.end_to_end)
backwards = rotate_with(how_far=turning.backwards)
all_in_halves = attend_with(turn_queries=in_halves, turn_keys=in_halves)
turned_backwards = attend_with(turn_queries=backwards, turn_keys=backwards)

values_turned = attend_with(turn_values=turn_all_pairs)
queries_alone = attend_with(turn_keys=as_it_is)
opposite_ways = attend_with(turn_keys=backwards)
keys_in_halves = attend_with(turn_keys=in_halves)
always_from_0 = attend_with(turn_queries=from_position_0, turn_keys=from_position_0)
not_scaled = attend_with(scaled=False)

BROKEN = {
    queries_alone: "turns the queries alone",
    values_turned: "turns the values, too",
    opposite_ways: "turns queries one way and keys the other",
    keys_in_halves: "pairs columns 2j and 2j + 1 of queries, but j and j + D/2 of keys",
    always_from_0: "ignores first_query and first_key and counts both from 0",
    not_scaled: "leaves out the division by the root of D",
}
