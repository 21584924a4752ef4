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
from sample_exercise import an_exercise, softmax

import d2l_attention.exercises as engine
from d2l_attention.exercises import check
from d2l_attention.exercises.engine import sandbox

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="uses what only POSIX systems have")


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))


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
def test_the_worker_takes_the_blow(answer, told, monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    result = check("4.99", answer)
    assert result.verdict.state == "not yet"
    assert told in result.message


def wants_much(scores):
    much = torch.ones(3 * 1024**3, dtype=torch.uint8)
    time.sleep(60)
    return much


@pytest.mark.parametrize("limited", ["by the system", "by us, who look"])
def test_memory_that_the_machine_may_have_but_a_check_may_not(monkeypatch, limited):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    if limited == "by us, who look":
        monkeypatch.setattr(sandbox, "examined", examined_without_limit)
    assert "more memory than a check may use" in check("4.99", wants_much).message


def examined_without_limit(exercise, answer):
    return sandbox.examine(exercise, answer, exercise.seconds)


def in_threads(scores):
    for _ in range(3):
        threading.Thread(target=loops, args=(scores,)).start()
    any(i < 0 for i in itertools.count())  # a loop of one line: its time is up in this one


def test_threads_of_an_answer_may_all_print(monkeypatch):
    def prints_in_threads(scores):
        def shout():
            for _ in range(200):
                print("x" * 50)

        threads = [threading.Thread(target=shout) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return softmax(scores)

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    assert check("4.99", prints_in_threads).solved


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (stuck_in_c, "`return 10**10**9`"),
        (catches_the_stop, "`time.sleep(60)`"),
        (in_threads, "`any(i < 0 for i in itertools.count())"),
    ],
)
def test_what_no_exception_reaches_is_stopped_too(answer, line, monkeypatch):
    # Long enough to come to that line on a busy machine.
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=2.0))
    message = check("4.99", answer).message
    assert "still running after 2 seconds" in message and line in message, message


def test_a_clock_that_the_answer_stops_is_outlived(monkeypatch):
    def stops_the_clock(scores):
        import faulthandler

        faulthandler.cancel_dump_traceback_later()
        time.sleep(600)

    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.5))
    check("4.99", softmax)  # so that a worker has started
    monkeypatch.setattr(sandbox, "PATIENCE", 4.0)
    assert "still running after 0.5 seconds" in check("4.99", stops_the_clock).message


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="nowhere to count them")
def test_a_check_leaves_no_process_and_no_file_open(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.3))
    check("4.99", softmax)
    open_before, children = len(os.listdir("/dev/fd")), len(psutil.Process().children())
    for answer in (softmax, loops, ends_the_process, starts_a_thread):
        check("4.99", answer)
    assert len(os.listdir("/dev/fd")) == open_before
    assert len(psutil.Process().children()) == children  # zombies count, too


def test_the_memory_of_the_kernel_does_not_grow(monkeypatch):
    def makes_much(scores):
        return torch.ones(2**28, dtype=torch.uint8)  # 256 MiB

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    check("4.99", softmax)
    before = psutil.Process().memory_info().rss
    assert check("4.99", makes_much).verdict.state == "not yet"
    assert psutil.Process().memory_info().rss - before < 2**24


