"""A course of nbgrader in a folder: what the tests of grading share."""

import copy
import csv
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from d2l_attention.exercises.__main__ import main
from d2l_attention.exercises.engine import registry

ROOT = Path(__file__).resolve().parents[2]


def cells_of(notebook):
    """The cells that nbgrader knows, by their names."""
    known = (cell for cell in notebook.cells if "nbgrader" in cell.metadata)
    return {cell.metadata.nbgrader.grade_id: cell for cell in known}


def with_answers(notebook, answers):
    """A submission: ``notebook`` with other answers, by exercise."""
    submission = copy.deepcopy(notebook)
    for exercise_id, source in answers.items():
        cells_of(submission)[f"answer-{exercise_id.replace('.', '-')}"].source = source
    return submission


def nbgrader(course, *arguments):
    """Run it as in an activated environment, without anybody's own settings."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "JUPYTER_CONFIG_DIR": str(course / "nobody"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "nbgrader", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=course, env=environment, **pipes)


def points_in(course):
    exported = nbgrader(course, "export")
    assert exported.returncode == 0, exported.stdout
    with (course / "grades.csv").open(newline="", encoding="utf-8") as file:
        return {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}


def key(exercise_id):
    return exercise_id.replace(".", "-")


def refused(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["exercises", "nbgrader", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return str(stop.value)


@pytest.fixture
def nothing_private_stays(monkeypatch):
    """What the test finds beside the package leaves this process with the test."""
    package = importlib.import_module(registry.PACKAGE)
    monkeypatch.setattr(package, "__path__", list(package.__path__))
    monkeypatch.setenv(registry.PRIVATE, "")
    registry.load_chapter.cache_clear()
    yield
    registry.load_chapter.cache_clear()
    for name in [name for name in sys.modules if name.startswith(f"{registry.PACKAGE}.chapter_50")]:
        del sys.modules[name]
    vars(package).pop("chapter_50", None)
