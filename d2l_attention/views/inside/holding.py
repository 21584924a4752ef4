"""The tensors of a call: found in its arguments and outputs by their names, and kept in part."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from d2l_attention.views.inside.labels import Words
from d2l_attention.views.values import readable, shape_of

SIDE = 64  # rows and columns of a tensor that are kept
BEST = 3  # words of a row of scores
DEPTH = 3  # of lists in lists of tensors that are looked into
MOST_TENSORS = 6  # of one input or output, which may be a list of hundreds
MOST_FOLLOWED = 20_000  # of those that are not shown
NO_NUMBERS = torch.empty(0, 0)  # made here: inside of a run it might be a fake one


@dataclass
class Held:
    """A tensor as it was at one moment: its first matrix, cut at ``SIDE``."""

    name: str
    shape: tuple[int | str, ...]  # "?" where an axis has no single size
    dtype: str  # and what kind of tensor it is, where there are no numbers
    numbers: Tensor  # (rows, columns), float32, of those of ``matrix``
    matrix: tuple[int, int]  # rows and columns that there are
    words: Words | None
    best: list[list[tuple[str, float]]] | None = None  # of each row, where the columns score words


def arguments_of(module: nn.Module, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The arguments of a ``forward`` by their names."""
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a call that is wrong, or a forward that cannot be asked
        return {f"input {i}": value for i, value in enumerate(args)} | kwargs
    found: dict[str, Any] = {}
    for name, value in bound.items():
        kind = inspect.signature(module.forward).parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            # What a forward calls ``*args`` has no name of its own; one of them is the input.
            found |= {f"input {i}" if len(value) > 1 else "input": v for i, v in enumerate(value)}
        else:
            found[name] = value
    return found


def tensors_of(module: nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, value in arguments_of(module, args, dict(kwargs)).items():
        found |= tensors_in(name, value)
    return found


def merged(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """One tensor that comes in under several names, once: in self-attention queries = keys."""
    names: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(id(tensor), []).append(name)
    return {" = ".join(names[id(tensor)]): tensor for tensor in tensors.values()}


def with_others(shown: Iterable[Tensor], value: Any) -> list[Tensor]:
    """The tensors that are shown, and behind them all others in a value."""
    every = tensors_in("", value, DEPTH + 2, MOST_FOLLOWED).values()
    return list({id(X): X for X in (*shown, *every)}.values())


def tensors_in(
    name: str, value: Any, depth: int = DEPTH, most: int = MOST_TENSORS
) -> dict[str, Tensor]:
    """The tensors in a value by their names: X, state[0], output.logits."""
    if isinstance(value, Tensor):
        return {name: value}
    if depth == 0:
        return {}
    if isinstance(value, PackedSequence):
        return {name: value.data}
    if isinstance(value, Mapping):  # the outputs of ``transformers`` are such, too
        parts = {f"{name}.{key}": entry for key, entry in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {f"{name}.{key.name}": getattr(value, key.name, None) for key in fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = {f"{name}.{key}": getattr(value, key) for key in value._fields}
    elif isinstance(value, list | tuple):
        parts = {f"{name}[{i}]": entry for i, entry in enumerate(value)}
    else:
        return {}
    found: dict[str, Tensor] = {}
    for key, entry in parts.items():
        found |= tensors_in(key, entry, depth - 1, most)
        if len(found) >= most:
            break
    return dict(list(found.items())[:most])


def held(name: str, tensor: Tensor, words: Words | None, scored: Words | None = None) -> Held:
    """A copy of the first matrix. An axis of length 1 is no axis of a matrix, where others are."""
    shape, dtype = shape_of(tensor), str(tensor.dtype).removeprefix("torch.")
    try:
        matrix = tensor.detach()
        while matrix.ndim > 2:
            matrix = matrix.squeeze(matrix.shape.index(1)) if 1 in matrix.shape else matrix[0]
        matrix = torch.atleast_2d(matrix)
        numbers = readable(matrix[:SIDE, :SIDE]).float()
        sizes = tuple(matrix.shape)
        best = None
        if scored is not None and sizes[1] == len(scored) > 1 and tensor.is_floating_point():
            shares, index = _shares(matrix[:SIDE]).topk(min(BEST, len(scored)))
            best = [
                [(scored[i], share) for i, share in zip(*row, strict=True)]
                for row in zip(index.tolist(), shares.tolist(), strict=True)
            ]
    except Exception:  # sparse, nested, complex, meta, a student's own kind: there are many
        numbers, sizes, best = NO_NUMBERS, (0, 0), None
        dtype = ", ".join([dtype, *_odd_kind(tensor)])
    return Held(name, shape, dtype, numbers, sizes, words, best)


def _shares(rows: Tensor) -> Tensor:
    """Of scores the softmax; rows that are probabilities already stay as they are."""
    given = rows.min() >= 0 and ((rows.float().sum(dim=-1) - 1).abs() < 1e-3).all()
    return rows if given else rows.softmax(dim=-1)


def _odd_kind(tensor: Tensor) -> list[str]:
    """What kind of tensor this is, whose numbers cannot be read."""
    if tensor.is_nested:
        return ["nested"]
    if tensor.layout != torch.strided:
        return [str(tensor.layout).removeprefix("torch.").removesuffix("_coo").strip("_")]
    if tensor.is_meta:
        return ["meta"]
    return [] if type(tensor) is Tensor else [type(tensor).__name__]
