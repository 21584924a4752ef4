"""What an answer prints: the first lines are passed on, the rest is dropped."""

import io
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_PRINTED = 1000  # characters
MOST_LINES = 10


class Printed(io.TextIOBase):
    """Passes on the first lines and drops the rest."""

    def __init__(self, pass_on: Callable[[str], None]):
        self._pass_on = pass_on
        self._characters = self._lines = 0

    def write(self, text: str) -> int:
        if self._characters < MOST_PRINTED and self._lines < MOST_LINES:
            kept = "".join(text.splitlines(keepends=True)[: MOST_LINES - self._lines])
            kept = kept[: MOST_PRINTED - self._characters]
            self._characters += len(kept)
            self._lines += kept.count("\n")
            self._pass_on(kept)
        elif self._lines < math.inf:
            self._lines = math.inf
            self._pass_on("... (the rest is not shown)")
        return len(text)


@contextmanager
def printing_to(pass_on: Callable[[str], None]) -> Iterator[None]:
    """Sends what the code inside prints to ``pass_on``."""
    before = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = Printed(pass_on)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
