"""Checks in a worker: what only another process can stop, and what it must spare."""

import errno
import importlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch
from sample_exercise import softmax

import d2l_attention.exercises as engine
from d2l_attention.exercises import check
from d2l_attention.exercises.authoring import gradients_flow
from d2l_attention.exercises.engine import sandbox

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="uses what only POSIX systems have")


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
    os.closerange(0, 1024)
    return scores


def asks_for_a_stop(scores):
    raise KeyboardInterrupt


def starts_a_thread(scores):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return scores


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (wants_all_memory, "more memory than a check may use"),
        (wants_a_long_list, "more memory than a check may use"),
        (ends_the_process, "ended Python itself"),
        pytest.param(kills_the_process, "brought Python itself down (SIGSEGV)", marks=posix),
        (closes_everything, "Python itself"),
        (asks_for_a_stop, "raised `KeyboardInterrupt`"),
        (starts_a_thread, "it should be"),
        (wants_the_keyboard, "there is no keyboard here"),
    ],
)
def test_the_worker_takes_the_blow(tell, answer, told):
    result = tell(answer)
    assert result.verdict.state == "not yet"
    assert told in result.message


def wants_much(scores):
    much = torch.ones(3 * 1024**3, dtype=torch.uint8)
    time.sleep(60)
    return much


@pytest.mark.parametrize("limited", ["by the system", "by us, who look"])
def test_memory_that_the_machine_may_have_but_a_check_may_not(tell, monkeypatch, limited):
    if limited == "by us, who look":
        monkeypatch.setattr(sandbox, "examined", examined_without_limit)
    # A busy machine needs long for so much memory.
    assert "more memory than a check may use" in tell(wants_much, seconds=50).message


def examined_without_limit(exercise, answer):
    return sandbox.examine(exercise, answer, exercise.seconds)


def in_threads(scores):
    for _ in range(3):
        threading.Thread(target=loops, args=(scores,)).start()
    any(i < 0 for i in itertools.count())  # a loop of one line: its time is up in this one


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (stuck_in_c, "`return 10**10**9`"),
        (catches_the_stop, "`time.sleep(60)`"),
        (in_threads, "`any(i < 0 for i in itertools.count())"),
    ],
)
def test_what_no_exception_reaches_is_stopped_too(tell, answer, line):
    # Long enough to come to that line on a busy machine.
    message = tell(answer, seconds=2.0).message
    assert "still running after 2 seconds" in message and line in message, message


def test_a_clock_that_the_answer_stops_is_outlived(tell, monkeypatch):
    def stops_the_clock(scores):
        import faulthandler

        faulthandler.cancel_dump_traceback_later()
        time.sleep(600)

    tell(softmax)  # so that a worker has started
    monkeypatch.setattr(sandbox, "PATIENCE", 4.0)
    assert "still running after 0.5 seconds" in tell(stops_the_clock, seconds=0.5).message


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="nowhere to count them")
def test_a_check_leaves_no_process_and_no_file_open(tell):
    tell(softmax)
    open_before, children = len(os.listdir("/dev/fd")), len(psutil.Process().children())
    for answer in (softmax, loops, ends_the_process, starts_a_thread):
        tell(answer, seconds=0.3)
    assert len(os.listdir("/dev/fd")) == open_before
    assert len(psutil.Process().children()) == children  # zombies count, too


