"""The caller's side of a worker: start it, give it work, hear it, end it with all below it."""

import pickle
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import psutil

from d2l_attention.system.workers import inside
from d2l_attention.system.workers.forked import Forked
from d2l_attention.system.workers.spawned import Spawned

LOOK = 0.1  # seconds between two looks at a worker that says nothing
GRACE = 2.0  # seconds in which a worker that hung up may still end by itself


class Message(NamedTuple):
    """What a worker says: 'printed', 'result' or 'raised'; or it is 'gone'.

    ``work`` counts what it was given, from 1; ``when`` is its ``time.monotonic()``, one clock for
    all processes of a machine.
    """

    worker: "Worker"
    kind: str
    what: Any = None
    work: int = 0
    when: float = 0.0


class Gone(Exception):
    """The worker ended before it gave a result, or has to be ended.

    ``why`` is 'late' (its own ``Clock`` ended it), 'memory', 'died', or 'silent' (it outlived all
    patience). ``frames`` is where its main thread was, in the work's own functions, and
    ``last_words`` is what Python said at the end, both as far as they are known.
    """

    def __init__(self, why: str, exit_code: int | None = None, last_words: str = ""):
        super().__init__(why)
        self.why, self.exit_code, self.last_words = why, exit_code, last_words
        self.frames = _frames_in(last_words)


class Worker:
    """A process that waits for work, a new Python unless ``start`` starts another.

    Several may report to one queue of ``messages``, which their caller reads; ``result`` is for
    one that has its own.
    """

    def __init__(
        self,
        messages: queue.SimpleQueue | None = None,
        start: Callable[[BinaryIO], Spawned | Forked] = Spawned,
    ):
        self.messages = queue.SimpleQueue() if messages is None else messages
        self._has_own_queue = messages is None
        self.given = 0  # pieces of work
        # What it says before it can speak, and where it was when its time was up.
        self._log = tempfile.TemporaryFile()
        try:
            self.process = start(self._log)
        except BaseException:
            self._log.close()
            raise
        self._hears = threading.Thread(target=self._hear, daemon=True)
        self._hears.start()

    @property
    def alive(self) -> bool:
        return not self.process.is_over

    def give(self, work: bytes) -> None:
        """Hand over what ``packed`` made. One that is gone meanwhile is found to be so later."""
        self.given += 1
        self._held = self._bytes()
        try:
            pickle.dump(work, self.process.stdin)
            self.process.stdin.flush()
        except OSError:
            pass

    def result(
        self, patience: float, memory: int | None = None, on_print: Callable[[str], Any] = print
    ) -> Any:
        """What the work that was given last returns.

        Errors: ``RuntimeError`` with its traceback where it raised one; ``Gone`` where the worker
        is, or has to be ended: it needs more than ``patience`` seconds, or more than ``memory``
        bytes on top of what it held when it got the work.
        """
        if not self._has_own_queue:
            raise TypeError("this worker shares a queue: its messages are to be read there")
        give_up = time.monotonic() + patience
        while True:
            message = self._next(LOOK)
            if time.monotonic() > give_up:
                raise Gone("silent")
            if memory is not None and self._bytes() > self._held + memory:
                raise Gone("memory")
            if message is None:
                if not self.alive:
                    raise self.why_gone()
            elif message.kind == "printed":
                on_print(message.what)
            elif message.kind == "result":
                return message.what
            elif message.kind == "raised":
                raise RuntimeError(message.what)
            elif message.kind == "gone":
                raise self.why_gone()

    def _next(self, seconds: float) -> Message | None:
        """What it says of the work that was given last; None where it says nothing for so long."""
        while True:
            try:
                message = self.messages.get(timeout=seconds)
            except queue.Empty:
                return None
            if message.kind == "gone" or message.work == self.given:
                return message

    def why_gone(self) -> Gone:
        """Why a worker is gone that nobody ended."""
        try:
            exit_code = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:  # it closed its pipes, and lives
            return Gone("died")
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace")
        late = re.search(r"^Timeout \(\d", said, re.MULTILINE)  # faulthandler's word, see limits.py
        return Gone("late" if late else "died", exit_code, said)

    def end(self) -> None:
        """End it, and all that was started below it."""
        try:
            self.process.end()
        finally:
            # Who escaped us may hold its end of the pipe open: that is no reason to wait for ever.
            self._hears.join(GRACE)
            for pipe in (self.process.stdin, self._log):
                try:
                    pipe.close()
                except OSError:  # there was work in it that nobody took
                    pass

    def _hear(self) -> None:
        """A thread's whole life: from the pipe to the queue, until the worker hangs up."""
        while True:
            try:
                message = Message(self, *pickle.load(self.process.stdout))
            except Exception:  # it hung up; or the work wrote into our pipe
                message = Message(self, "gone")
            self.messages.put(message)
            if message.kind == "gone":
                return self.process.stdout.close()

    def _bytes(self) -> int:
        try:
            return psutil.Process(self.process.pid).memory_info().rss if self.process.pid else 0
        except psutil.Error:
            return 0


def _frames_in(last_words: str) -> list[traceback.FrameSummary]:
    """The work's own frames, as faulthandler wrote them down, the most recent one last."""
    for thread in last_words.split("\n\n"):
        found = re.findall(r'^  File "(.+)", line (\d+) in (.+)$', thread, re.MULTILINE)
        calls = [(file, name) for file, _, name in found]
        if (caller := (inside.__file__, inside.perform.__name__)) in calls:
            work = reversed(found[: calls.index(caller)])
            return [traceback.FrameSummary(file, int(line), name) for file, line, name in work]
    return []


def cause_of_death(exit_code: int | None) -> str:
    """``ended with exit code 3``, ``was killed by SIGKILL``."""
    if exit_code is None:
        return "hung up"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-exit_code, f'signal {-exit_code}')}"
