"""Work in a copy of this process, under limits, with an end to all that it has started.

Needs ``fork``. Only Linux keeps the limit on memory and finds children that left their parents.
"""

import contextlib
import ctypes
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing import Pipe
from typing import Any

import psutil

from d2l_attention.exercises.sandbox import fork

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
LONGEST_MESSAGE = 1_000_000  # bytes


def apart(
    work: Callable, *given: Any, seconds: float, memory: float, start: float = 0.0
) -> tuple[list[dict], bool]:
    """What ``work(tell, *given)`` told from a copy of this process, and whether it was late.

    The copy gets ``memory`` gigabytes, and ``start`` seconds before its first message beside the
    ``seconds`` of its work. Its messages come as JSON, which, unlike a pickle, cannot
    run code here. Afterwards no process below this one is left, the caller's own included.
    """
    receiving, sending = Pipe(duplex=False)
    pid = fork()
    if pid == 0:
        try:
            isolate(memory)
            work(lambda **message: sending.send_bytes(json.dumps(message).encode()), *given)
        finally:
            os._exit(0)
    sending.close()
    told, deadline = [], time.monotonic() + start + seconds
    try:
        while receiving.poll(max(0.0, deadline - time.monotonic())):
            message = json.loads(receiving.recv_bytes(LONGEST_MESSAGE))
            if not told:
                deadline = min(deadline, time.monotonic() + seconds)
            told.append(message)
    except (EOFError, OSError, ValueError):
        return told, False
    finally:
        receiving.close()
        end_descendants()
    return told, True


def isolate(memory: float) -> None:
    """A session of its own, no output, and limits that whatever it starts inherits."""
    os.setsid()  # Ctrl-C reaches the grader alone
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = int(memory * 1e9)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    if sys.platform == "linux":
        # On top of what torch maps, which is address space more than memory.
        most += psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def adopt_orphans() -> None:
    """From now on a process below this one that loses its parent becomes our child."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """Kill all processes below this one, again and again while they start new ones."""
    for _ in range(50):
        below = psutil.Process().children(recursive=True)
        for process in below:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not below:
            return
        psutil.wait_procs(below, timeout=1)
