"""Start processes that work together on this machine, and hear of the first that fails.

A group of processes is fragile: when one dies, the others wait for it in their next collective.
So the caller listens to all of them at once, and the first failure ends the rest.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import torch
import torch.distributed as dist

from d2l_attention.attention.checks import check_whole

GRACE = 0.5  # seconds in which the others may still say that they failed earlier
LOOK = 0.2  # seconds between two looks at processes that say nothing


def run_processes(
    function: Callable, num_processes: int = 2, *, timeout: float = 60.0, **arguments: Any
) -> list[Any]:
    """Call ``function(**arguments)`` in each process of a new group; the results, by rank.

    Inside, ``torch.distributed`` is ready (gloo, on the CPU, one thread a process), and so are
    the environment variables that ``torchrun`` would set. Function, arguments and results travel
    as pickles, so a function that was written in a notebook works, too. Return what is to be
    seen: prints of several processes come in any order.

    Errors: ``ValueError`` for a number of processes or seconds that makes no sense;
    ``RuntimeError`` with rank and traceback where a process fails or dies; ``TimeoutError`` with
    the place where each late process is. Afterwards, Ctrl-C included, no process is left.
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {type(function).__name__}")
    check_whole("num_processes", num_processes)
    if not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")
    work = cloudpickle.dumps((function, arguments))
    team: list[Member] = []
    with tempfile.TemporaryDirectory() as folder:
        task = Task(work, num_processes, os.path.join(folder, "meeting"), timeout)
        try:
            with no_interrupts():
                for rank in range(num_processes):
                    team.append(Member(rank))
                    team[-1].start(task)
            return listen(team, task)
        finally:
            with no_interrupts():
                for member in team:
                    member.end()


class Task:
    """What every process of the group gets to know."""

    def __init__(self, work: bytes, num_processes: int, meeting: str, timeout: float):
        self.work, self.num_processes = work, num_processes
        self.meeting, self.timeout = meeting, timeout
        self.deadline = time.monotonic() + timeout  # one clock for all processes of a machine


class Answer(NamedTuple):
    """The one thing a process says: ``kind`` is result, raised, died or late."""

    kind: str
    when: float
    what: Any


class Member:
    """One process of the group, as its caller sees it."""

    def __init__(self, rank: int):
        self.rank = rank
        self.answer: Answer | None = None
        self.process, self.ear = None, None

    def start(self, task: Task) -> None:
        # A new Python, not a copy of this one: a copy of running threads does not work.
        context = multiprocessing.get_context("spawn")
        self.ear, mouth = context.Pipe(duplex=False)
        with mouth:  # the process has its own: with ours open, we would not hear it hang up
            process = context.Process(target=work_in_group, args=(mouth, self.rank, task))
            process.daemon = True
            process.start()
        self.process = process

    def hear(self) -> bool:
        """Whether there is an answer now; who died without a word is answered for."""
        gone = self.process.exitcode is not None  # asked first: it may speak, then end
        if self.ear.poll():
            with contextlib.suppress(EOFError, OSError):
                self.answer = pickle.loads(self.ear.recv_bytes())
                return True
            self.process.join(GRACE)
            gone = True
        if gone:
            # Nothing but us ends another process: who died before it was told to, died first.
            self.answer = Answer("died", 0.0, cause_of_death(self.process.exitcode))
        return gone

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
        if self.ear is not None:
            self.ear.close()


def listen(team: list[Member], task: Task) -> list[Any]:
    """The results by rank, or the first failure."""
    waiting, end = list(team), task.deadline + GRACE
    while waiting and (left := end - time.monotonic()) > 0:
        connection.wait([member.ear for member in waiting], min(LOOK, left))
        for member in [member for member in waiting if member.hear()]:
            waiting.remove(member)
            if member.answer.kind in ("raised", "died"):
                end = min(end, time.monotonic() + GRACE)
    size = len(team)
    failed = [m for m in team if m.answer and m.answer.kind in ("raised", "died")]
    if failed:
        # The rest lose the one that failed first, and fail in turn: name the cause alone.
        first = min(failed, key=lambda member: member.answer.when)
        raise RuntimeError(f"process {first.rank} of {size} {first.answer.what}")
    late = [m for m in team if not m.answer or m.answer.kind == "late"]
    if late:
        places = [
            f"process {m.rank} of {size} {m.answer.what if m.answer else 'says nothing'}"
            for m in late
        ]
        raise TimeoutError(f"no result within {task.timeout:g} s\n" + "\n".join(places))
    return [member.answer.what for member in team]


def cause_of_death(exitcode: int | None) -> str:
    if exitcode is None:
        return "hung up without a result"
    if exitcode >= 0:
        return (
            f"ended with exit code {exitcode} and without a result (a script must start processes "
            'below `if __name__ == "__main__":`, since each of them reads it)'
        )
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-exitcode, f'signal {-exitcode}')}"


# ---- in the new process ---------------------------------------------------------------------


class Mouth:
    """Says one thing, whoever of the process's threads comes first."""

    def __init__(self, pipe: Connection):
        self.pipe, self.free = pipe, threading.Lock()

    def say(self, kind: str, what: Any) -> None:
        answer = cloudpickle.dumps(Answer(kind, time.monotonic(), what))
        if self.free.acquire(blocking=False):
            self.pipe.send_bytes(answer)


def work_in_group(pipe: Connection, rank: int, task: Task) -> None:
    """Join the group, work, tell."""
    mouth = Mouth(pipe)
    threading.Thread(target=watch, args=(mouth, task.deadline), daemon=True).start()
    torch.set_num_threads(1)  # the processes share the cores already
    try:
        join_group(rank, task)
        function, arguments = pickle.loads(task.work)
        mouth.say("result", function(**arguments))
    except BaseException as error:
        mouth.say("raised", f"raised {type(error).__name__}: {error}\n\n{traceback.format_exc()}")


def watch(mouth: Mouth, deadline: float) -> None:
    """Beside the work: end with the caller, and say what takes so long."""
    caller = multiprocessing.parent_process()
    caller.join(max(0.0, deadline - time.monotonic()))
    if caller.is_alive():
        stack = traceback.extract_stack(sys._current_frames()[threading.main_thread().ident])
        ours = [frame.name for frame in stack].index(work_in_group.__name__)
        mouth.say("late", "is at\n" + "".join(traceback.format_list(stack[ours + 1 :])))
        caller.join()
    os._exit(1)  # wherever the work waits


def join_group(rank: int, task: Task) -> None:
    """Meet the others in a file, and be known as to ``torchrun``."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    numbers = (rank, rank, task.num_processes, task.num_processes)
    os.environ |= {name: str(number) for name, number in zip(names, numbers, strict=True)}
    # Stay on this machine, whose own name may lead nowhere: without a network, behind a VPN.
    loopback = {name for _, name in socket.if_nameindex()} & {"lo", "lo0"}
    if loopback:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback.pop()
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(task.meeting, task.num_processes),
        rank=rank,
        world_size=task.num_processes,
        timeout=timedelta(seconds=task.timeout),
    )


@contextlib.contextmanager
def no_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the end, and processes that are started meanwhile never hear it: it is
    for their caller, who ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
