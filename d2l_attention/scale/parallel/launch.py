"""Start processes that work together on this machine, and hear of the first that fails.

A group of processes is fragile: when one dies, the others wait for it in their next collective.
So the caller listens to all of them at once, and the first failure ends the rest.
"""

import os
import queue
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist

from d2l_attention.attention.checks import check_whole
from d2l_attention.system.workers import Clock, Message, Worker, cause_of_death, packed

GRACE = 0.5  # seconds in which the others may still say that they failed earlier
LOOK = 0.2  # seconds between two looks at processes that say nothing


class Group(NamedTuple):
    """What every process gets to know: how many they are, where they meet, and until when."""

    size: int
    meeting: str
    timeout: float
    deadline: float  # of time.monotonic(), one clock for all processes of a machine


def run_processes(
    function: Callable, num_processes: int = 2, *, timeout: float = 60.0, **arguments: Any
) -> list[Any]:
    """Call ``function(**arguments)`` in each process of a new group; the results, by rank.

    Inside, ``torch.distributed`` is ready (gloo, on the CPU, one thread a process), and so are
    the environment variables that ``torchrun`` would set. Function, arguments and results travel
    as pickles, so a function that was written in a notebook works, too. What is printed comes in
    any order.

    Errors: ``ValueError`` for a number of processes or seconds that makes no sense;
    ``RuntimeError`` with rank and traceback where a process fails or dies; ``TimeoutError`` with
    the place where each late process is. Afterwards, Ctrl-C included, no process is left.
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {type(function).__name__}")
    check_whole("num_processes", num_processes)
    if not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    team: list[Worker] = []
    with tempfile.TemporaryDirectory() as folder:
        meeting, deadline = os.path.join(folder, "meeting"), time.monotonic() + timeout
        group = Group(num_processes, meeting, timeout, deadline)
        work = [packed(work_in, group, rank, function, arguments) for rank in range(num_processes)]
        try:
            for piece in work:
                team.append(Worker(messages))
                team[-1].give(piece)
            return listen(team, messages, group)
        finally:
            for worker in team:
                worker.end()


def listen(team: list[Worker], messages: queue.SimpleQueue, group: Group) -> list[Any]:
    """The results by rank, or the first failure."""
    results: dict[int, Any] = {}
    failed: list[tuple[float, int, str]] = []  # when, who, what
    late: dict[int, str] = {}
    begun = [""] * group.size  # a line of each that has not ended: others' words stay out of it
    end = group.deadline + GRACE
    while len(results) + len(failed) + len(late) < group.size and time.monotonic() < end:
        message = next_message(team, messages, {*results, *late, *(rank for _, rank, _ in failed)})
        if message is None:
            continue
        rank = team.index(message.worker)
        if message.kind == "printed":
            *lines, begun[rank] = (begun[rank] + message.what).splitlines(keepends=True) or [""]
            if begun[rank].endswith(("\n", "\r")):
                lines, begun[rank] = [*lines, begun[rank]], ""
            print(*lines, sep="", end="", flush=True)
        elif message.kind == "result":
            results[rank] = message.what
        elif message.kind == "raised":
            failed.append((message.when, rank, f"raised {message.what}"))
        elif message.kind == "gone" and rank not in results:
            gone = message.worker.why_gone()
            if gone.why == "late":
                late[rank] = "is at\n" + "".join(traceback.format_list(gone.frames[1:]))
            else:
                # Nothing but us ends another process: who died untold died first.
                what = f"{cause_of_death(gone.exit_code)} without a result\n{gone.last_words}"
                failed.append((0.0, rank, what.rstrip()))
        if failed:
            end = min(end, time.monotonic() + GRACE)
    print(*begun, sep="", end="", flush=True)
    if failed:
        # The rest lose the one that failed first, and fail in turn: name only the cause.
        _, rank, what = min(failed)
        raise RuntimeError(f"process {rank} of {group.size} {what}")
    if len(results) < group.size:
        places = [
            f"process {rank} of {group.size} {late.get(rank, 'says nothing')}"
            for rank in range(group.size)
            if rank not in results
        ]
        raise TimeoutError(f"no result within {group.timeout:g} s\n" + "\n".join(places))
    return [results[rank] for rank in range(group.size)]


def next_message(
    team: list[Worker], messages: queue.SimpleQueue, heard: set[int]
) -> Message | None:
    """What one of them says; or that one is gone, though a child of its own holds its pipe open."""
    try:
        return messages.get(timeout=LOOK)
    except queue.Empty:
        silent = (worker for rank, worker in enumerate(team) if rank not in heard)
        return next((Message(worker, "gone") for worker in silent if not worker.alive), None)


# ---- in the new process ---------------------------------------------------------------------


def work_in(group: Group, rank: int, function: Callable, arguments: dict[str, Any]) -> Any:
    """Join the group and work, until the group's time is up."""
    with Clock(group.deadline - time.monotonic()):
        join(group, rank)
        return function(**arguments)


def join(group: Group, rank: int) -> None:
    """Meet the others in a file, and be known as to ``torchrun``."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    numbers = (rank, rank, group.size, group.size)
    os.environ |= {name: str(number) for name, number in zip(names, numbers, strict=True)}
    # Stay on this machine, whose own name may lead nowhere: without a network, behind a VPN.
    loopback = {name for _, name in socket.if_nameindex()} & {"lo", "lo0"}
    if loopback:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback.pop()
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(group.meeting, group.size),
        rank=rank,
        world_size=group.size,
        timeout=timedelta(seconds=group.timeout),
    )
