"""Writes inputs, results and errors the way a diagnosis shows them: short, and as code."""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LIBRARIES = sys.prefix, sys.base_prefix, Path(__file__).parents[2]  # the last is this package
MOST_ENTRIES = 16  # of a tensor that is written out in full
MOST_CHARACTERS = 200  # of any other value, and of an error's own message


def show(value: Any, digits: int = 4) -> str:
    """``value`` as short Python-like text; a large tensor by dtype and shape alone."""
    if isinstance(value, Tensor):
        return show_tensor(value, digits)
    if isinstance(value, list | tuple) and len(value) <= MOST_ENTRIES:
        entries = ", ".join(show(entry, digits) for entry in value)
        if isinstance(value, list):
            return f"[{entries}]"
        return f"({entries},)" if len(value) == 1 else f"({entries})"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return shortened(safe_text(repr, value))


def show_tensor(tensor: Tensor, digits: int = 4) -> str:
    if tensor.is_meta or tensor.numel() > MOST_ENTRIES:
        return f"a {kind(tensor.dtype)} tensor of shape {tuple(tensor.shape)}"
    text = show(tensor.tolist(), digits)
    usual = (torch.float32, torch.int64, torch.bool)
    return text if tensor.dtype in usual else f"{text} ({kind(tensor.dtype)})"


def show_both(got: Any, right: Any) -> tuple[str, str]:
    """Two different values, with as many digits as it takes to tell them apart."""
    for digits in (4, 6, 8, 12, 17):
        shown = show(got, digits), show(right, digits)
        if shown[0] != shown[1]:
            break
    return shown


def in_full(inputs: Sequence[Any]) -> bool:
    """Whether a case can be read and worked out: no tensor of it is shown by its shape alone."""
    return not any(isinstance(X, Tensor) and X.numel() > MOST_ENTRIES for X in inputs)


def kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def show_case(names: Sequence[str], inputs: Sequence[Any]) -> str:
    """``scores = [[0, 1]], mask = [[True, False]]``; unnamed inputs stand alone."""
    named = [f"{name} = {show(value)}" for name, value in zip(names, inputs, strict=False)]
    return ", ".join(named + [show(value) for value in inputs[len(names) :]])


def show_error(error: BaseException) -> str:
    """``ValueError: what it says``; the type alone where it says nothing."""
    text = shortened(safe_text(str, error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def safe_text(write: Any, value: Any) -> str:
    """A student's class may well raise in its own ``__repr__`` or ``__str__``."""
    try:
        return write(value)
    except Exception:
        return type_in_words(value)


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " ..."


def type_in_words(value: Any) -> str:
    """``a Tensor``, ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def student_line(error: BaseException, caller: str) -> str | None:
    """Where ``error`` arose in the student's own code: ``line 3, `return q / 0```.

    ``caller`` is the file of ours that called that code. Lines of libraries and of this
    package, into which the student's code may have called in turn, are passed over.
    """
    return last_line(traceback.extract_tb(error.__traceback__), caller)


def last_line(frames: Sequence[traceback.FrameSummary], caller: str) -> str | None:
    """The last line of the student's own code in a stack, the most recent frame last."""
    called = [index for index, frame in enumerate(frames) if frame.filename == caller]
    below = frames[called[-1] + 1 :] if called else []
    theirs = [frame for frame in below if not of_a_library(frame.filename)]
    own = [frame for frame in theirs if " with mistake " not in frame.filename]  # edits.py
    if not own or not own[-1].line:
        return None
    return f"line {own[-1].lineno}, `{own[-1].line}`"


def of_a_library(file: str) -> bool:
    inside = (Path(file).is_relative_to(folder) for folder in LIBRARIES)
    return file.startswith("<frozen") or any(inside)
