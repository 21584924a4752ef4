"""Limits that work sets itself, in its own process: time and memory."""

import faulthandler
import sys
import time
from pathlib import Path


class Clock:
    """Ends this process when what runs inside has taken ``seconds`` altogether.

    ``with clock:`` may be entered often; only the time inside counts. Python's own watchdog does
    it, a thread that needs nothing of Python: it also ends one long operation written in C, and
    code that catches every exception. It leaves in stderr where each thread was.
    """

    def __init__(self, seconds: float):
        self.left = seconds
        self._depth = 0  # it may be entered inside itself

    def __enter__(self) -> None:
        if self._depth == 0:
            self._since = time.monotonic()
            # 1 ms at least: zero would be an error, and no limit.
            faulthandler.dump_traceback_later(max(self.left, 1e-3), exit=True, file=2)
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            faulthandler.cancel_dump_traceback_later()
            self.left -= time.monotonic() - self._since


def limit_memory(most: int) -> None:
    """Make allocations fail that need more than ``most`` bytes on top of what is in use.

    On Linux; elsewhere the system keeps to no such limit, and the caller looks (``Worker.result``).
    """
    sizes = Path("/proc/self/statm")
    if sys.platform != "linux" or not sizes.exists():
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Not the address space: a GPU's driver reserves far more of it than it uses.
    data = int(sizes.read_text().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or data + most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (data + most, hard))
