"""Tiled attention put together from parts, for 10.4, and wrong answers as students give them."""

from collections.abc import Callable, Iterator

import torch


def all_tiles(num_keys: int, block_size: int) -> Iterator[slice]:
    return (slice(i, i + block_size) for i in range(0, num_keys, block_size))


def whole_tiles(num_keys: int, block_size: int) -> Iterator[slice]:
    return (slice(i, i + block_size) for i in range(0, num_keys - block_size + 1, block_size))


def one_tile_more(num_keys: int, block_size: int) -> Iterator[slice]:
    """Stops where the last tile is empty: one too many, where the block divides the keys."""
    return (slice(i, i + block_size) for i in range(0, num_keys + 1, block_size))


def tiles_that_overlap(num_keys: int, block_size: int) -> Iterator[slice]:
    """The last tile is moved back to be full, and some keys count twice."""
    starts = range(0, num_keys, block_size)
    return (
        slice(max(0, min(i, num_keys - block_size)), min(i + block_size, num_keys)) for i in starts
    )


def tiled_with(
    *,
    tiles: Callable = all_tiles,
    begin: float = -torch.inf,
    larger: Callable = lambda maximum, scores: maximum.maximum(scores.amax(-1, keepdim=True)),
    output_factor: Callable = lambda old, new: (old - new).exp(),
    total_factor: Callable = lambda old, new: (old - new).exp(),
    after: bool = False,
    each_divided: bool = False,
    divided: bool = True,
    scaled: bool = True,
) -> Callable:
    """Right but for the parts that are given. ``after`` rescales when the tile has been added."""

    def by_tiles(queries, keys, values, block_size):
        output = queries.new_zeros(len(queries), values.shape[-1])
        maximum = queries.new_full((len(queries), 1), begin)
        total = queries.new_zeros(len(queries), 1)
        for tile in tiles(len(keys), block_size):
            scores = queries @ keys[tile].mT / (queries.shape[-1] ** 0.5 if scaled else 1)
            new = larger(maximum, scores)
            weights, factor = (scores - new).exp(), output_factor(maximum, new)
            added = weights @ values[tile]
            output = (output + added) * factor if after else output * factor + added
            total = total * total_factor(maximum, new) + weights.sum(dim=-1, keepdim=True)
            output = output / total if each_divided else output
            maximum = new
        return output / total if divided else output

    return by_tiles


def nothing(old, new):
    return torch.ones_like(new)


BUGS = {
    "output": {"output_factor": nothing},
    "begin": {"begin": 0.0},
    "tiles": {"tiles": whole_tiles},
}


def remaining(*bugs: str, **parts) -> Callable:
    """The given code with only these of its bugs left, and with other parts exchanged."""
    left = {name: part for bug in bugs for name, part in BUGS[bug].items()}
    return tiled_with(**left, **parts)


right = tiled_with()
wrong_direction = tiled_with(
    begin=0.0, output_factor=lambda old, new: (new - old).clamp(max=80).exp()
)
both_in_the_wrong_direction = tiled_with(
    begin=0.0,
    output_factor=lambda old, new: (new - old).clamp(max=80).exp(),
    total_factor=lambda old, new: (new - old).clamp(max=80).exp(),
)
infinite_factor = tiled_with(output_factor=lambda old, new: (new - old).exp())
rescaled_after = tiled_with(begin=-1e9, after=True)
divided_in_each_tile = tiled_with(each_divided=True, divided=False)
divided_twice = tiled_with(each_divided=True)
not_divided = tiled_with(divided=False)
total_not_rescaled = tiled_with(total_factor=nothing)
neither_rescaled = tiled_with(output_factor=nothing, total_factor=nothing)
newest_maximum = tiled_with(larger=lambda maximum, scores: scores.amax(-1, keepdim=True))
one_maximum_for_all = tiled_with(larger=lambda maximum, scores: maximum.maximum(scores.max()))
divided_by_old_total = tiled_with(
    output_factor=lambda old, new: torch.where(old.isinf(), 0.0, old / new)
)
without_the_root = tiled_with(scaled=False)
one_empty_tile = tiled_with(tiles=one_tile_more)
overlapping_tiles = tiled_with(tiles=tiles_that_overlap)
begins_at_minus_100 = tiled_with(begin=-100.0)


def whole_softmax(queries, keys, values, block_size):
    return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=-1) @ values


def maximum_of_all_scores(queries, keys, values, block_size):
    """Right, but the maximum is known only once the whole matrix is there."""
    maximum = (queries @ keys.mT / queries.shape[-1] ** 0.5).amax(dim=-1, keepdim=True)
    return tiled_with(larger=lambda *_: maximum)(queries, keys, values, block_size)


def fused_kernel(queries, keys, values, block_size):
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values)


def mean_of_the_tiles(queries, keys, values, block_size):
    """A softmax in each tile, and the mean of what they give."""
    tiles = list(all_tiles(len(keys), block_size))
    outputs = [whole_softmax(queries, keys[tile], values[tile], block_size) for tile in tiles]
    return torch.stack(outputs).mean(dim=0)


def in_place(queries, keys, values, block_size):
    queries /= queries.shape[-1] ** 0.5
    return tiled_with(scaled=False)(queries, keys, values, block_size)


def without_return(queries, keys, values, block_size):
    right(queries, keys, values, block_size)


def total_returned(queries, keys, values, block_size):
    return right(queries, keys, values, block_size), torch.zeros(len(queries))
