"""A process that fails, dies, stops or never starts is reported, and nothing is left behind."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import torch
import torch.distributed as dist

from d2l_attention.scale.parallel import run_processes
from d2l_attention.system.workers import CannotTravel, Worker, packed

LONG = 200  # seconds: an error that is not about time came long before


@pytest.fixture(autouse=True)
def nobody_is_left():
    def of_mine():
        return {process.pid for process in psutil.Process().children(recursive=True)}

    before = of_mine()
    yield
    assert of_mine() <= before


def total(number):
    numbers = torch.tensor(number + dist.get_rank())
    dist.all_reduce(numbers)
    return numbers


def test_results_come_by_rank_and_printed_lines_stay_whole(capsys):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")

    def only_this_process_knows_me(number):
        """The sum over the processes, with what the environment says."""
        for _ in range(200):
            print("rank", dist.get_rank())
        print("the end of", dist.get_rank(), end="; ")
        return total(number), [os.environ[name] for name in names], torch.get_num_threads()

    results = run_processes(only_this_process_knows_me, 3, timeout=LONG, number=10.0)
    for rank, (numbers, environment, threads) in enumerate(results):
        assert torch.equal(numbers, torch.tensor(33.0)) and threads == 1
        assert environment == [str(n) for n in (rank, rank, 3, 3)]
    *lines, last = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [f"rank {rank}" for rank in range(3) for _ in range(200)]
    assert last == "the end of 0; the end of 1; the end of 2; "


def raises():
    raise KeyError("no such token")


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def one_fails(how):
    """Leaves process 0 in a collective that process 1 never joins."""
    if dist.get_rank() == 1:
        dist.barrier()  # the other is past its start
        return how()
    dist.barrier()
    dist.all_reduce(torch.zeros(1))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (raises, "raised KeyError: 'no such token'\n\nTraceback .*in raises\n"),
        (dies, "was killed by SIGKILL"),
    ],
)
def test_the_first_failure_is_reported(how, told):
    with pytest.raises(RuntimeError, match=f"(?s)^process 1 of 2 {told}"):
        run_processes(one_fails, 2, timeout=LONG, how=how)


def leaves_a_child_behind(its_number):
    """The child holds all pipes open that its parent had."""
    if child := os.fork():
        its_number.write_text(str(child), "utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
    os.setsid()
    time.sleep(LONG)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_pipes_that_stay_open_do_not_hide_an_end(tmp_path):
    child = tmp_path / "its number"
    with pytest.raises(RuntimeError, match="^process 0 of 1 was killed by SIGKILL"):
        run_processes(leaves_a_child_behind, 1, timeout=LONG, its_number=child)
    with contextlib.suppress(psutil.NoSuchProcess):
        child = psutil.Process(int(child.read_text("utf-8")))
        assert child.status() == psutil.STATUS_ZOMBIE  # in a container nobody may ask after it


def stops():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.barrier()


def told_when_late(function, expected, **arguments):
    """What is said of a run that never ends; a slow machine gets the time to come that far."""
    for seconds in (6, 20, 60, LONG):
        with pytest.raises(TimeoutError, match=f"^no result within {seconds} s\n") as late:
            run_processes(function, 2, timeout=seconds, **arguments)
        if re.search(expected, str(late.value)):
            break
    return str(late.value)


def test_who_is_late_is_asked_where_it_is():
    expected = "(?s)process 0 of 2 is at\n.*in stops\n.*barrier.*process 1 of 2 says nothing$"
    assert re.search(expected, told_when_late(stops, expected))


@contextlib.contextmanager
def second_process(monkeypatch, function, *arguments):
    """Process 1 gets this to do in place of its part."""
    give, given = Worker.give, []

    def changed(worker, work):
        given.append(worker)
        give(worker, packed(function, *arguments) if len(given) % 2 == 0 else work)

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "give", changed)
        yield


def test_a_process_that_never_joins(monkeypatch):
    with second_process(monkeypatch, time.sleep, 2 * LONG):
        expected = "(?s)process 0 .*init_process_group.* 1 of 2 says nothing$"
        assert re.search(expected, told_when_late(total, expected, number=1.0))


def test_a_process_that_dies_before_it_joins(monkeypatch):
    with second_process(monkeypatch, os._exit, 5):
        with pytest.raises(RuntimeError, match="process 1 of 2 ended with exit code 5"):
            run_processes(total, 2, timeout=LONG, number=1.0)


def test_a_process_that_cannot_be_started(monkeypatch):
    started = []

    def refuse(*arguments, **named):
        if started:
            raise OSError("too many processes")
        started.append(True)
        return popen(*arguments, **named)

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(OSError, match="too many processes"):
        run_processes(total, 2, timeout=LONG, number=1.0)


SCRIPT = """
import torch, torch.distributed as dist
from d2l_attention.scale.parallel import run_processes

def wait():
    dist.barrier()
    print("ready\\n", end="", flush=True)
    dist.recv(torch.zeros(1), 1 - dist.get_rank())

try:
    run_processes(wait, 2, timeout=200)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="sends signals")
def test_ctrl_c_ends_all(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    caller = subprocess.Popen(
        [sys.executable, tmp_path / "script.py"],
        start_new_session=True,  # a group of its own, as a terminal gives
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert {caller.stdout.readline() for _ in range(2)} == {"ready\n"}
        below = psutil.Process(caller.pid).children(recursive=True)
        assert len(below) >= 2
        os.killpg(caller.pid, signal.SIGINT)  # Ctrl-C goes to all
        assert caller.communicate(timeout=LONG) == ("interrupted\n", "")
        assert psutil.wait_procs(below, timeout=LONG)[1] == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(caller.pid, signal.SIGKILL)
        caller.communicate()


def test_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(TypeError, match="function must be callable, got int"):
        run_processes(3)
    with pytest.raises(ValueError, match="num_processes must be .* got 0"):
        run_processes(total, 0)
    with pytest.raises(ValueError, match="timeout must be .* got -1"):
        run_processes(total, timeout=-1)
    with pytest.raises(CannotTravel, match="cannot pickle"):
        run_processes(total, number=threading.Lock())
