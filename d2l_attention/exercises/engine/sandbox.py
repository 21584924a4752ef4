"""Runs a check where it can be stopped: in a copy of the kernel's process.

A copy made by ``fork`` holds the student's function with all that it uses, and it can be
killed inside an operation that no exception reaches. It must keep its hands off what it
shares with the kernel: its sockets, its output, its keyboard, its event loop. Between the two
stands a keeper, a copy that runs nothing of the student's and ends all that is started below it.
Where no copy can be made (Windows, CUDA in use) the check runs in the kernel itself, under a
time limit that stops Python code and time.sleep but not a long operation written in C.
"""

import builtins
import contextlib
import ctypes
import faulthandler
import gc
import getpass
import os
import pickle
import signal
import sys
import time
import warnings
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import torch

from d2l_attention.exercises.engine.examine import Verdict, examine
from d2l_attention.exercises.engine.limits import limit_memory, printing_to
from d2l_attention.exercises.exercise import Exercise

START = 10.0  # seconds in which a copy must show that it works
GRACE = 1.5  # seconds in which the copy's own time limit may still act
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h

_copies_work = hasattr(os, "fork")
_slow_starts = 0  # one after the other: a busy machine is slow once, a broken fork always


def run(exercise: Exercise, answer: Any) -> tuple[Verdict, str]:
    """The verdict and what the answer printed."""
    if _copies_work and not torch.cuda.is_initialized():
        outcome = run_in_copy(exercise, answer)
        if outcome is not None:
            return outcome
    return run_here(exercise, answer)


def run_here(exercise: Exercise, answer: Any) -> tuple[Verdict, str]:
    printed: list[str] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with printing_to(printed.append):
            verdict = examine(exercise, answer)
    finally:
        torch.set_num_threads(threads)
    return verdict, "".join(printed)


def run_in_copy(exercise: Exercise, answer: Any) -> tuple[Verdict, str] | None:
    """As ``run``; None where no copy can do it."""
    global _copies_work, _slow_starts
    receiving, sending = Pipe(duplex=False)
    pid = fork()
    if pid == 0:
        be_the_keeper(exercise, answer, sending)
    sending.close()
    heard = Heard()
    try:
        heard.listen(receiving, exercise.seconds)
    except KeyboardInterrupt:
        heard.verdict = Verdict("trouble", "You stopped the check.")
    finally:
        end(pid)
        receiving.close()
    if heard.unfit:
        return None
    if not heard.ready and heard.verdict is None:
        _slow_starts += heard.late
        _copies_work = heard.late and _slow_starts < 2
        return None
    _slow_starts = 0
    verdict = heard.verdict or without_verdict(exercise, heard.late, heard.exit_code)
    return verdict, heard.printed


def fork() -> int:
    with warnings.catch_warnings():
        # From Python 3.12 on a fork beside other threads warns, and a kernel always has
        # some. Their locks are what it warns of; the copy touches none of their things.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        return os.fork()


class Ended(BaseException):
    """The kernel has heard enough."""


def be_the_keeper(exercise: Exercise, answer: Any, pipe: Connection) -> NoReturn:
    """All of the keeper's life: it waits for the copy and ends whatever that leaves behind."""
    copy = None
    try:
        let_go_of_the_kernel()
        signal.signal(signal.SIGTERM, on_sigterm)
        copy = fork()
        if copy == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            be_the_copy(exercise, answer, pipe)
        status = os.waitpid(copy, 0)[1]
        pipe.send(("ended", os.waitstatus_to_exitcode(status)))
    except BaseException:  # Ended; and if a copy cannot be made, the kernel hears nothing
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_children(copy)
        # Not sys.exit: the kernel's clean-up must not run twice.
        os._exit(0)


def on_sigterm(*_: Any) -> NoReturn:
    raise Ended


def end_children(copy: int | None) -> None:
    """Kill all below the keeper; what loses its parent becomes the keeper's child."""
    for _ in range(1000):
        below = children() or [copy]
        for pid in filter(None, below):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                os.killpg(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def children() -> list[int]:
    """Of this process, which has a single thread; empty where the system does not say."""
    known = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in known.read_text().split()] if known.exists() else []


def be_the_copy(exercise: Exercise, answer: Any, pipe: Connection) -> NoReturn:
    """All of the copy's life: it reports through ``pipe`` and never returns."""
    try:
        os.setsid()  # a group of its own, so that all that it starts ends with it
        limit_memory()
        prove_that_torch_works()
        pipe.send(("ready", None))
        with printing_to(lambda text: pipe.send(("printed", text))):
            verdict = examine(exercise, answer)
        # CUDA was only looked at in the kernel, which already spoils it in a copy.
        unfit = "forked subprocess" in verdict.message
        pipe.send(("unfit", None) if unfit else ("verdict", verdict))
    finally:
        os._exit(0)


def let_go_of_the_kernel() -> None:
    gc.freeze()  # what the kernel left for collection may hold its sockets
    os.setsid()  # Ctrl-C reaches the kernel alone
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    signal.set_wakeup_fd(-1)  # the kernel's event loop listens there
    faulthandler.disable()  # a crash here is no news for the kernel's log
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    builtins.input = getpass.getpass = no_keyboard
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # its compilers outlive a copy's time


def no_keyboard(*_: Any) -> str:
    raise RuntimeError("a check cannot type: use the arguments instead of input()")


def prove_that_torch_works() -> None:
    """Raise or hang here, where it is noticed, rather than in the student's code.

    OpenMP's threads do not survive a fork, and with more than one the copy would wait for
    them for ever. Autograd's device threads do not survive it either.
    """
    torch.set_num_threads(1)
    matrix = torch.ones(128, 128, device="cpu", requires_grad=True)
    (matrix @ matrix).softmax(dim=-1).sum().backward()


class Heard:
    """What a copy has reported so far."""

    def __init__(self) -> None:
        self.ready = self.unfit = self.late = False
        self.exit_code = 0
        self.printed = ""
        self.verdict: Verdict | None = None

    def listen(self, pipe: Connection, seconds: float) -> None:
        """Until the copy has given a verdict, has ended, or is out of time."""
        deadline = time.monotonic() + START
        while pipe.poll(max(0.0, deadline - time.monotonic())):
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                return
            if kind == "ready":
                self.ready = True
                deadline = time.monotonic() + seconds + GRACE
            elif kind == "printed":
                self.printed += content
            elif kind == "ended":
                self.exit_code = content
                return
            else:
                self.unfit, self.verdict = kind == "unfit", content
                return
        self.late = True


def end(pid: int) -> None:
    """End a keeper, and by it the copy with all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)


def without_verdict(exercise: Exercise, late: bool, exit_code: int) -> Verdict:
    """The verdict where a copy gave none: it was ``late``, or ended early with this code."""
    if late:
        found = (
            f"Your code was still running after {exercise.seconds:g} seconds and could only be "
            "stopped by force. Either one single operation takes that long (is a tensor far "
            "larger than you think?), or it catches every exception, the stop signal too "
            "(`except:` without a name)."
        )
    elif exit_code < 0:
        found = (
            f"Your code brought Python itself down ({signal.Signals(-exit_code).name}). Endless "
            "recursion and far too much memory do that."
        )
    else:
        found = "Your code ended Python itself (`os._exit`?). Return a value instead."
    return Verdict("not yet", f"Not yet. {found}")
