"""Which tensors were made of which, while a model runs: the arrows between its parts.

PyTorch tells of every operation, below Python's own functions: of its inputs, its outputs, and what
it changes in place. A tensor is known by its window on memory, so that a view is known as well.
What goes on unseen (NumPy, other threads, inside ``vmap``) makes no arrow.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HEADS = "the heads"
OVERWRITES = "copy_", "fill_", "zero_", "normal_", "uniform_"  # the numbers before are not read
EXACT = 1_000_000  # numbers: windows on more memory meet where their ends do


@dataclass(eq=False)
class Made:
    """Where numbers come from, in a part: an input, a call of an inner part, or an operation."""

    of: list["Made"] = field(default_factory=list)
    what: str | None = None  # None for an operation
    above: "Made | None" = None  # what an input is in the part above

    def named(self) -> list["Made"]:
        """The nearest that are no operations."""
        found, seen, waiting = [], {self}, [self]
        while waiting:
            made = waiting.pop()
            if made.what is not None:
                found.append(made)
                continue
            new = [each for each in made.of if each not in seen]
            seen.update(new)
            waiting.extend(new)
        return found


class Window(NamedTuple):
    """Where a tensor's numbers are; of one without memory, itself: below 0."""

    memory: int
    start: int = 0
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        sizes = zip(self.shape, self.stride, strict=True)
        return self.start + 1 + sum((size - 1) * step for size, step in sizes)


class Part:
    """A part that runs, and what is known in it. Its tensors keep their memory meanwhile."""

    def __init__(self, above: "Part | None", inputs: Iterable[Tensor]):
        self.above, self.made = above, Made(what="a call")
        self.known: dict[Window, Made] = {}
        self.alive: list[Tensor] = []
        self.read: dict[Made, None] = {}  # of the part above
        self.blind = True  # no operation was seen in it
        self.heads: Made | None = None  # of an attention of another library
        self.last: Made | None = None  # what gives the output, if not an operation
        self.inputs = []
        for X in inputs:
            made = Made(what="an input", above=above.of(X) if above else None)
            self.inputs.append(made)
            if window(X) not in self.known:
                self.put(X, made)

    def put(self, X: Tensor, made: Made) -> None:
        self.known[window(X)] = made
        self.alive.append(X)

    def of(self, X: Any) -> Made | None:
        return self.known.get(window(X)) if isinstance(X, Tensor) else None

    def reads(self, made: Made) -> None:
        if made.above is not None:
            self.read[made.above] = None


class Flow(TorchDispatchMode):
    """Follows the operations of one thread. ``parts`` are those that run, the inner ones last."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Part] = []
        self.off = False
        self.thread = threading.get_ident()

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What is done meanwhile is none of the model's."""
        before, here = self.off, threading.get_ident() == self.thread
        self.off = before or here
        try:
            yield
        finally:
            self.off = before if here else self.off

    def begin(self, part: Part) -> None:
        if threading.get_ident() == self.thread:
            self.parts.append(part)

    def forget(self, part: Part) -> None:
        """The part is over, and what came out of it is not asked for."""
        if part in self.parts:
            self.parts.remove(part)

    def end(self, part: Part, outputs: Iterable[Tensor]) -> Made:
        """The part is over, and the one above knows what came out of it."""
        self.forget(part)
        for X in outputs:
            for made in (part.of(X) or Made()).named():
                part.reads(made)
            if part.above is not None:
                part.above.put(X, part.made)
        for made in part.inputs if part.blind else []:
            part.reads(made)
        part.made.of = list(part.read)
        for made in part.read:
            assert part.above is not None
            part.above.reads(made)
        return part.made

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if self.parts and not self.off:
            with suppress(Exception):  # odd tensors: what is not understood makes no arrow
                self._note(func._schema, args, kwargs or {}, output)
        return output

    def _note(self, schema: torch.FunctionSchema, args: tuple, kwargs: dict, output: Any) -> None:
        name, inner = schema.name.rpartition("::")[2], self.parts[-1]
        given = [*zip(schema.arguments, args, strict=False)]
        given += [(each, kwargs[each.name]) for each in schema.arguments if each.name in kwargs]
        read, written = [], []
        for argument, value in given:
            tensors = [X for X in tree_leaves(value) if isinstance(X, Tensor)]
            changes = argument.alias_info is not None and argument.alias_info.is_write
            written += tensors if changes else []
            if not changes or not (argument.is_out or name in OVERWRITES):
                read += tensors
        for part in self.parts:
            part.blind = False
        if name.startswith("new_") or name.endswith("_like"):
            return  # made in the shape of another, without its numbers
        memory = {window(X).memory: X for X in read}
        new = [] if written else [X for X in tree_leaves(output) if isinstance(X, Tensor)]
        views = [X for X in new if window(X).memory in memory]
        for X in views:  # a view is what it looks at
            if seen := inner.of(memory[window(X).memory]):
                inner.put(X, seen)
        if len(new) == len(views) and not written:
            return
        made = Made([each for each in map(self._read, read) if each is not None])
        for X in new if made.of else []:
            if window(X).memory not in memory:
                inner.put(X, made)
        for X in written:
            self._write(X, made)

    def _read(self, X: Tensor) -> Made | None:
        """What X is in the inner part; that outer parts know it is noted in those between."""
        inner: Part | None = None
        for part in reversed(self.parts):
            made = part.of(X)
            if made is None:
                inner = part
                continue
            if inner is None:
                part.reads(made)
                return made
            inner.read[made] = None
            return None
        return None

    def _write(self, X: Tensor, made: Made) -> None:
        """Every window on these numbers is made of them as well, in all parts that know one."""
        here = window(X)
        for part, inner in zip(self.parts, [*self.parts[1:], None], strict=True):
            new = made if inner is None else inner.made
            for place, old in list(part.known.items()):
                if place != here and meet(place, here):
                    part.known[place] = Made([old, new])
            if here in part.known or (inner is None and made.of):
                part.put(X, new)


def window(X: Tensor) -> Window:
    try:
        memory = X.untyped_storage()
        address = 0 if memory.device.type == "meta" else memory.data_ptr()
        place = X.storage_offset(), tuple(X.shape), X.stride()
    except Exception:  # sparse, nested, a student's own kind: there are many
        address = 0
    return Window(address, *place) if address else Window(-id(X))


def meet(one: Window, other: Window) -> bool:
    """Whether two windows share a number."""
    if one.memory != other.memory or 0 in one.shape or 0 in other.shape:
        return False
    if one.end <= other.start or other.end <= one.start:
        return False
    end = max(one.end, other.end)
    if end > EXACT:
        return True
    numbers = torch.zeros(end, dtype=torch.bool)
    numbers.as_strided(one.shape, one.stride, one.start).fill_(True)
    return bool(numbers.as_strided(other.shape, other.stride, other.start).any())
