"""What differs most between systems, in a Python that looks like Windows.

The folder ``like_windows`` on PYTHONPATH does it, also for any other test:
``PYTHONPATH=tests/platforms/like_windows python -m pytest tests/exercises``.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LIKE_WINDOWS = os.environ | {"PYTHONPATH": str(Path(__file__).parent / "like_windows")}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this is Windows")

DIFFERENT = """
import multiprocessing, os
assert not hasattr(os, "fork") and not hasattr(os, "killpg")
assert type(multiprocessing.get_context()).__name__ == "SpawnContext"
try:
    import resource
except ImportError:
    print("different")
"""


def test_the_pretence_holds():
    command = [sys.executable, "-c", DIFFERENT]
    done = subprocess.run(command, env=LIKE_WINDOWS, capture_output=True, encoding="utf-8")
    assert (done.stdout, done.stderr) == ("different\n", "")


# What is the same on every system is not tried once more: sums of clocks, words, formats of files.
@pytest.mark.parametrize(
    ("tests", "without"),
    [
        (
            "system/test_workers.py",
            "clock or pauses or cause_of_death or compiled or cannot_travel or left_behind",
        ),
        ("exercises/test_exercises_kernel.py", "nothing"),
        (
            "training/test_stopping.py",
            "number or damaged or foreign or another or best or settings",
        ),
    ],
    ids=["workers", "kernel", "stopping"],
)
def test_there(tests, without):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "-p", "no:cacheprovider"]
    command += ["-k", f"not ({without})"]
    done = subprocess.run(
        [*command, str(TESTS / tests)],
        env=LIKE_WINDOWS,
        cwd=TESTS.parent,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout
