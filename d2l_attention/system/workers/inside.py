"""A worker's own side: wait for work, do it, say what came out.

It ends by itself when its caller has gone, and after some idle minutes.
"""

import builtins
import faulthandler
import io
import linecache
import os
import pickle
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

import cloudpickle
import psutil

IDLE = 600.0  # seconds


def main() -> None:
    """The whole life of a worker. Its work arrives at stdin, its messages leave by stdout."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # the work may write there
        os.dup2(nowhere, stream)
    faulthandler.enable()  # a crash says where
    builtins.input = no_keyboard
    if not hasattr(builtins, "display"):  # IPython's, which a notebook has without an import
        builtins.display = lambda *things: print(*things, sep="\n")
    import torch

    torch.set_num_threads(1)  # the caller has the other cores
    speaker = Speaker(replies)
    sys.stdout = Passed(speaker)
    waiting = queue.SimpleQueue()
    threading.Thread(target=hear, args=(requests, waiting), daemon=True).start()
    serve(waiting, speaker)


def serve(waiting: queue.SimpleQueue, speaker: "Speaker") -> None:
    while True:
        try:
            task = waiting.get(timeout=IDLE)
        except queue.Empty:
            os._exit(0)
        speaker.work += 1
        perform(task, speaker.say)


def perform(task: bytes, say: Callable[..., None]) -> None:
    """One piece of work, from its pickle to its result."""
    try:
        work, sys.path[:], folder, cells = pickle.loads(task)
        if folder is not None:
            os.chdir(folder)
        linecache.cache.update(cells)  # so that errors can show a cell's lines
        function, arguments, named = pickle.loads(work)
        say("result", function(*arguments, **named))
    except BaseException as error:
        say("raised", f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}")


def hear(requests: BinaryIO, waiting: queue.SimpleQueue) -> None:
    """A thread's whole life: from the pipe to the queue. Without its caller a worker ends."""
    while True:
        try:
            waiting.put(pickle.load(requests))
        except Exception:
            for process in psutil.Process().children(recursive=True):
                process.kill()
            os._exit(0)


class Speaker:
    """Sends messages to the caller, each whole, whichever thread it comes from."""

    def __init__(self, replies: BinaryIO):
        self._replies, self._one_at_a_time = replies, threading.Lock()
        self.work = 0  # the number of the work that it speaks of

    def say(self, kind: str, what: Any = None) -> None:
        message = cloudpickle.dumps((kind, what, self.work, time.monotonic()))
        with self._one_at_a_time:
            self._replies.write(message)
            self._replies.flush()


class Passed(io.TextIOBase):
    """What stands for ``sys.stdout``: passes text on while the work runs."""

    encoding = "utf-8"

    def __init__(self, speaker: Speaker):
        self._speaker = speaker

    def write(self, text: str) -> int:
        self._speaker.say("printed", text)
        return len(text)

    def writable(self) -> bool:
        return True

    def close(self) -> None: ...  # the next work prints, too


def no_keyboard(*_: Any) -> str:
    raise RuntimeError("there is no keyboard here: use the arguments instead of input()")
