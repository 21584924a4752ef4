"""What a layer has projected already: decoding adds a token and pays for that token only."""

from dataclasses import dataclass

import torch
from torch import Tensor

from d2l_attention.attention.checks import check_floats


@dataclass
class _Buffer:
    """Keys and values (B, H, size, D / H), of which the first ``used`` rows are written."""

    keys: Tensor
    values: Tensor
    used: int

    def larger(self, length: int, size: int) -> "_Buffer":
        """The first ``length`` rows, copied to a buffer of ``size`` rows."""
        moved = _Buffer(_empty_like(self.keys, size), _empty_like(self.values, size), length)
        moved.keys[:, :, :length] = self.keys[:, :, :length]
        moved.values[:, :, :length] = self.values[:, :, :length]
        return moved


class KeyValueCache:
    """Keys and values of the tokens so far, split into heads. It grows in place, for one layer.

    ``len(cache)`` is the number of tokens; ``keys`` and ``values``, (B, H, n, D / H), are
    ``None`` before the first. ``copy.copy(cache)`` moves no numbers, and each of the two may
    go on in its own way. An empty cache is false, as an empty list is: write
    ``cache is not None``.
    """

    def __init__(self) -> None:
        self._buffer: _Buffer | None = None
        self._length: int = 0
        self._made_in = _backward_pass()

    def __copy__(self) -> "KeyValueCache":
        twin = KeyValueCache()
        twin._buffer, twin._length = self._buffer, self._length
        return twin

    def __len__(self) -> int:
        return self._length

    @property
    def keys(self) -> Tensor | None:
        return None if self._buffer is None else self._buffer.keys[:, :, : self._length]

    @property
    def values(self) -> Tensor | None:
        return None if self._buffer is None else self._buffer.values[:, :, : self._length]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put tokens at the end; returns all keys and all values.

        Shape: keys and values (B, H, new, D / H) -> (B, H, n + new, D / H) each.

        Errors: ``ValueError`` where they do not continue what is there; ``RuntimeError`` where
        ``torch.utils.checkpoint`` runs a layer again in the backward pass: the tokens of that layer
        would be there twice.
        """
        if self._made_in != _backward_pass():
            raise RuntimeError(
                "this cache was filled before the backward pass, in which checkpoint runs a layer "
                "again: make the cache, or a copy of it, inside the function that you checkpoint"
            )
        _check_continuation("keys", self.keys, keys)
        _check_continuation("values", self.values, values)
        if keys.shape[:3] != values.shape[:3]:
            raise ValueError(
                "keys and values must come in pairs, "
                f"got keys {tuple(keys.shape)} and values {tuple(values.shape)}"
            )
        start, end = self._length, self._length + keys.shape[2]
        if self._buffer is None:
            # A copy of our own, whose rows lie together. With a gradient nobody may change them.
            if not (torch.is_grad_enabled() and keys.requires_grad and values.requires_grad):
                keys, values = (
                    X.clone(memory_format=torch.contiguous_format) for X in (keys, values)
                )
            self._buffer = _Buffer(keys, values, end)
        elif torch.is_grad_enabled():  # the backward pass needs the rows as they were
            old_keys, old_values = self.pairs()
            keys, values = (
                torch.cat((old_keys, keys), dim=2),
                torch.cat((old_values, values), dim=2),
            )
            self._buffer = _Buffer(keys, values, end)
        else:
            # Two copies of a cache share this buffer: where the other has written past our end, we
            # copy before we append. And what was made under inference_mode, PyTorch locks later.
            taken = self._buffer.used > start
            locked = self._buffer.keys.is_inference() and not torch.is_inference_mode_enabled()
            if taken or locked or end > self._buffer.keys.shape[2]:
                # Twice the size: then a row is copied about once, however many follow.
                self._buffer = self._buffer.larger(start, 2 * end)
            self._buffer.keys[:, :, start:end] = keys
            self._buffer.values[:, :, start:end] = values
            self._buffer.used = end
        self._length = end
        return self.pairs()

    def pairs(self) -> tuple[Tensor, Tensor]:
        """All keys and all values. Shape: (B, H, n, D / H) each.

        Errors: ``ValueError`` where there are none.
        """
        if self._buffer is None:
            raise ValueError("the cache is empty: give it keys and values once")
        return self._buffer.keys[:, :, : self._length], self._buffer.values[:, :, : self._length]

    def select(self, index: Tensor) -> "KeyValueCache":
        """A cache of these sequences of the batch, in this order: what a beam search keeps.

        Shape: index (any number,), integers.

        Errors: ``ValueError`` for an index of another shape.
        """
        if not isinstance(index, Tensor) or index.ndim != 1:
            raise ValueError(f"index must be a tensor (any number,), got {index!r}")
        chosen = KeyValueCache()
        if self._buffer is not None:
            keys, values = self._buffer.keys[index], self._buffer.values[index]
            chosen._buffer, chosen._length = _Buffer(keys, values, self._length), self._length
        return chosen


def _backward_pass() -> int:
    """The number of the backward pass that is running, -1 outside of one."""
    # PyTorch has no public name for it; a compiled graph has no backward pass inside.
    return -1 if torch.compiler.is_compiling() else torch._C._current_graph_task_id()


def _empty_like(rows: Tensor, size: int) -> Tensor:
    """An empty tensor like ``rows``, (B, H, n, D / H), for another number of rows."""
    return rows.new_empty((*rows.shape[:2], size, rows.shape[3]))


def check_cached_source(queries: Tensor, values: Tensor | None, cache: KeyValueCache) -> None:
    """Raise unless the queries can attend to what the cache holds, and to nothing else."""
    check_floats("queries", queries)
    if values is not None:
        raise ValueError(f"values must be None as the keys are, got {type(values).__name__}")
    keys, _ = cache.pairs()
    if len(keys) != len(queries):
        raise ValueError(
            f"the cache holds {len(keys)} sequences, got queries {tuple(queries.shape)}"
        )


def _check_continuation(name: str, old: Tensor | None, new: Tensor) -> None:
    """Raise unless ``new``, (B, H, new, D / H), differs from ``old`` in that one axis only."""
    if new.ndim != 4:
        raise ValueError(f"{name} must have shape (B, H, new, D / H), got {tuple(new.shape)}")
    if old is None:
        return
    fits = old.shape[:2] == new.shape[:2] and old.shape[3] == new.shape[3]
    if not fits or old.dtype != new.dtype:
        raise ValueError(
            f"the cache holds {name} {tuple(old.shape)} in {old.dtype}: "
            f"{tuple(new.shape)} in {new.dtype} do not continue them"
        )
