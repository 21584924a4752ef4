"""How long a student's code may run. Our own work between its calls does not count."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from d2l_attention.exercises.engine.limits import TimeLimit


class Clock:
    """Ends the code inside after ``seconds``, pauses not counted; ``passed`` says that it did.

    What runs inside sees what it sees inside a ``TimeLimit``.
    """

    def __init__(self, seconds: float):
        self.passed = False
        self._left = seconds
        self._limit: TimeLimit | None = None

    def __enter__(self) -> "Clock":
        self.__exit__()  # a stop that came while a pause ended leaves the limit on
        self._since = time.monotonic()
        self._limit = TimeLimit(self._left)
        self._limit.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._limit is None:  # a stop came in a pause
            return
        self._limit.__exit__()
        self.passed = self.passed or self._limit.passed
        self._left = max(0.0, self._left - (time.monotonic() - self._since))
        self._limit = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For work of ours; ``with clock:`` in it is for a call of the student's code."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
