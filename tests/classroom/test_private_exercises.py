"""An instructor's own exercises, from a folder: handed out, graded and reported by nbgrader."""

import json
import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbgrader_course import (
    ROOT,
    nbgrader,
    nothing_private_stays,  # noqa: F401 - a fixture
    points_in,
    refused,
    with_answers,
)

from d2l_attention.exercises.__main__ import main
from d2l_attention.exercises.engine.registry import chapter_numbers

EXAMPLE = ROOT / "notebooks" / "publish" / "classroom" / "private_example"


def test_private_exercises_are_handed_out_and_graded(tmp_path, monkeypatch):
    """In processes of their own: what is private stays out of this one."""
    private, course = tmp_path / f"my exercises{os.pathsep} 2026", tmp_path / "course"
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
    curious = "\nfrom d2l_attention.exercises import solution\nsolution('50.1')"
    for student, submission in {
        "right": right,
        "curious": with_answers(blank, {"50.1": largest + curious}),
    }.items():
        folder = course / "submitted" / student / name
        folder.mkdir(parents=True)
        (folder / f"{name}.ipynb").write_text(json.dumps(submission), "utf-8")
    graded = nbgrader(course, "autograde", name, "--Execute.timeout=900")
    assert graded.returncode == 0, graded.stdout
    assert points_in(course) == {"right": 1, "curious": 0}
    page = (course / "autograded" / "curious" / name / f"{name}.ipynb").read_text("utf-8")
    assert "compare the weights" in page
    assert "is your instructor's" in page and "softmax(dim=-1).amax" not in page
    monkeypatch.setenv("D2L_ATTENTION_EXERCISES", str(private))
    told = subprocess.run(
        [sys.executable, "-m", "d2l_attention.exercises", "report", name, str(course)],
        capture_output=True,
        encoding="utf-8",
    )
    assert "50.1" in told.stdout and "equal to the reference: right" in told.stdout, told.stderr
    # Without the checks nobody gets 0 points in silence.
    private.rename(tmp_path / "elsewhere")
    lost = nbgrader(course, "autograde", name, "--student=right", "--force")
    assert lost.returncode == 1 and "The checks of chapter 50 are not found" in lost.stdout


def test_a_private_folder_without_exercises(tmp_path, monkeypatch):
    told = refused(monkeypatch, "50", tmp_path / "course", "--with", tmp_path)
    assert told.endswith("no folder such as chapter_50 with exercises, and no such file.")


NOT_READY = {
    "an edit of nothing": (
        ('"scores.softmax(dim=-1)",', '"scores.softmax(dim=5)",'),
        "AuthorError: 50.1: `scores.softmax(dim=5)` does not occur in `sharpest_solution`",
    ),
    "inputs that are no tuple": (
        ("cases=[Case(tuple(normal(seed, (5, 3))))", "cases=[Case(normal(seed, (5, 3))[0])"),
        "TypeError: inputs must be a tuple, such as (scores,) for one, got Tensor",
    ),
    "another id than the notebook's": (
        ('id="50.1"', 'id="50.2"'),
        "50_quiz.ipynb checks 50.1, which no file of the chapter declares.",
    ),
    "one id twice": (
        ("TITLE =", "again = Exercise(**vars(sharpest_query))\nTITLE ="),
        "ValueError: chapter 50 has two exercises 50.1: each has its own",
    ),
}


@pytest.mark.usefixtures("nothing_private_stays")
@pytest.mark.parametrize(("change", "told"), NOT_READY.values(), ids=NOT_READY)
def test_what_an_author_mistook_is_told_and_nothing_is_written(tmp_path, monkeypatch, change, told):
    as_one_file(tmp_path / "private")
    file = tmp_path / "private" / "chapter_50.py"
    assert change[0] in file.read_text("utf-8")
    file.write_text(file.read_text("utf-8").replace(*change), "utf-8")
    said = refused(monkeypatch, "50", tmp_path / "course", "--with", tmp_path / "private")
    assert said.endswith(told)
    assert not (tmp_path / "course").exists()


@pytest.mark.usefixtures("nothing_private_stays")
def test_a_chapter_in_one_file_is_handed_out_beside_settings_that_are_there(
    tmp_path, monkeypatch, capsys
):
    """The line that these settings need is told."""
    as_one_file(tmp_path / "mine")
    course = tmp_path / "course"
    course.mkdir()
    (course / "nbgrader_config.py").touch()
    command = ["exercises", "nbgrader", "50", str(course), "--with", str(tmp_path / "mine")]
    monkeypatch.setattr(sys, "argv", command)
    assert 50 not in chapter_numbers()  # the package knows nothing of the example
    main()
    said = capsys.readouterr().out
    assert "Assignment hw50_quiz is written" in said
    assert f'os.environ["D2L_ATTENTION_EXERCISES"] = {str(tmp_path / "mine")!r}' in said


def as_one_file(folder):
    """The example with its chapter as a single file."""
    folder.mkdir(parents=True)
    text = (EXAMPLE / "chapter_50" / "sharpest.py").read_text("utf-8")
    chapter = f'{text}\nTITLE = "A quiz of our own"\n'
    (folder / "chapter_50.py").write_text(chapter, "utf-8")
    shutil.copy(EXAMPLE / "50_quiz.ipynb", folder)


def as_a_folder(folder):
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))


ASK = """\
from d2l_attention.exercises import check, solution
if {begin!r}:
    from d2l_attention.exercises.engine.registry import use_private
    use_private({begin!r})
print(solution("50.1"))
print(check("50.1", lambda scores: scores.softmax(dim=-1).amax(dim=-1).argmax().item()))
"""


@pytest.mark.parametrize(
    ("kept", "name", "how"),
    [
        (as_one_file, f"a{os.pathsep}{os.pathsep}b", "a call"),
        (as_a_folder, f"{os.pathsep}at both{os.pathsep}", "the variable"),
    ],
)
def test_private_exercises_wherever_they_are(tmp_path, kept, name, how):
    """As file or folder, below any name; the check finds them and nobody gets the solution."""
    kept(tmp_path / name)
    other = tmp_path / "another one"
    other.mkdir()
    folders = [str(other), str(tmp_path / name)]
    known = folders if how == "the variable" else folders[:1]
    run = subprocess.run(
        [sys.executable, "-c", ASK.format(begin="" if known == folders else folders[1])],
        capture_output=True,
        encoding="utf-8",
        env=os.environ
        | {
            "D2L_ATTENTION_EXERCISES": os.pathsep.join(known),
            "D2L_ATTENTION_PROGRESS": str(tmp_path / "progress.json"),
        },
    )
    assert "is your instructor's." in run.stdout and "def sharpest" not in run.stdout, run.stderr
    assert "Solved." in run.stdout


def test_the_folder_counts_that_the_environment_no_longer_names(tmp_path, monkeypatch):
    as_one_file(tmp_path / "mine")
    forgotten = ASK.format(begin=str(tmp_path / "mine")).replace(
        "print(sol", "import os; os.environ.clear(); print(sol"
    )
    run = subprocess.run(
        [sys.executable, "-c", forgotten.rpartition("print(check")[0]],
        capture_output=True,
        encoding="utf-8",
    )
    assert "is your instructor's." in run.stdout, run.stderr
