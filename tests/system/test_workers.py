"""Functions that run in another process: what comes back, what ends it, what is left."""

import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import torch

from d2l_attention.system.workers import (
    CannotTravel,
    Clock,
    Gone,
    Ready,
    Worker,
    as_written,
    cause_of_death,
    packed,
)
from d2l_attention.system.workers.forked import CAN_FORK, ForkServer
from d2l_attention.system.workers.packing import same, search_path
from d2l_attention.system.workers.spawned import BEGIN, Spawned

CANNOT_BEGIN = "d2l_attention.system.workers.spawned.BEGIN", "raise SystemExit('no torch here'); "
PATIENCE = 200.0  # seconds: an error that is not about time came long before


@pytest.fixture(scope="module", params=["spawned", "forked"][: 1 + CAN_FORK])
def start(request):
    """Each way to start a worker."""
    server = ForkServer(["torch"])
    yield Spawned if request.param == "spawned" else server.fork
    server.end()


@pytest.fixture(scope="module")
def kept(start):
    """A worker takes a second to start: what leaves nothing behind shares one."""
    worker = Worker(start=start)
    yield worker
    worker.end()


@pytest.fixture
def own(start):
    worker = Worker(start=start)
    yield worker
    worker.end()


def call(worker, function, *arguments, **limits):
    worker.give(packed(function, *arguments))
    return worker.result(limits.pop("patience", PATIENCE), **limits)


def test_results_prints_and_errors_come_back_in_their_order(kept):
    size, printed = 3, []

    def squares(number):
        sys.stdout.writelines([f"squares of {number}\n"])
        assert sys.stdout.writable()
        sys.stdout.close()  # the next work prints all the same
        return torch.arange(number) ** 2

    for _ in range(2):
        assert call(kept, squares, size, on_print=printed.append).tolist() == [0, 1, 4]
    assert "".join(printed) == "squares of 3\n" * 2
    with pytest.raises(RuntimeError, match="(?s)^TypeError: .*Traceback.*in squares"):
        call(kept, squares, "three")
    with pytest.raises(RuntimeError, match="^SystemExit: 3"):
        call(kept, sys.exit, 3)
    with pytest.raises(RuntimeError, match="^TypeError: cannot pickle"):
        call(kept, threading.Lock)
    assert call(kept, squares, 1).tolist() == [0]


