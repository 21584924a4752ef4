"""Limits that work sets itself, in its own process: time and memory."""

import faulthandler
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None


class Clock:
    """Ends this process when what runs inside has taken ``seconds``, pauses not counted.

    Python's own watchdog does it, a thread that needs nothing of Python: it also ends one long
    operation written in C, and code that catches every exception. It leaves in stderr where each
    thread was, for ``Gone``. A process has one such watchdog, so one clock runs at a time.
    """

    def __init__(self, seconds: float):
        self._left = seconds
        self._since: float | None = None

    def __enter__(self) -> "Clock":
        self._since = time.monotonic()
        if self._left < math.inf:
            # 1 ms at least: zero would be an error, and no limit.
            faulthandler.dump_traceback_later(max(self._left, 1e-3), exit=True, file=2)
        return self

    def __exit__(self, *_: object) -> None:
        if self._left < math.inf:
            faulthandler.cancel_dump_traceback_later()
        self._left -= time.monotonic() - self._since

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For work that does not count; ``with clock:`` in it is for what does."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


def limit_memory(most: int) -> None:
    """Make allocations fail that need more than ``most`` bytes on top of what is in use.

    On Linux; elsewhere the system keeps to no such limit, and the caller looks (``Worker.result``).
    """
    sizes = Path("/proc/self/statm")
    if resource is None or not sizes.exists():
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Not the address space: a GPU's driver reserves far more of it than it uses.
    data = int(sizes.read_text("utf-8").split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or data + most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (data + most, hard))
