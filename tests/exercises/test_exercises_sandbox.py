"""Checks in a copy of the kernel's process: what only that can stop, and what it must spare."""

import os
import select
import signal
import socket
import subprocess
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import torch
from sample_exercise import an_exercise, softmax

import d2l_attention.exercises as engine
from d2l_attention.exercises import check
from d2l_attention.exercises.engine import sandbox

PROJECT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture(autouse=True)
def in_a_copy_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))
    if torch.cuda.is_initialized():
        pytest.skip("with CUDA in use no copy is made: these answers would end pytest itself")


calls = []


def remembers(scores):
    calls.append(1)
    return softmax(scores) * len(calls)


def loops(scores):
    while True:
        pass


def wants_the_keyboard(scores):
    return softmax(scores) * float(input("how much? "))


def stuck_in_c(scores):
    return 10**10**9


def catches_the_stop(scores):
    while True:
        try:
            time.sleep(60)
        except BaseException:  # noqa: S110
            pass


def wants_all_memory(scores):
    return torch.ones(10**12)


def wants_a_long_list(scores):
    return [0] * 10**11


def ends_the_process(scores):
    os._exit(3)


def kills_the_process(scores):
    os.kill(os.getpid(), 11)


def closes_everything(scores):
    os.closerange(3, 1024)
    return scores


def forks(scores):
    os.fork()
    return scores


def starts_a_thread(scores):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return scores


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (wants_all_memory, "more memory than a check may use"),
        (wants_a_long_list, "more memory than a check may use"),
        (ends_the_process, "ended Python itself"),
        (kills_the_process, "brought Python itself down (SIGSEGV)"),
        (closes_everything, "Python itself"),
        (forks, "it should be"),
        (starts_a_thread, "it should be"),
        (wants_the_keyboard, "a check cannot type"),
    ],
)
def test_the_copy_takes_the_blow(answer, told, monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    result = check("4.99", answer)
    assert result.verdict.state == "not yet"
    assert told in result.message


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="only Linux keeps the limit")
def test_memory_that_the_machine_may_have_but_a_check_may_not(monkeypatch):
    def wants_much(scores):
        return torch.empty(3 * 1024**3, dtype=torch.uint8)

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    assert "more memory than a check may use" in check("4.99", wants_much).message


@pytest.mark.parametrize("answer", [stuck_in_c, catches_the_stop])
def test_what_no_exception_reaches_is_stopped_by_force(answer, monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.5))
    result = check("4.99", answer)
    assert "only be stopped by force" in result.message


def test_after_heavy_use_of_threads_a_copy_still_computes(monkeypatch):
    """OpenMP's worker threads do not survive a fork: with two of them torch would hang."""
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    torch.set_num_threads(2)
    matrix = torch.randn(600, 600, requires_grad=True)
    for _ in range(3):
        (matrix @ matrix).softmax(dim=-1).sum().backward()

    def heavy(scores):
        big = torch.randn(600, 600, requires_grad=True)
        (big @ big).exp().sum().backward()
        return softmax(scores)

    try:
        assert check("4.99", heavy).solved
    finally:
        torch.set_num_threads(1)
    assert sandbox._copies_work


def test_a_check_leaves_no_process_and_no_file_open(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.3))
    check("4.99", softmax)
    open_before, children = len(os.listdir("/dev/fd")), psutil.Process().children()
    for answer in (softmax, loops, ends_the_process):
        check("4.99", answer)
    assert len(os.listdir("/dev/fd")) == open_before
    assert psutil.Process().children() == children  # those of other tests; zombies count, too


def test_processes_that_the_answer_starts_end_with_it(monkeypatch):
    reading, writing = os.pipe()

    def leaves_a_process(scores):
        subprocess.Popen(["sleep", "60"], pass_fds=[writing])
        return softmax(scores)

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    assert check("4.99", leaves_a_process).solved
    os.close(writing)  # now only that process could hold the pipe open
    assert select.select([reading], [], [], 20)[0] and os.read(reading, 1) == b""
    os.close(reading)


def test_a_stop_in_the_copy_does_not_wake_the_kernels_event_loop(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.5))
    ours, loops_end = socket.socketpair()
    ours.setblocking(False)
    loops_end.setblocking(False)
    before = signal.set_wakeup_fd(loops_end.fileno())
    try:
        assert "still running" in check("4.99", loops).message
        with pytest.raises(BlockingIOError):
            ours.recv(1)
    finally:
        signal.set_wakeup_fd(before)
        ours.close()
        loops_end.close()