def test_the_folder_and_the_modules_are_the_callers(kept, tmp_path, monkeypatch):
    (tmp_path / "of_mine_only.py").write_text("NUMBER = 11\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def number():
        import of_mine_only

        return os.getcwd(), of_mine_only.NUMBER

    assert call(kept, number) == (str(tmp_path.resolve()), 11)


def shouts_in_threads():
    def shout():
        for _ in range(300):
            print("x" * 99)

    threads = [threading.Thread(target=shout) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_print_do_not_spoil_each_others_messages(kept):
    printed = []
    call(kept, shouts_in_threads, on_print=printed.append)
    assert "".join(printed).count("x") == 8 * 300 * 99


def in_pieces(seconds, piece, times, pause=0.0):
    with Clock(seconds) as clock:
        for _ in range(times):
            time.sleep(piece)
            with clock.paused():
                time.sleep(pause)
    return "done"


def test_the_clock_adds_up_what_runs_inside(own):
    with pytest.raises(Gone) as gone:
        call(own, in_pieces, 0.5, 0.05, 10**6)
    assert gone.value.why == "late"
    # Its time may also be up in the clock's own lines, between two pieces.
    assert gone.value.frames[0].name == "in_pieces"


def test_pauses_do_not_count_and_a_clock_without_an_end_ends_nothing(kept):
    assert call(kept, in_pieces, 3.0, 0.0, 2, 2.0) == "done"
    assert in_pieces(math.inf, 0.0, 2) == "done"


def test_one_that_dies_or_says_nothing(start):
    for function, arguments, why, code in (
        (os._exit, (3,), "died", 3),
        (time.sleep, (600,), "silent", None),
    ):
        worker = Worker(start=start)
        try:
            with pytest.raises(Gone) as gone:
                call(worker, function, *arguments, patience=PATIENCE if code else 1.0)
            assert (gone.value.why, gone.value.exit_code) == (why, code)
        finally:
            worker.end()
        assert not worker.alive


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_that_escapes_with_our_pipe_holds_nobody_up(tmp_path):
    def lets_its_pipes_be_inherited(file):
        for number in range(3, 20):
            try:
                os.set_inheritable(number, True)
            except OSError:
                pass
        if (child := os.fork()) == 0:
            os.execve(sys.executable, ["python", "-c", "import time; time.sleep(600)"], {})
        file.write_text(str(child), "utf-8")

    file, worker = tmp_path / "number", Worker()
    try:
        call(worker, lets_its_pipes_be_inherited, file)
        psutil.Process(worker.process.pid).kill()
        worker.process.wait()  # its child is nobody's now, and has no mark
    finally:
        worker.end()
        psutil.Process(int(file.read_text("utf-8"))).kill()


def changes_much():
    os.environ["CHANGED"] = "yes"
    torch.Tensor.softmax = None
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return os.getpid()


def test_a_ready_one_serves_once_and_the_next_is_as_new():
    ready = Ready("colorsys")

    def state():
        changed = "CHANGED" in os.environ or torch.Tensor.softmax is None
        return os.getpid(), "colorsys" in sys.modules, changed, threading.active_count()

    def in_one(function):
        with ready.worker() as worker:
            return call(worker, function)

    try:
        first = in_one(changes_much)
        assert not psutil.pid_exists(first)
        second, has_module, changed, threads = in_one(state)
        assert second != first and has_module and not changed and threads == 2
        assert in_one(state)[0] not in (first, second)
    finally:
        ready.end()


def test_a_ready_one_that_cannot_begin_is_no_fault_of_the_work(monkeypatch):
    with pytest.raises(OSError, match="a new Python cannot begin: ModuleNotFoundError: .*nowhere"):
        with Ready("nowhere").worker():
            pass
    monkeypatch.setattr(*CANNOT_BEGIN)
    with pytest.raises(
        OSError, match="a new Python (ended with exit code 1|hung up): no torch here"
    ):
        with Ready().worker():
            pass


def test_two_at_one_queue_are_not_taken_for_each_other(start):
    messages = queue.SimpleQueue()
    team = [Worker(messages, start) for _ in range(2)]
    try:
        for number, worker in enumerate(team):
            worker.give(packed(math.sqrt, number))
        with pytest.raises(TypeError, match="shares a queue"):
            team[0].result(PATIENCE)
        found = [messages.get(timeout=PATIENCE) for _ in team]
        assert {(team.index(said.worker), said.what) for said in found} == {(0, 0.0), (1, 1.0)}
    finally:
        for worker in team:
            worker.end()


def test_a_module_beside_the_notebook_does_not_stand_for_pythons_own(tmp_path, monkeypatch):
    for name in ("json", "pickle", "queue", "torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('mine')\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    paths = ["", str(tmp_path), *sys.path, b"bytes", tmp_path, None]
    monkeypatch.setattr(sys, "path", paths)
    worker = Worker()
    try:
        assert call(worker, math.sqrt, 49) == 7.0
        worker.give(packed(search_path))
        assert worker.result(PATIENCE) == [path for path in paths if isinstance(path, str)]
    finally:
        worker.end()


def test_a_cached_function_of_a_notebook_travels_with_its_code(kept):
    cell = {"__name__": "__main__"}
    exec(
        "import functools\n"
        "@functools.lru_cache(maxsize=3, typed=True)\n"
        "def slow(n):\n    return n if n < 2 else slow(n - 1) + slow(n - 2)\n"
        "def answer(n):\n    return slow(n), slow.cache_parameters()\n",
        cell,
    )
    assert call(kept, cell["slow"], 60) == 1548008755920
    number, parameters = call(kept, cell["answer"], 60)
    assert number == 1548008755920 and parameters == {"maxsize": 3, "typed": True}


def test_a_ready_one_that_ended_idle_comes_back():
    ready = Ready()
    ready.warm_up()
    idle = ready._spare.process
    while idle.pid is None:
        time.sleep(0.01)
    psutil.Process(idle.pid).kill()
    idle.wait()
    try:
        with ready.worker() as worker:
            assert call(worker, os.getpid) != idle.pid
    finally:
        ready.end()


needs_fork = pytest.mark.skipif(not CAN_FORK, reason="no fork on this system")


@needs_fork
def test_a_fork_server_that_somebody_killed_comes_back():
    ready = Ready()
    try:
        for _ in range(2):
            with ready.worker() as worker:
                assert call(worker, math.sqrt, 49) == 7.0
            ready._server._python.kill()
            ready._server._python.wait()
    finally:
        ready.end()


def ends_its_nurse():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def leaves_a_process_behind(file):
    """One that has left the session, and whose parent is gone: only a nurse still finds it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            file.write_text(str(os.getpid()), "utf-8")
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not file.exists() or not file.read_text("utf-8"):
        time.sleep(0.01)
    return int(file.read_text("utf-8"))


@needs_fork
def test_what_a_forked_one_leaves_ends_with_it(tmp_path):
    ready = Ready()
    try:
        with ready.worker() as worker, pytest.raises(Gone):
            call(worker, ends_its_nurse)
        pid = worker.process.pid
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=PATIENCE)
        with ready.worker() as worker:
            left = call(worker, leaves_a_process_behind, tmp_path / "number")
        assert not psutil.pid_exists(left) and not psutil.pid_exists(pid)
    finally:
        ready.end()


@pytest.mark.parametrize("forks", [False, pytest.param(True, marks=needs_fork)])
def test_work_that_comes_when_the_spare_one_has_been_idle_for_long(monkeypatch, forks):
    """Also in the moment in which it ends, and its server with it."""
    short = "from d2l_attention.system.workers import inside; inside.IDLE = 0.25; "
    monkeypatch.setattr("d2l_attention.system.workers.spawned.BEGIN", BEGIN + short)
    monkeypatch.setattr("d2l_attention.system.workers.ready.CAN_FORK", forks)
    ready = Ready()
    try:
        for wait in (0.0, 0.2, 0.25, 0.3, 0.6, 0.0) if forks else (0.25, 0.0):
            with ready.worker() as worker:
                assert call(worker, math.sqrt, 49) == 7.0
            time.sleep(wait)
    finally:
        ready.end()


def test_idle_ones_end_by_themselves(monkeypatch):
    short = "from d2l_attention.system.workers import inside; inside.IDLE = 0.1; "
    monkeypatch.setattr("d2l_attention.system.workers.spawned.BEGIN", BEGIN + short)
    worker = Worker()
    try:
        assert worker.process.wait(PATIENCE) == 0
    finally:
        worker.end()


CALLER = """
import os, sys, time
from d2l_attention.system.workers import Worker, packed

def loops():
    print(os.getpid(), flush=True)
    while True:
        pass

worker = Worker()
worker.give(packed(loops))
worker.result(600, on_print=lambda text: print(text, end="", flush=True))
"""


def test_it_ends_when_its_caller_is_killed():
    caller = subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE)
    try:
        below = psutil.Process(int(caller.stdout.readline()))
        caller.kill()
        psutil.wait_procs([below], timeout=PATIENCE)
        assert not below.is_running() or below.status() == psutil.STATUS_ZOMBIE
    finally:
        caller.kill()
        caller.communicate()


def test_what_cannot_travel_says_what_stands_in_the_way():
    with pytest.raises(CannotTravel, match="cannot pickle '_thread.lock' object"):
        packed(len, threading.Lock())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own imports
def test_compiled_functions_and_modules_travel_as_they_were_written(kept):
    layer = torch.nn.Linear(2, 3)
    compiled = torch.compile(same, backend="eager")
    assert as_written(compiled) is same
    assert as_written(torch.compile(layer, backend="eager")) is layer
    assert as_written(layer) is layer and as_written(3) == 3
    assert call(kept, compiled, 42) == 42


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (3, "ended with exit code 3"),
        (-15, "was killed by SIGTERM"),
        (-99, "was killed by signal 99"),
        (None, "hung up"),
    ],
)
def test_the_cause_of_death_in_words(code, told):
    assert cause_of_death(code) == told
