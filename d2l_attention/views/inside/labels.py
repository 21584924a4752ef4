"""Which words stand at which tensor: the reader names those of the inputs, the run carries them on.

A tensor is known by where its numbers begin in memory, for as long as the tensor lives that was
first seen there; where it has none that can be read, by itself.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from d2l_attention.views.values import shape_of
from d2l_attention.views.words import whole

Words = tuple[str, ...]
PRODUCTS = "matmul", "bmm", "mm", "einsum"  # whose rows are those of the first factor
RECURRENT = "gru", "lstm", "rnn_tanh", "rnn_relu"  # whose states have a row for each layer


class Labels:
    """Words by tensors. A view of a labelled tensor has its words."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref, Words]] = {}

    def give(self, tensor: Tensor, words: Words) -> None:
        if self.of(tensor) is None:
            self._known[_place(tensor)] = weakref.ref(tensor), words

    def of(self, tensor: Tensor) -> Words | None:
        labelled, words = self._labelled(tensor)
        if labelled is None:  # the memory may be somebody else's by now
            return None
        if labelled is tensor:
            return words if len(words) in shape_of(tensor) else None
        # A view has the words where it goes through memory from word to word, as the first does.
        axes = _axes_of_words(labelled)
        steps = _steps(labelled, len(words), axes if len(words) in axes else shape_of(labelled))
        return words if steps & _steps(tensor, len(words), _axes_of_words(tensor)) else None

    def guess(self, tensor: Tensor, candidates: Iterable[Words | None]) -> Words | None:
        """The words among the candidates that fit the length. Of a view ``of`` knows better.

        None where two sentences of one length meet: a wrong word is worse than none.
        """
        axes = _axes_of_words(tensor)
        fitting = {words for words in candidates if words and len(words) in axes}
        return fitting.pop() if len(fitting) == 1 and self._labelled(tensor)[0] is None else None

    def _labelled(self, tensor: Tensor) -> tuple[Tensor | None, Words]:
        """The tensor that was first seen in this memory, and its words; None where that is gone."""
        reference, words = self._known.get(_place(tensor), (None, ()))
        return (reference() if reference else None), words


def _place(tensor: Tensor) -> int:
    """Where its numbers begin: one storage may hold two sentences. Else the tensor, below 0."""
    try:
        memory = tensor.untyped_storage()
        # A fake tensor's is on meta, too: asked for its address, it warns.
        place = 0 if memory.device.type == "meta" else tensor.data_ptr()
    except Exception:  # sparse, nested, a student's own kind: there are many
        place = 0
    return place or -id(tensor)


def _axes_of_words(tensor: Tensor) -> tuple[int | str, ...]:
    """Not a row of features: that is no sentence, even where it holds as many numbers.

    Scores (B, Q, K) and what is turned round to (B, D, n) have no words at their last axis either.
    """
    features = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return shape_of(tensor)[:-1] if features else shape_of(tensor)


def _steps(tensor: Tensor, count: int, axes: tuple[int | str, ...]) -> set[int]:
    """How many bytes apart the entries are on axes of so many; 0 where there is one entry."""
    step = tensor.element_size() * (count > 1)
    return {tensor.stride(i) * step for i, size in enumerate(axes) if size == count}


class CarriedWords(TorchFunctionMode):
    """Words go on with the numbers: what is computed from tensors of one sentence has its words."""

    def __init__(self, labels: Labels):
        super().__init__()
        self.labels = labels

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        found = [self.labels.of(X) for X in _tensors_in(args)]
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention" or name in PRODUCTS and not any(found[:1]):
            found = found[:1]
        if name == "flip" and found[0]:  # as of a source that is read backwards
            axes = tree_leaves((args[1:], kwargs or {}))
            turned = any(args[0].shape[axis] == len(found[0]) for axis in axes)
            found = [found[0][::-1] if turned else found[0]]
        if any(found):
            for X in _tensors_in([result[0] if name in RECURRENT else result]):
                if words := self.labels.guess(X, found):
                    self.labels.give(X, words)
        return result


def _tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """Those that are tensors, also in a list or tuple."""
    each = (value if isinstance(value, list | tuple) else [value] for value in values)
    return [X for some in each for X in some if isinstance(X, Tensor)]


def words_of_inputs(tokens, inputs: Mapping[str, Tensor]) -> dict[str, Words]:
    """The reader's ``tokens`` as words by the name of the input that they belong to.

    Errors: ``TypeError`` for what is no list of str, ``ValueError`` for an unknown input, another
    number of words than the input has tokens, as many words as there are sentences, or other words
    for the same tensor.
    """
    if tokens is None:
        return {}
    if not inputs:
        raise ValueError("tokens name the entries of an input, but no input is a tensor")
    if not isinstance(tokens, Mapping):
        tokens = {next(iter(inputs)): tokens}
    found = {}
    for name, words in tokens.items():
        if name not in inputs:
            raise ValueError(f"tokens has words for {name!r}, the inputs are {', '.join(inputs)}")
        if isinstance(words, str) or not isinstance(words, Sequence):
            raise TypeError(f"tokens must be a list of str, got {type(words).__name__}")
        if not all(isinstance(word, str) for word in words):
            raise TypeError(f"tokens must be a list of str, got {list(words)}")
        shape = shape_of(inputs[name])
        if len(words) not in shape:
            raise ValueError(f"tokens has {len(words)} words for {name}, whose shape is {shape}")
        axes = shape[:-1] if inputs[name].is_floating_point() else shape
        if len(words) > 1 and axes == (len(words),) * 2:  # which of the two has the words?
            raise ValueError(
                f"tokens has {len(words)} words for {name}, whose shape {shape} is that of "
                f"{len(words)} sentences: give one"
            )
        found[name] = tuple(map(whole, words))
        for other in found:
            if inputs[other] is inputs[name] and found[other] != found[name]:
                raise ValueError(f"{other} and {name} are one tensor with two lists of tokens")
    return found