def test_the_stop_button_ends_a_check(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    kernel = os.getpid()

    def presses_the_button(scores):
        os.kill(kernel, signal.SIGINT)
        loops(scores)

    assert check("4.99", presses_the_button).message == "You stopped the check."


def test_what_the_answer_changes_stays_in_the_copy(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    calls.clear()
    check("4.99", remembers)
    assert calls == []


def test_a_check_works_from_another_thread(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(check, "4.99", softmax).result().solved
        monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.5))
        assert "still running" in pool.submit(check, "4.99", loops).result().message


def test_the_warning_of_newer_pythons_about_fork_is_caught(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    real_fork = os.fork

    def warning_fork():
        warnings.warn(
            "This process (pid=1) is multi-threaded, use of fork() may lead to deadlocks",
            DeprecationWarning,
            stacklevel=2,
        )
        return real_fork()

    monkeypatch.setattr(os, "fork", warning_fork)
    assert check("4.99", softmax).solved


@pytest.mark.parametrize("trouble", ["torch fails", "CUDA is spoilt"])
def test_where_no_copy_works_the_check_runs_in_the_kernel(monkeypatch, trouble):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    monkeypatch.setattr(sandbox, "_copies_work", True)
    here, ran_here = os.getpid(), []

    def spoilt():
        raise RuntimeError("Unable to handle autograd's threading with fork")

    def answer(scores):
        if os.getpid() != here:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess.")
        ran_here.append(True)
        return softmax(scores)

    if trouble == "torch fails":
        monkeypatch.setattr(sandbox, "prove_that_torch_works", spoilt)
    assert check("4.99", answer).solved
    assert ran_here
    assert sandbox._copies_work == (trouble == "CUDA is spoilt")


def test_another_thread_without_a_copy_is_only_unlimited(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    monkeypatch.setattr(sandbox, "_copies_work", False)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(check, "4.99", softmax).result().solved


class Nasty:
    """Loops or raises as soon as somebody looks at it."""

    def __init__(self, name, act):
        object.__setattr__(self, "_asked", (name, act))

    def __getattribute__(self, name):
        asked, act = object.__getattribute__(self, "_asked")
        if name == asked or asked == "anything":
            act()
        return object.__getattribute__(self, name)

    def __iter__(self):
        object.__getattribute__(self, "_asked")[1]()

    def __call__(self, scores):
        return softmax(scores)


def for_ever():
    while True:
        pass


def raise_something():
    raise ZeroDivisionError("nasty")


@pytest.mark.parametrize("act", [for_ever, raise_something])
@pytest.mark.parametrize("name", ["anything", "__class__", "__wrapped__", "__iter__"])
@pytest.mark.parametrize("stub", [None, softmax])
def test_an_answer_is_looked_at_only_where_it_can_be_stopped(monkeypatch, act, name, stub):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.5, stub=stub))
    assert check("4.99", Nasty(name, act)).verdict.state in ("solved", "not yet", "trouble")


def test_a_function_that_wraps_itself(monkeypatch):
    def endless(scores):
        return softmax(scores)

    endless.__wrapped__ = endless
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    assert check("4.99", endless).solved


@pytest.mark.parametrize("exercise_id", ["9" * 5000 + ".1", "4." + "1" * 5000, "٤.1", b"4.1", [4]])
def test_ids_of_any_kind_are_unknown(exercise_id):
    result = check(exercise_id, 1)
    assert result.verdict.state == "trouble" and len(result.message) < 3000


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="only Linux says whose they are")
@pytest.mark.parametrize("then", ["returns", "leaves", "loops"])
def test_processes_in_sessions_of_their_own_end_as_well(monkeypatch, then):
    reading, writing = os.pipe()

    def leaves_a_daemon(scores):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                os.set_inheritable(writing, True)
                os.execvp("sleep", ["sleep", "60"])
            os._exit(0)
        if then == "leaves":
            time.sleep(0.1)
            os._exit(3)
        while then == "loops":
            pass
        return softmax(scores)

    seconds = 0.5 if then == "loops" else 60
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=seconds))
    assert check("4.99", leaves_a_daemon).solved == (then == "returns")
    os.close(writing)
    assert select.select([reading], [], [], 20)[0] and os.read(reading, 1) == b""
    os.close(reading)


def test_one_slow_start_is_forgiven(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    monkeypatch.setattr(sandbox, "_copies_work", True)
    monkeypatch.setattr(sandbox, "_slow_starts", 0)
    with monkeypatch.context() as slow:
        slow.setattr(sandbox, "START", 0.05)
        slow.setattr(sandbox, "prove_that_torch_works", lambda: time.sleep(1))
        assert check("4.99", softmax).solved
    assert sandbox._copies_work
    assert check("4.99", softmax).solved and sandbox._slow_starts == 0


STATES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "meta": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_the_state_of_the_notebook_does_not_reach_the_check(monkeypatch, state, copies):
    from d2l_attention.exercises.authoring import gradients_flow

    def by_product(scores):
        return softmax(scores @ torch.eye(scores.shape[-1]))

    exercise = an_exercise(steps=[gradients_flow()])
    monkeypatch.setattr(engine, "find", lambda _: exercise)
    monkeypatch.setattr(sandbox, "_copies_work", copies)
    with STATES[state]():
        result = check("4.99", by_product)
    assert result.solved, result.message


@pytest.mark.parametrize("copies", [True, False])
def test_a_default_dtype_does_not_reach_the_check(monkeypatch, copies):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    monkeypatch.setattr(sandbox, "_copies_work", copies)
    torch.set_default_dtype(torch.float64)
    try:
        assert check("4.99", lambda scores: softmax(scores * torch.ones(()))).solved
        assert check("4.99", lambda scores: softmax(scores + torch.zeros(1, 1))).solved
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own imports
def test_a_compiled_function_runs_as_it_was_written(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=60))
    compiled = torch.compile(softmax, backend="eager")
    assert check("4.99", compiled).solved
    assert check("4.99", lambda scores: compiled(scores)).solved
