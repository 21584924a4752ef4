"""On Linux a worker is a copy of a Python that has imported what its work needs.

Such a copy takes milliseconds where a new Python takes a second or two. What is copied is never the
notebook's own process, which has threads and sockets, perhaps a GPU in use, but a fork server: a
Python that imports, waits, and does nothing else, so each copy of it is as good as new.

Between the two stands a nurse. It waits for its worker's end, then ends all that was started below
it, and tells the caller how the worker ended::

    caller --> fork server --> nurse --> worker
"""

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, NoReturn

import psutil

from d2l_attention.system.workers import inside
from d2l_attention.system.workers.spawned import new_python

CAN_FORK = sys.platform == "linux" and hasattr(os, "fork")
ORPHANS_COME_TO_ME = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>


class ForkServer:
    """Starts workers. It begins with the first, and again where it has ended after idle minutes."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str] | None = None):
        self._modules, self._environment = modules, environment
        self._python: subprocess.Popen | None = None
        self._channel: socket.socket | None = None

    def fork(self, log: BinaryIO) -> "Forked":
        """A worker that will write to ``log``, as the server does which is started for it."""
        if self._python is None or self._python.poll() is not None:
            self._start(log)
        (its_input, to_it), (from_it, its_output), (news, its_news) = [os.pipe() for _ in range(3)]
        its_own = its_input, its_output, log.fileno(), its_news
        try:
            socket.send_fds(self._channel, [b"a worker, please"], its_own)
        except OSError:  # the server ended just now: its pipes tell that nobody is there
            pass
        for end in (its_input, its_output, its_news):
            os.close(end)
        return Forked(to_it, from_it, news)

    def end(self) -> None:
        """End the server; workers that it has started live on."""
        if self._channel is not None:
            self._channel.close()
        if self._python is not None:
            self._python.kill()
            self._python.wait()
        self._channel = self._python = None

    def _start(self, log: BinaryIO) -> None:
        self.end()
        self._channel, its_end = socket.socketpair()
        with its_end:
            self._python = new_python(
                f"from {__name__} import serve; serve({its_end.fileno()}, {list(self._modules)})",
                self._environment,
                pass_fds=[its_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )


class Forked:
    """A worker's process, for its caller: what ``Worker`` needs of a ``subprocess.Popen``."""

    def __init__(self, to_it: int, from_it: int, news: int):
        self.stdin, self.stdout = os.fdopen(to_it, "wb"), os.fdopen(from_it, "rb")
        # The nurse writes the worker's number, and in the end its exit code, a line each.
        self._news = os.fdopen(news, "rb", buffering=0)
        self._lines: list[int] = []
        self._process: psutil.Process | None = None
        self._is_over = False

    @property
    def pid(self) -> int | None:
        """Its number; None where it has not begun."""
        self._listen(0.0)
        return self._lines[0] if self._lines else None

    @property
    def is_over(self) -> bool:
        while not self._is_over and self._listen(0.0):
            pass
        return self._is_over

    def wait(self, timeout: float | None = None) -> int | None:
        """Its exit code; None where nobody was left to tell it."""
        while not self._is_over:
            if not self._listen(timeout):
                raise subprocess.TimeoutExpired("a worker", timeout)
        return self._lines[1] if len(self._lines) == 2 else None

    def end(self) -> None:
        """End it, and all that was started below it."""
        with suppress(OSError):  # there was work in it that nobody took
            self.stdin.close()  # one that has yet to begin ends by that
        if self.pid is not None and self._process is not None:
            with suppress(psutil.Error):
                self._process.kill()
        self.wait()
        self._news.close()

    def _listen(self, seconds: float | None) -> bool:
        """Hear the nurse's next line; False where none comes in so many seconds."""
        if self._is_over or not select.select([self._news], [], [], seconds)[0]:
            return self._is_over
        line = self._news.readline()
        if line:
            self._lines.append(int(line))
        if len(self._lines) == 1:
            with suppress(psutil.NoSuchProcess):
                self._process = psutil.Process(self._lines[0])
        self._is_over = not line or len(self._lines) == 2
        return True


# ---- In the fork server, and in what it forks -------------------------------------------------


def serve(channel: int, modules: Sequence[str]) -> None:
    """The whole life of a fork server: import, then a worker for each message of its caller."""
    for name in modules:
        with suppress(Exception):  # a worker imports them once more, and tells
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a copy shares what Python's search for garbage does not touch
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a nurse's own end interests nobody
    calls = socket.socket(fileno=channel)
    calls.settimeout(inside.IDLE)
    while True:
        try:
            called, ends, _, _ = socket.recv_fds(calls, 64, 4)
        except TimeoutError:
            called = b""
        if not called:  # or the caller has gone
            os._exit(0)
        with saying_why_not(log=ends[2]):
            if os.fork() == 0:
                calls.close()
                with saying_why_not(log=ends[2]):
                    nurse(*ends)
                os._exit(1)
        for end in ends:
            os.close(end)


@contextmanager
def saying_why_not(log: int) -> Iterator[None]:
    """For a system that has no place for another process."""
    try:
        yield
    except OSError as error:
        os.write(log, str(error).encode())


def nurse(its_input: int, its_output: int, log: int, news: int) -> NoReturn:
    """Start a worker, wait for its end, end what is left below it, and tell."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(ORPHANS_COME_TO_ME, 1, 0, 0, 0)
    worker = os.fork()
    if worker == 0:
        os.close(news)
        os.setsid()
        for there, here in enumerate((its_input, its_output, log)):
            os.dup2(here, there)
            os.close(here)
        try:
            inside.main()
        finally:
            os._exit(1)
    for end in (its_input, its_output, log):
        os.close(end)
    os.write(news, f"{worker}\n".encode())
    _, status = os.waitpid(worker, 0)
    end_all_below()
    os.write(news, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def end_all_below() -> None:
    """End all processes below this one, to which those come whose parent has ended."""
    while True:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.kill()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
