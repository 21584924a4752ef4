"""Grades students' notebooks, each in a kernel of its own; nothing that a kernel says counts.

Three kinds of processes take part. The grader's own stays clean: it never runs a student's code.
A copy of it starts a notebook's kernel and feeds it the cells; there ``record.py`` writes the
answers down. For each answer another copy runs the exercise's check, with a package that the
kernel could not touch. Whatever these leave behind is killed.
"""

import base64
import contextlib
import json
import linecache
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cloudpickle
import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from d2l_attention.exercises.apart import apart
from d2l_attention.exercises.exercise import Exercise, Verdict
from d2l_attention.exercises.record import ANSWERS
from d2l_attention.exercises.sandbox import GRACE, START, run
from d2l_attention.exercises.stubs import is_stub
from d2l_attention.exercises.submission import Submission

SOLVED, WRONG, BLANK, MISSING, NOT_RUN = "solved", "wrong", "not attempted", "not there", "not run"
PATIENCE = 3  # times as long as in a student's kernel may a check take
KERNEL_START = 60.0  # seconds that a kernel has to start, on a busy machine; they are no cell's
LATE = 5.0  # seconds beyond its time after which a process is stopped by force
MOST_LETTERS = 400  # of a remark
TYPES = "builtins", "numpy", "torch"  # modules of the types that a value may have


@dataclass
class Row:
    """What the table says of one notebook; ``states`` by exercise."""

    notebook: str
    total: int
    states: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    remark: str = ""

    @property
    def solved(self) -> int:
        return list(self.states.values()).count(SOLVED)

    @property
    def tried(self) -> int:
        return self.solved + list(self.states.values()).count(WRONG)


def grade(submission: Submission, seconds: float, memory: float) -> Row:
    """Run one notebook, for at most ``seconds`` and with ``memory`` gigabytes, and judge it."""
    start = time.monotonic()
    row = Row(submission.path.as_posix(), len(submission.exercises))
    remarks = list(submission.remarks)
    if submission.problem is not None:
        remarks.append(submission.problem)
    else:
        # A folder that the student's code has locked against deletion is no reason to stop.
        with tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True) as folder:
            notebook_run = Run(submission, seconds, memory, Path(folder))
            remarks += notebook_run.remarks()
            row.states, more = notebook_run.judged()
            remarks += more
    row.seconds = time.monotonic() - start
    row.remark = one_line("; ".join(remarks))
    return row


class Run:
    """One run of a notebook, and what is to be said of it."""

    def __init__(self, submission: Submission, seconds: float, memory: float, folder: Path):
        self.submission, self.seconds, self.memory = submission, seconds, memory
        self.answers = folder / "answers"
        self.told, self.late = apart(
            run_cells,
            submission,
            seconds,
            folder,
            seconds=seconds + LATE,
            memory=memory,
            start=KERNEL_START,
        )
        self.failed = {tell["failed"]: tell["why"] for tell in self.told if "failed" in tell}
        self.began = max((tell["began"] for tell in self.told if "began" in tell), default=0)

    def remarks(self) -> list[str]:
        found = [tell["problem"] for tell in self.told if "problem" in tell]
        if not found and self.began <= len(self.submission.cells):
            late = f"was still running after {self.seconds:g} s and would not stop"
            lost = "took all memory, or ended the process that runs the cells"
            found = [f"code cell {self.began} {late if self.late else lost}"]
            if not self.began:
                found = ["its kernel did not start"]
        found += [f"code cell {number}: {why}" for number, why in list(self.failed.items())[:3]]
        if len(self.failed) > 3:
            found.append(f"{len(self.failed) - 3} more cells failed")
        for number in self.submission.rewriting():
            found.append(f"code cell {number} rewrites `check`, which changes nothing here")
        return found

    def judged(self) -> tuple[dict[str, str], list[str]]:
        """The state of each exercise of the chapter, and what there is to say of them."""
        states, remarks = {}, []
        for exercise in self.submission.exercises:
            # A busy machine must not fail a right answer.
            exercise = replace(exercise, seconds=PATIENCE * exercise.seconds)
            limit = START + exercise.seconds + GRACE + LATE
            told, _ = apart(judge, self.answers, exercise, seconds=limit, memory=self.memory)
            verdict = told[0] if told else self.without_verdict(exercise.id)
            states[exercise.id] = verdict["state"] or self.without_answer(exercise.id)
            if verdict.get("remark"):
                remarks.append(f"{exercise.id}: {verdict['remark']}")
        return states, remarks

    def without_verdict(self, exercise_id: str) -> dict:
        """Its judge died. Where there is an answer, that was the answer's doing."""
        given = last_answer(self.answers, exercise_id) is not None
        return {"state": WRONG if given else None, "remark": "its check gave no verdict"}

    def without_answer(self, exercise_id: str) -> str:
        """Its cell was deleted, or failed before ``check``, or its turn did not come."""
        number = self.submission.places().get(exercise_id)
        if number is None:
            return MISSING
        if number in self.failed:
            return WRONG
        return NOT_RUN if number >= self.began else MISSING