@posix
def test_processes_that_the_answer_starts_end_with_it(monkeypatch, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def leaves_a_process(scores):
        subprocess.Popen(["sleep", "60"], pass_fds=[os.open(fifo, os.O_RDWR)])
        return softmax(scores)

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    assert check("4.99", leaves_a_process).solved
    assert nobody_holds(fifo)


def nobody_holds(fifo):
    """Whether no other process has it open: then there is nobody to write to."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno == errno.ENXIO
    return False


@posix
def test_the_stop_button_ends_a_check(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    kernel = os.getpid()

    def presses_the_button(scores):
        os.kill(kernel, signal.SIGINT)
        loops(scores)

    assert check("4.99", presses_the_button).message == "You stopped the check."


def test_what_the_answer_changes_stays_in_the_worker(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    calls.clear()
    check("4.99", remembers)
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


def nonsense(scores):
    return scores


def test_what_an_answer_does_to_the_engine_reaches_no_other_verdict(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    check("4.99", no_softmax)
    assert check("4.99", nonsense).verdict.state == "not yet"
    check("4.99", no_softmax)
    assert check("4.99", softmax).solved


def test_what_is_beside_the_notebook_spoils_no_check(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise RuntimeError('mine')\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path, tmp_path, b"bytes"])
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    sandbox.workers.end()
    assert check("4.99", softmax).solved
    assert check("4.99", cached_softmax()).solved


def cached_softmax():
    """As a student has it in a notebook."""
    cell = {"__name__": "__main__", "softmax": softmax}
    exec("import functools\n@functools.cache\ndef own(scores):\n    return softmax(scores)\n", cell)
    return cell["own"]


def test_a_worker_that_cannot_begin_is_the_machines_trouble(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    sandbox.workers.end()
    with monkeypatch.context() as broken:
        broken.setattr(
            "d2l_attention.system.workers.spawned.BEGIN", "raise SystemExit('no torch here'); "
        )
        result = check("4.99", softmax)
        sandbox.workers.end()
    assert result.verdict.state == "trouble" and "no torch here" in result.message
    assert "Your code" not in result.message


@pytest.mark.skipif(sys.platform == "win32", reason="there a folder in use cannot be deleted")
def test_the_notebooks_folder_may_be_gone(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    sandbox.workers.end()
    assert check("4.99", softmax).solved


@posix
def test_no_file_handle_is_left(monkeypatch):
    import resource

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    sandbox.workers.end()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd")), default=16)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    try:
        with pytest.raises(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        result, table = check("4.99", softmax), repr(engine.progress())
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.verdict.state == "trouble" and "Too many open files" in result.message
    assert "all" not in table.lower() or "solved" not in table.lower(), table
    assert check("4.99", softmax).solved


def test_a_check_works_from_another_thread(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(check, "4.99", softmax).result().solved
        monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.5))
        assert "still running" in pool.submit(check, "4.99", loops).result().message


def test_where_no_process_can_be_started_the_check_says_so(monkeypatch):
    def refused(*_, **__):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    sandbox.workers.end()
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", refused)
        result = check("4.99", softmax)
    assert result.verdict.state == "trouble" and "temporarily unavailable" in result.message
    assert check("4.99", softmax).solved


def test_what_cannot_be_sent_gets_a_sentence(monkeypatch):
    lock = threading.Lock()

    def locks(scores):
        with lock:
            return softmax(scores)

    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    for answer, kind in ((locks, "lock"), ((i for i in range(3)), "generator")):
        result = check("4.99", answer)
        assert result.verdict.state == "trouble" and f"{kind}' object" in result.message


def test_a_gpu_in_use_changes_nothing(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=0.5))
    assert check("4.99", softmax).solved
    assert "still running" in check("4.99", stuck_in_c).message


def test_a_module_of_the_students_own_is_read_anew(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
    for line, solved in (("scores.softmax(0)", False), ("scores.softmax(-1)", True)):
        (tmp_path / "my_own.py").write_text(f"def mine(scores):\n    return {line}\n", "utf-8")
        importlib.invalidate_caches()
        sys.modules.pop("my_own", None)
        assert check("4.99", importlib.import_module("my_own").mine).solved == solved


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


def raise_something():
    raise ZeroDivisionError("nasty")


@pytest.mark.parametrize("name", ["anything", "__class__", "__wrapped__", "__iter__"])
@pytest.mark.parametrize("stub", [None, softmax])
def test_an_answer_that_raises_when_somebody_looks_at_it(monkeypatch, name, stub):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(stub=stub))
    answer = Nasty(name, raise_something)
    assert check("4.99", answer).verdict.state in ("solved", "not yet", "trouble")


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


@posix
@pytest.mark.parametrize("then", ["returns", "leaves", "loops"])
def test_processes_in_sessions_of_their_own_end_as_well(monkeypatch, tmp_path, then):
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
    monkeypatch.setattr(engine, "find", lambda _: an_exercise(seconds=seconds))
    assert check("4.99", leaves_a_daemon).solved == (then == "returns")
    assert nobody_holds(fifo)


STATES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "meta": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("state", STATES)
def test_the_state_of_the_notebook_does_not_reach_the_check(monkeypatch, state):
    from d2l_attention.exercises.authoring import gradients_flow

    def by_product(scores):
        return softmax(scores @ torch.eye(scores.shape[-1]))

    exercise = an_exercise(steps=[gradients_flow()])
    monkeypatch.setattr(engine, "find", lambda _: exercise)
    with STATES[state]():
        result = check("4.99", by_product)
    assert result.solved, result.message


def test_a_default_dtype_does_not_reach_the_check(monkeypatch):
    monkeypatch.setattr(engine, "find", lambda _: an_exercise())
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
