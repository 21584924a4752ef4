"""An instructor's own exercises, from a folder: handed out, graded and reported by nbgrader."""

import json
import shutil
import subprocess
import sys

import nbformat
from nbgrader_course import ROOT, nbgrader, points_in, refused, with_answers

EXAMPLE = ROOT / "notebooks" / "publish" / "classroom" / "private_example"


def test_private_exercises_are_handed_out_and_graded(tmp_path, monkeypatch):
    """In processes of their own: what is private stays out of this one."""
    private, course = tmp_path / "my exercises", tmp_path / "course"
    shutil.copytree(EXAMPLE, private, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "d2l_attention.exercises", "nbgrader", "50", str(course)]
    made = subprocess.run([*command, "--with", str(private)], capture_output=True, encoding="utf-8")
    assert made.returncode == 0, made.stderr
    name = "hw50_quiz"
    assert nbgrader(course, "generate_assignment", name).returncode == 0
    right = nbformat.read(course / "source" / name / f"{name}.ipynb", as_version=4)
    blank = nbformat.read(course / "release" / name / f"{name}.ipynb", as_version=4)
    assert "softmax" not in nbformat.writes(blank)
    largest = "def sharpest(scores):\n    return scores.amax(dim=-1).argmax().item()"
    over_queries = largest.replace("scores.", "scores.softmax(dim=-2).")
    curious = "def sharpest(scores):\n    ...\nfrom d2l_attention.exercises import solution\n"
    for student, submission in {
        "right": right,
        "wrong": with_answers(blank, {"50.1": largest}),
        "over-queries": with_answers(blank, {"50.1": over_queries}),
        "always-0": with_answers(blank, {"50.1": "def sharpest(scores):\n    return 0"}),
        "curious": with_answers(blank, {"50.1": curious + "solution('50.1')"}),
    }.items():
        folder = course / "submitted" / student / name
        folder.mkdir(parents=True)
        (folder / f"{name}.ipynb").write_text(json.dumps(submission), "utf-8")
    graded = nbgrader(course, "autograde", name, "--Execute.timeout=900")
    assert graded.returncode == 0, graded.stdout
    assert points_in(course) == {
        "right": 1,
        "wrong": 0,
        "over-queries": 0,
        "always-0": 0,
        "curious": 0,
    }
    graded_pages = {
        student: (course / "autograded" / student / name / f"{name}.ipynb").read_text("utf-8")
        for student in ("wrong", "over-queries", "always-0", "curious")
    }
    assert "compare the weights" in graded_pages["wrong"]
    assert "softmax goes over the queries" in graded_pages["over-queries"]
    assert not any(words in graded_pages["always-0"] for words in ("compare the", "goes over"))
    curious_page = graded_pages["curious"]
    assert "is your instructor's" in curious_page and "softmax" not in curious_page
    monkeypatch.setenv("D2L_ATTENTION_EXERCISES", str(private))
    told = subprocess.run(
        [sys.executable, "-m", "d2l_attention.exercises", "report", name, str(course)],
        capture_output=True,
        encoding="utf-8",
    )
    assert "50.1" in told.stdout and "equal to the reference: right" in told.stdout, told.stderr
    # A second one, into a folder with settings: the line that they need is told.
    again = subprocess.run(
        [*command, "--with", str(EXAMPLE)], capture_output=True, encoding="utf-8"
    )
    assert f'os.environ["D2L_ATTENTION_EXERCISES"] = {str(EXAMPLE)!r}' in again.stdout


def test_a_private_folder_without_exercises(tmp_path, monkeypatch):
    told = refused(monkeypatch, "50", tmp_path / "course", "--with", tmp_path)
    assert told.endswith("has no folder such as chapter_50 with exercises.")


def test_the_package_knows_nothing_of_the_example():
    program = "from d2l_attention.exercises.engine.registry import chapter_numbers as n; print(n())"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", cwd=ROOT
    )
    assert "50" not in run.stdout and run.returncode == 0
