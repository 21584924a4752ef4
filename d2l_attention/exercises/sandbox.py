"""Runs a check where it can be stopped: in a copy of the kernel's process.

A copy made by ``fork`` holds the student's function with all that it uses, and it can be
killed inside an operation that no exception reaches. It must keep its hands off what it
shares with the kernel: its sockets, its output, its keyboard, its event loop. Where no copy
can be made (Windows, CUDA in use) the check runs in the kernel itself, under a time limit
that stops Python code and time.sleep but not a long operation written in C.
"""

import builtins
import contextlib
import faulthandler
import gc
import getpass
import os
import pickle
import signal
import time
import warnings
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import torch

from d2l_attention.exercises.examine import examine
from d2l_attention.exercises.exercise import Exercise, Verdict
from d2l_attention.exercises.limits import limit_memory, printing_to

START = 10.0  # seconds in which a copy must show that it works
GRACE = 1.5  # seconds in which the copy's own time limit may still act

_copies_work = hasattr(os, "fork")


def run(exercise: Exercise, answer: Any) -> tuple[Verdict, str]:
    """The verdict and what the answer printed."""
    if _copies_work and not torch.cuda.is_initialized():
        outcome = run_in_copy(exercise, answer)
        if outcome is not None:
            return outcome
    return run_here(exercise, answer)


def run_here(exercise: Exercise, answer: Any) -> tuple[Verdict, str]:
    printed: list[str] = []
    with printing_to(printed.append):
        verdict = examine(exercise, answer)
    return verdict, "".join(printed)


def run_in_copy(exercise: Exercise, answer: Any) -> tuple[Verdict, str] | None:
    """As ``run``; None where no copy can do it."""
    global _copies_work
    receiving, sending = Pipe(duplex=False)
    pid = fork()
    if pid == 0:
        be_the_copy(exercise, answer, sending)
    sending.close()
    heard = Heard()
    try:
        heard.listen(receiving, exercise.seconds)
    except KeyboardInterrupt:
        heard.verdict = Verdict("trouble", "You stopped the check.")
    finally:
        status = end(pid)
        receiving.close()
    if heard.unfit:
        return None
    if not heard.ready and heard.verdict is None:
        _copies_work = False
        return None
    verdict = heard.verdict or without_verdict(exercise, heard.late, status)
    return verdict, heard.printed


def fork() -> int:
    with warnings.catch_warnings():
        # From Python 3.12 on a fork beside other threads warns, and a kernel always has
        # some. Their locks are what it warns of; the copy touches none of their things.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        return os.fork()


def be_the_copy(exercise: Exercise, answer: Any, pipe: Connection) -> None:
    """All of the copy's life: it reports through ``pipe`` and never returns."""
    try:
        let_go_of_the_kernel()
        prove_that_torch_works()
        pipe.send(("ready", None))
        with printing_to(lambda text: pipe.send(("printed", text))):
            verdict = examine(exercise, answer)
        # CUDA was only looked at in the kernel, which already spoils it in a copy.
        unfit = "forked subprocess" in verdict.message
        pipe.send(("unfit", None) if unfit else ("verdict", verdict))
    finally:
        # Not sys.exit: the kernel's clean-up must not run twice.
        os._exit(0)


def let_go_of_the_kernel() -> None:
    gc.freeze()  # what the kernel left for collection may hold its sockets
    os.setsid()  # a group of its own, so that all that it starts ends with it
    signal.set_wakeup_fd(-1)  # the kernel's event loop listens there
    faulthandler.disable()  # a crash here is no news for the kernel's log
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    builtins.input = getpass.getpass = no_keyboard
    limit_memory()


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
            else:
                self.unfit, self.verdict = kind == "unfit", content
                return
        self.late = True


def end(pid: int) -> int:
    """End a copy with all that it started; how it had ended if it did so itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


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