# ---- In the process that feeds the kernel ---------------------------------------------------


class Deaf(NotebookClient):
    """Keeps no outputs: gigabytes of them would fill our memory, and nothing in them counts."""

    def process_message(self, msg: dict, cell: Any, cell_index: int) -> None:
        if msg["msg_type"] == "status":
            super().process_message(msg, cell, cell_index)


def run_cells(tell: Callable, submission: Submission, seconds: float, folder: Path) -> None:
    """Run the cells; tells of each before its turn, and of each that fails.

    A cell may take half of the time that is left. Then it is interrupted, so that an endless
    loop does not hide the answers behind it.
    """
    limit = began = 0.0

    def half_of_what_is_left(_cell: Any) -> float:
        nonlocal limit
        limit = max(0.5, (deadline - time.monotonic()) / 2)
        return limit

    def failed(cell: Any, cell_index: int, execute_reply: dict) -> None:
        name, said = execute_reply["content"]["ename"], execute_reply["content"]["evalue"]
        stopped = name == "KeyboardInterrupt" and time.monotonic() - began >= limit
        why = f"stopped after {limit:.0f} s" if stopped else f"{name}: {said[:200]}"
        tell(failed=cell_index + 1, why=why)

    prepare_environment(folder)
    client = new_client(submission, half_of_what_is_left, failed)
    client.start_new_kernel(cwd=str(folder))
    client.start_new_kernel_client()
    tell(began=0)
    deadline = time.monotonic() + seconds
    for index, cell in enumerate(submission.cells):
        began = time.monotonic()
        if began > deadline:
            tell(problem=f"out of time after {seconds:g} s, before code cell {index + 1}")
            return
        tell(began=index + 1)
        try:
            client.execute_cell(cell, index)
        except DeadKernelError:
            tell(problem=f"the kernel ended in code cell {index + 1} or just before")
            return
    tell(began=len(submission.cells) + 1)


def new_client(submission: Submission, timeout: Callable, failed: Callable) -> NotebookClient:
    """A client for a kernel that runs in this very Python, whatever the notebook asks for."""
    native = KernelSpecManager(kernel_dirs=[])
    return Deaf(
        nbformat.v4.new_notebook(cells=submission.cells),
        km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=native),
        allow_errors=True,
        timeout_func=timeout,
        interrupt_on_timeout=True,
        on_cell_error=failed,
        record_timing=False,
        extra_arguments=[
            "--log-level=CRITICAL",
            "--IPKernelApp.extra_extensions=d2l_attention.exercises.record",
        ],
    )


def prepare_environment(folder: Path) -> None:
    """One thread, no GPU, no display; nothing is written to the grader's own files."""
    os.environ.update(
        {
            ANSWERS: str(folder / "answers"),
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "IPYTHONDIR": str(folder / ".ipython"),
            "JUPYTER_RUNTIME_DIR": str(folder / ".jupyter"),
            "TMPDIR": str(folder),
            "D2L_ATTENTION_PROGRESS": str(folder / "progress.json"),
        }
    )
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        os.environ.pop(name, None)


# ---- In the process that judges an answer ---------------------------------------------------


def judge(tell: Callable, answers: Path, exercise: Exercise) -> None:
    """Tell the state of ``exercise`` by the last answer that was written down, if one was."""
    entry = last_answer(answers, exercise.id)
    if entry is None:
        tell(state=None)
        return
    for name, lines in entry["cells"].items():  # there is_stub and tracebacks look for them
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    try:
        if "problem" in entry:
            raise ValueError(entry["problem"])
        answer = cloudpickle.loads(base64.b64decode(entry["answer"]))
    except Exception as error:
        tell(state=WRONG, remark=f"the answer cannot leave the notebook: {error}")
        return
    if is_stub(answer, exercise.stub):
        tell(state=BLANK)
    elif not callable(exercise.solution) and not is_plain(answer):
        tell(state=WRONG, remark=f"no plain value but a {type(answer).__name__}")
    else:
        verdict, _ = run(exercise, answer)
        state = {"solved": SOLVED, "not attempted": BLANK}.get(verdict.state, WRONG)
        tell(state=state, remark=verdict.message if worth_a_look(verdict) else None)


def worth_a_look(verdict: Verdict) -> bool:
    """Whether it says little about the answer: the check was lost, or had no time."""
    return verdict.state == "trouble" or "was still running after" in verdict.message


def last_answer(answers: Path, exercise_id: str) -> dict | None:
    last = None
    with contextlib.suppress(FileNotFoundError), answers.open(encoding="utf-8") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):  # a line that broke off
                entry = json.loads(line)
                last = entry if entry["id"] == exercise_id else last
    return last


def is_plain(value: Any) -> bool:
    """Made of types whose ``==`` no student has written."""
    if type(value) in (list, tuple, set, dict):
        return all(map(is_plain, value)) and (
            type(value) is not dict or all(map(is_plain, value.values()))
        )
    return type(value).__module__ in TYPES


def one_line(text: str) -> str:
    """Short, and without control characters, whatever a student's error says."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + " ..."