def nobody_holds(fifo):
    """Whether no other process has it open: then there is nobody to write to."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno == errno.ENXIO
    return False


@posix
def test_the_stop_button_ends_a_check(tell):
    kernel = os.getpid()

    def presses_the_button(scores):
        os.kill(kernel, signal.SIGINT)
        loops(scores)

    assert tell(presses_the_button).message == "You stopped the check."


def test_what_the_answer_changes_stays_in_the_worker(tell):
    calls.clear()
    tell(remembers)
    assert calls == []


def no_softmax(scores):
    """Nonsense: it makes the engine, torch and Python say that all is right."""
    import builtins

    from d2l_attention.exercises.engine import examine, ladder

    examine.first_finding = ladder.first_finding = lambda *_: None
    examine.judged = lambda *_: examine.Verdict("solved", "Solved.", share=1.0)
    torch.Tensor.softmax = torch.softmax = lambda X, *_, **__: X
    torch.allclose = torch.equal = lambda *_, **__: True
    builtins.isinstance = builtins.all = lambda *_: True
    os.environ["D2L_ATTENTION_EXERCISES"] = "/nowhere"
    return scores


def test_what_an_answer_does_to_the_engine_reaches_no_other_verdict(tell):
    tell(no_softmax)
    assert tell(lambda scores: scores).verdict.state == "not yet"
    tell(no_softmax)
    assert tell(softmax).solved


def test_a_worker_that_cannot_begin_is_the_machines_trouble(tell, monkeypatch):
    sandbox.workers.end()
    with monkeypatch.context() as broken:
        broken.setattr(
            "d2l_attention.system.workers.spawned.BEGIN", "raise SystemExit('no torch here'); "
        )
        result = tell(softmax)
        sandbox.workers.end()
    assert result.verdict.state == "trouble" and "no torch here" in result.message
    assert "Your code" not in result.message


@pytest.mark.skipif(sys.platform == "win32", reason="there a folder in use cannot be deleted")
def test_the_notebooks_folder_may_be_gone(tell, monkeypatch, tmp_path):
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    sandbox.workers.end()
    assert tell(softmax).solved


@posix
def test_no_file_handle_is_left(tell):
    import resource

    sandbox.workers.end()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd")), default=16)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    try:
        with pytest.raises(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        result, table = tell(softmax), repr(engine.progress())
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.verdict.state == "trouble" and "Too many open files" in result.message
    assert "all" not in table.lower() or "solved" not in table.lower(), table
    assert tell(softmax).solved


def test_a_check_works_from_another_thread(tell):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(tell, softmax).result().solved
        assert "still running" in pool.submit(tell, loops, seconds=0.5).result().message


def test_where_no_process_can_be_started_the_check_says_so(tell, monkeypatch):
    def refused(*_, **__):
        raise BlockingIOError("Resource temporarily unavailable")

    sandbox.workers.end()
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", refused)
        result = tell(softmax)
    assert result.verdict.state == "trouble" and "temporarily unavailable" in result.message
    assert tell(softmax).solved


def test_what_cannot_be_sent_gets_a_sentence(tell):
    lock = threading.Lock()

    def locks(scores):
        with lock:
            return softmax(scores)

    for answer, kind in ((locks, "lock"), ((i for i in range(3)), "generator")):
        result = tell(answer)
        assert result.verdict.state == "trouble" and f"{kind}' object" in result.message


def test_a_module_of_the_students_own_is_read_anew(tell, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    for line, solved in (("scores.softmax(0)", False), ("scores.softmax(-1)", True)):
        (tmp_path / "my_own.py").write_text(f"def mine(scores):\n    return {line}\n", "utf-8")
        importlib.invalidate_caches()
        sys.modules.pop("my_own", None)
        assert tell(importlib.import_module("my_own").mine).solved == solved


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


@pytest.mark.parametrize(
    ("asked", "stub"),
    [("anything", None), ("__class__", softmax), ("__wrapped__", softmax), ("__iter__", None)],
)
def test_an_answer_that_raises_when_somebody_looks_at_it(tell, asked, stub):
    def raise_something():
        raise ZeroDivisionError("nasty")

    state = tell(Nasty(asked, raise_something), stub=stub).verdict.state
    assert state in ("solved", "not yet", "trouble")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own imports
def test_functions_that_are_wrapped(tell):
    def endless(scores):
        return softmax(scores)

    endless.__wrapped__ = endless
    cell = {"__name__": "__main__", "softmax": softmax}  # as a student has it in a notebook
    cached = "import functools\n@functools.cache\ndef own(scores):\n    return softmax(scores)\n"
    exec(cached, cell)
    compiled = torch.compile(softmax, backend="eager")
    for answer in (endless, cell["own"], compiled, lambda scores: compiled(scores)):
        assert tell(answer, seconds=60).solved


@pytest.mark.parametrize("exercise_id", ["9" * 5000 + ".1", "4." + "1" * 5000, "٤.1", b"4.1", [4]])
def test_ids_of_any_kind_are_unknown(own_progress, exercise_id):
    result = check(exercise_id, 1)
    assert result.verdict.state == "trouble" and len(result.message) < 3000


@posix
@pytest.mark.parametrize("then", ["returns", "leaves", "loops"])
def test_processes_that_an_answer_leaves_end_with_it(tell, tmp_path, then):
    """Also in sessions of their own."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def leaves_a_daemon(scores):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                os.set_inheritable(os.open(fifo, os.O_RDWR), True)
                os.execvp("sleep", ["sleep", "60"])
            os._exit(0)
        while nobody_holds(fifo):
            time.sleep(0.01)
        if then == "leaves":
            os._exit(3)
        while then == "loops":
            pass
        return softmax(scores)

    seconds = 5 if then == "loops" else 60
    assert tell(leaves_a_daemon, seconds=seconds).solved == (then == "returns")
    assert nobody_holds(fifo)


def test_the_state_of_the_notebook_does_not_reach_the_check(tell):
    def by_product(scores):
        return softmax(scores @ torch.eye(scores.shape[-1]) + torch.zeros(()))

    steps, elsewhere = [gradients_flow()], torch.device("meta")
    half = torch.autocast("cpu", dtype=torch.bfloat16)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.inference_mode(), half, elsewhere:
            result = tell(by_product, steps=steps)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
        # Not what ``get_default_device`` said: to set even the usual one changes how torch works.
        torch.set_default_device(None)
    assert result.solved, result.message
