"""A worker as a new Python: on every system, and found again with all that it has started."""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from d2l_attention.system.workers import inside
from d2l_attention.system.workers.packing import current_folder, search_path

# All that a worker starts inherits this variable, and is found by it.
MARK = "D2L_ATTENTION_WORKERS"
# A new Python looks for modules where its caller does.
BEGIN = "import sys; sys.path[:] = sys.argv[1:]; "


class Spawned:
    """A worker's process, for its caller: what ``Worker`` needs of a ``subprocess.Popen``."""

    def __init__(self, log: BinaryIO, environment: Mapping[str, str] | None = None):
        self._mark = secrets.token_hex(8)
        marks_above = filter(None, [os.environ.get(MARK)])
        self._python = new_python(
            f"from {inside.__name__} import main; main()",
            {**(environment or {}), MARK: ",".join([*marks_above, self._mark])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        self.stdin, self.stdout = self._python.stdin, self._python.stdout
        self.pid, self.wait = self._python.pid, self._python.wait

    @property
    def is_over(self) -> bool:
        return self._python.poll() is not None

    def end(self) -> None:
        """End it, and all that was started below it."""
        self._python.kill()
        self._python.wait()
        end_marked(self._mark)


def new_python(
    code: str, environment: Mapping[str, str] | None = None, **streams: Any
) -> subprocess.Popen:
    """A Python that runs ``code``."""
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + code, *own_folder_last(search_path())],
        cwd=current_folder() or tempfile.gettempdir(),  # torch cannot begin nowhere
        env=os.environ | (environment or {}),
        **streams,
        **_deaf_to_ctrl_c(),
    )


def own_folder_last(paths: list[str]) -> list[str]:
    """Where modules are looked for while a worker begins: a file ``json.py`` beside the notebook
    must not stand for Python's own. With its work a worker gets the order of its caller."""
    here = current_folder()
    if here == str(Path(__file__).resolve().parents[3]):  # this package itself is found there
        return paths
    return sorted(paths, key=lambda path: path in ("", ".", here))


def end_marked(mark: str) -> None:
    """End all processes that inherited ``mark``: also those whose parent is gone already."""
    for _ in range(100):  # who is killed may just have started another
        found = [process for process in psutil.process_iter() if mark in _marks(process)]
        if not found:
            return
        for process in found:
            try:
                process.kill()
            except psutil.Error:  # it was faster
                pass
        psutil.wait_procs(found, timeout=1)


def _marks(process: psutil.Process) -> list[str]:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return []
        return process.environ().get(MARK, "").split(",")
    except (psutil.Error, OSError):  # gone, or somebody else's
        return []


def _deaf_to_ctrl_c() -> dict[str, Any]:
    """Ctrl-C is for the caller, who ends its workers."""
    if os.name == "nt":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
