"""Work as it travels to a worker: a pickle of a function and its arguments."""

import functools
import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import cloudpickle

Cached = type(functools.cache(len))


class CannotTravel(TypeError):
    """The work cannot be turned into a pickle; the message says what stands in the way."""


def packed(function: Callable, *arguments: Any, **named: Any) -> bytes:
    """A call as bytes, with the text of a notebook's cells, which no file holds.

    Errors: ``CannotTravel``.
    """
    work = io.BytesIO()
    try:
        Packer(work).dump((function, arguments, named))
    except Exception as error:  # an object decides itself how it refuses
        raise CannotTravel(str(error) or type(error).__name__) from error
    cells = {
        name: (len(entry[2]), None, entry[2], name)  # None: there is no file to compare with
        for name, entry in list(linecache.cache.items())
        if len(entry) == 4 and not os.path.exists(name)
    }
    return pickle.dumps((work.getvalue(), search_path(), current_folder(), cells))


def search_path() -> list[str]:
    """Where Python looks for modules: in ``sys.path``, of which it reads strings alone."""
    return [path for path in sys.path if isinstance(path, str)]


def current_folder() -> str | None:
    """Where the caller is, unless somebody has deleted that folder."""
    try:
        return os.getcwd()
    except OSError:
        return None


class Packer(cloudpickle.Pickler):
    """Functions of a notebook by their code, others by their name, compiled ones as written."""

    def reducer_override(self, obj: Any) -> Any:
        written = as_written(obj)
        if written is not obj:
            return same, (written,)
        if type(obj) is Cached and obj.__module__ == "__main__":  # `@cache` in a notebook
            return cached_anew, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)


def as_written(thing: Any) -> Any:
    """A compiled function or module as it was before it was compiled; anything else as it is.

    What is no function of Python's own or module of torch's own is not even looked at.
    """
    if type(thing) is FunctionType:
        return thing.__dict__.get("_torchdynamo_orig_callable", thing)
    if type(thing).__name__ == "OptimizedModule":
        return thing._orig_mod
    return thing


def cached_anew(function: Callable, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def same(thing: Any) -> Any:
    return thing
