"""Scores that come one tile at a time, for 10.3."""

import weakref
from collections.abc import Iterator

import torch
from torch import Tensor

from d2l_attention.exercises.show import show


class Tiles:
    """Made anew in each pass. It notes how often it was read, and how many tiles were kept."""

    def __init__(self, *tiles: list | Tensor, dtype: torch.dtype = torch.float32):
        self.tiles = [torch.as_tensor(tile, dtype=dtype) for tile in tiles]
        self.passes, self.kept = 0, 0

    def __iter__(self) -> Iterator[Tensor]:
        self.passes += 1
        given = []
        for tile in self.tiles:
            self.kept = max(self.kept, sum(old() is not None for old in given))
            tile = tile.clone()
            given.append(weakref.ref(tile))
            yield tile
            del tile  # or it would live because of us

    def __repr__(self) -> str:
        return f"[{', '.join(map(show, self.tiles))}]"

    def whole(self) -> Tensor:
        """(Q, K): what the student's function never sees."""
        return torch.cat(self.tiles, dim=-1)
