"""Show the package's own code in a notebook, instead of a second copy of it."""

import inspect
import re
from typing import Any


class Source:
    """Python source that a notebook displays with its own highlighting."""

    def __init__(self, code: str):
        self.code = code

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        fences = re.findall("`{3,}", self.code)  # a docstring may hold a fence of its own
        fence = max(["``", *fences], key=len) + "`"
        return f"{fence}python\n{self.code}\n{fence}"


def show_source(thing: Any) -> Source:
    """The source of a function, class or module, exactly as the package runs it.

    Errors: ``TypeError`` for what has no Python source (numbers, built-in functions).
    """
    try:
        return Source(inspect.getsource(thing).rstrip())
    except (TypeError, OSError) as error:
        raise TypeError(f"no Python source for {thing!r}: pass a function or a class") from error
