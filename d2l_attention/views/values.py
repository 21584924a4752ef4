"""A value at one moment of a run: a mark that tells when it has changed, and a copy.

A change is seen in tensors, arrays and Python's own containers, three levels deep. Nothing else is
copied either.
"""

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST_ENTRIES = 100  # of a list or a deque that are looked at
MOST_NUMBERS = 10_000  # of a tensor that are compared
DICTS = dict, Counter, OrderedDict, defaultdict
CONTAINERS = *DICTS, list, tuple, set, frozenset, deque
PLAIN = int, float, complex, bool, str


def mark(value: Any, depth: int = 3) -> Any:
    """Differs where ``value`` is another one, or was changed in place."""
    if isinstance(value, Tensor):
        return id(value), version(value), shape_of(value), value.dtype, numbers(value)
    if isinstance(value, np.ndarray):
        return id(value), value.shape, value.dtype, value.tobytes()
    if is_container(value) and depth:
        marks = (mark(entry, depth - 1) for entry in entries_of(value))
        # The same entries may come in another order.
        unordered = type(value) in (set, frozenset)
        return id(value), len(value), frozenset(marks) if unordered else tuple(marks)
    if type(value) in PLAIN:
        return type(value), repr(value)  # where NaN equals NaN
    return id(value)


def shape_of(tensor: Tensor) -> tuple[int | str, ...]:
    """A tensor's sizes; "?" for an axis that has no single one, as in nested tensors."""
    return tuple(_size(tensor, axis) for axis in range(tensor.ndim))


def shape_text(tensor: Tensor) -> str:
    return str(shape_of(tensor)).replace("'", "")  # '?' is no text here


def _size(tensor: Tensor, axis: int) -> int | str:
    try:
        size = tensor.size(axis)
    except RuntimeError:
        return "?"
    return size if isinstance(size, int) else "?"  # a symbol, which JSON does not know


def readable(tensor: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A copy on the CPU whose numbers can be read for as long as it lives, bool or of ``dtype``.

    Errors: ``RuntimeError`` for what has no numbers (on meta, fake), or has them only inside of
    ``vmap`` or ``grad``; ``TypeError`` for complex numbers, of which a half would be kept.
    """
    if tensor.is_complex():
        raise TypeError("complex numbers are two numbers each")
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    copied = tensor.to("cpu", None if tensor.dtype == torch.bool else dtype, copy=True)
    copied.numpy()  # raises where there is no memory to read
    return copied


def drawable(value: Any) -> Tensor | None:
    """The numbers of a tensor or an array of at least one axis, as ``readable``; else None."""
    try:
        tensor = torch.as_tensor(value) if isinstance(value, np.ndarray) else value
        if isinstance(tensor, Tensor) and tensor.ndim and tensor.numel():
            return readable(tensor, torch.float64)
    except Exception:  # arrays of text, sparse, nested, fake, inside vmap: there are many
        pass
    return None


def version(tensor: Tensor) -> int | None:
    """PyTorch's count of the changes in place; in inference mode there is none."""
    try:
        return tensor._version
    except RuntimeError:
        return None


def numbers(tensor: Tensor) -> bytes | None:
    """A tensor's numbers: what is written through ``.data`` or NumPy is not counted."""
    try:
        if tensor.numel() <= MOST_NUMBERS or tensor.is_inference():  # whose changes nobody counts
            return tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes()
    except Exception:  # sparse, nested, inside vmap, a student's own kind: there are many
        pass
    return None


def is_container(value: Any) -> bool:
    """Python's own containers, and all kinds of tuples: with names, or as ``max`` returns them."""
    return type(value) in CONTAINERS or isinstance(value, tuple)


def entries_of(value: Any, most: int | None = MOST_ENTRIES) -> list:
    """What a container holds; of a dict its keys and values."""
    if type(value) in DICTS:
        return [*value, *value.values()]
    if type(value) in (set, frozenset):
        return list(value)
    return list(islice(value, most)) if is_container(value) else []


def attributes_of(owner: Any) -> dict[str, Any]:
    """A method's ``self.n`` and so on: those attributes in which a change can be seen.

    Of a layer its own parameters and buffers, too; none whose name begins with an underscore.
    """
    inside = dict(getattr(owner, "__dict__", {}))
    if isinstance(owner, nn.Module):
        inside |= inside.get("_parameters", {}) | inside.get("_buffers", {})
    return {
        f"self.{name}": value
        for name, value in inside.items()
        if name.isidentifier()
        and not name.startswith("_")  # else it cannot be written so
        and (isinstance(value, Tensor | np.ndarray) or is_container(value) or type(value) in PLAIN)
    }


def kept(value: Any, depth: int = 3) -> Any:
    """A copy of what can change in place."""
    if isinstance(value, Tensor):
        try:
            return value.detach().clone()
        except Exception as error:  # a student's own kind of tensor must not stop the run
            return f"a {type(value).__name__} that cannot be copied: {type(error).__name__}"
    if isinstance(value, np.ndarray):
        return value.copy()
    if is_container(value) and depth:
        # Each kind is built in its own way, which deepcopy knows; it takes these as the copies.
        entries = (entry for entry in entries_of(value, None) if entry is not value)
        copies = {id(entry): kept(entry, depth - 1) for entry in entries}
        try:
            return copy.deepcopy(value, copies)
        except Exception:  # a student's own kind of tuple must not stop the run
            return value
    return value


def num_bytes(copied: Any, depth: int = 3) -> int:
    """The bytes of the tensors and arrays in what ``kept`` gave."""
    if isinstance(copied, Tensor):
        return copied.numel() * copied.element_size()
    if isinstance(copied, np.ndarray):
        return copied.nbytes
    if is_container(copied) and depth:
        return sum(num_bytes(entry, depth - 1) for entry in entries_of(copied, None))
    return 0
