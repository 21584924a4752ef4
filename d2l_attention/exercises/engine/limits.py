"""Limits for code that was not written by us: time, memory, printed text."""

import _thread
import io
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_PRINTED = 1000  # characters
MOST_LINES = 10
MEMORY = 2 * 1024**3  # bytes on top of what the kernel already holds


class TimeLimit:
    """Presses the kernel's stop button after ``seconds``; ``passed`` says that it did.

    The code inside sees a ``KeyboardInterrupt``, as from the student's own hand. Code inside
    one long operation written in C sees it only when that returns.
    """

    def __init__(self, seconds: float):
        self.passed = False
        self._timer = threading.Timer(seconds, self._press)
        self._timer.daemon = True
        # Python lets only the main thread handle signals.
        self._works = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "TimeLimit":
        if self._works:
            self._before = signal.signal(signal.SIGINT, signal.default_int_handler)
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._works:
            return
        try:
            self._timer.cancel()
            self._timer.join()
            for _ in range(2):  # a stop that came just now is delivered here, and ends here
                pass
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGINT, self._before)

    def _press(self) -> None:
        self.passed = True
        if hasattr(signal, "pthread_kill"):  # wakes up time.sleep as well
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        else:
            _thread.interrupt_main()


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


def limit_memory() -> None:
    """Make larger allocations fail in this process, before they freeze the machine."""
    import resource  # not on Windows

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sizes = Path("/proc/self/statm")
    if sizes.exists():  # Linux; elsewhere the system does not keep to such a limit
        in_use = int(sizes.read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = in_use + MEMORY
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
