"""From a chapter to a table of points, by the real nbgrader."""

import copy
import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader_course import cells_of, key, nbgrader, points_in, refused, with_answers

from d2l_attention.classroom import assignment as hand_out
from d2l_attention.exercises.__main__ import main
from d2l_attention.exercises.engine.registry import chapter_numbers, load_chapter

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = "06_multi_head_attention"
STEM = f"hw{CHAPTER}"
POINTS = {"6.1": 1, "6.2": 1, "6.3": 1, "6.4": 2, "6.5": 2, "6.6": 3}


# ---- From the assignment to the table -------------------------------------------------------

ENDLESS = "def split_heads(X, num_heads):\n    import time\n    time.sleep(600)"
ENDS_PYTHON = "import os\nos._exit(3)"
OTHER_NAMES = "from IPython import display\nresult = check = print = 1\nquit()"
OWN_CHECK = """\
class Anything:
    solved = True
def check(*_):
    return Anything()
answer = None"""


def hand_in(course, student, submission):
    folder = course / "submitted" / student / STEM
    folder.mkdir(parents=True)
    # As it is: nbformat would mend what students' tools leave.
    text = submission if isinstance(submission, str) else json.dumps(submission)
    (folder / f"{STEM}.ipynb").write_text(text, encoding="utf-8")


def insert(notebook, place, source):
    """An own cell behind the one called ``place``."""
    place = notebook.cells.index(cells_of(notebook)[place]) + 1
    notebook.cells.insert(place, nbformat.v4.new_code_cell(source))


# A kernel a notebook takes seconds: what meets different exercises shares one.


def clumsy(right):
    """What students and their tools do to a notebook that is right: all points are left."""
    notebook = copy.deepcopy(right)
    cells = cells_of(notebook)
    for name in ("answer-6-1", "test-6-4", "answer-6-5"):  # pasted
        notebook.cells.insert(notebook.cells.index(cells[name]) + 1, copy.deepcopy(cells[name]))
    notebook.cells.remove(cells["test-6-1"])
    notebook.cells.remove(cells["imports"])
    notebook.cells.append(cells["imports"])
    insert(notebook, "answer-6-3", OTHER_NAMES)
    insert(notebook, "answer-6-4", cells["answer-6-4"].source)
    cells["answer-6-4"].source = "def multi_head(*given):\n    ..."
    cells["answer-6-2"].metadata.nbgrader = "yes"
    cells["answer-6-2"].metadata.colab = {"base_uri": "https://localhost"}
    cells["test-6-2"].metadata.nbgrader = {"grade_id": 7, "grade": "perhaps"}
    cells["answer-6-3"].metadata.nbgrader.grade_id = "mine"
    del cells["answer-6-6"].metadata.nbgrader["grade_id"]
    notebook.cells[0].metadata.nbgrader = {}
    notebook.metadata["d2l_attention"] = {"version": "0.0.1"}
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"1": {}}}
    notebook.metadata["kernelspec"] = {"name": "nobody-has-it", "display_name": "Mine"}
    return notebook


def broken(right):
    """Answers that are gone or never end: 6.2 and 6.6 are left, with 1 + 3 points."""
    notebook = with_answers(right, {"6.3": ENDLESS, "6.5": ENDS_PYTHON})
    cells = cells_of(notebook)
    insert(notebook, "test-6-1", ENDS_PYTHON)
    place = notebook.cells.index(cells["answer-6-1"])
    notebook.cells[place] = nbformat.v4.new_markdown_cell(
        "(1, 2)", metadata=cells["answer-6-1"].metadata
    )
    for name in ("imports", "answer-6-4", "test-6-5"):
        notebook.cells.remove(cells[name])
    return notebook


def cheat(blank, right):
    """A check of one's own; tests with another text or a tag not to run; five of six bugs found."""
    no_lengths = cells_of(right)["answer-6-6"].source.replace(
        "valid_lens = torch.tensor([2, 5])", "valid_lens = torch.tensor([5, 5])"
    )
    notebook = with_answers(
        blank, {"6.1": OWN_CHECK, "6.2": "answer = (4, 12, 1)", "6.6": no_lengths}
    )
    cells_of(notebook)["test-6-4"].source = "pass"
    cells_of(notebook)["test-6-5"].metadata.tags = [hand_out.NOT_GRADED]
    return notebook


def test_from_the_assignment_to_the_table(tmp_path, monkeypatch):
    course = tmp_path / "a course"
    monkeypatch.setattr(sys, "argv", ["exercises", "nbgrader", "06", str(course)])
    main()
    made = nbgrader(course, "generate_assignment", STEM)
    assert made.returncode == 0, made.stdout
    right, blank = (
        nbformat.read(course / step / STEM / f"{STEM}.ipynb", as_version=4)
        for step in ("source", "release")
    )
    assert_is_the_students_version(blank)
    submissions = {
        "right": (right, 10),
        "clumsy": (clumsy(right), 10),
        "broken": (broken(right), 4),
        "cheat": (cheat(blank, right), 2.5),
    }
    for student, (submission, _) in submissions.items():
        hand_in(course, student, submission)
    hand_in(course, "a damaged one", '{"cells": [')

    # A slow machine must not fail a right answer. A file that is no notebook is named, and nobody
    # behind it is forgotten.
    graded = nbgrader(course, "autograde", STEM, "--Execute.timeout=900")
    assert graded.returncode == 1, graded.stdout
    named = re.findall(r"error processing .* for student '([\w ]+)'", graded.stdout)
    assert named == ["a damaged one"]
    expected = {name: points for name, (_, points) in submissions.items()}
    assert points_in(course).items() >= expected.items()
    back = {name: autograded(course, name) for name in expected}
    assert "still running after 10 seconds" in said(back["broken"], "6.3")
    assert "ended Python" in str(cells_of(back["broken"])["answer-6-5"].outputs)
    assert "The cell 'imports' was missing" in back["broken"].cells[0].source
    assert "Not attempted yet." in said(back["cheat"], "6.4")
    for words in (
        "several cells 'answer-6-1'",
        "'mine' is not one of the assignment",
        "The cell 'test-6-1' was missing",
        "version 0.0.1 of the course",
    ):
        assert words in back["clumsy"].cells[0].source
    assert "This cell ended Python" in str(
        [c for c in back["clumsy"].cells if "quit()" in c.source]
    )
    assert "Before grading" not in back["right"].cells[0].source
    was_run = [cell for cell in back["right"].cells if cell.get("execution_count")]
    assert len(was_run) == 1 + 2 * len(POINTS)  # imports, answers, tests
    page = nbgrader(course, "generate_feedback", STEM, "--student=clumsy")
    assert page.returncode == 0, page.stdout

    # The instructor hands out once more, with submissions there.
    main()
    again = nbgrader(course, "generate_assignment", STEM, "--force")
    assert again.returncode == 0, again.stdout
    assert points_in(course)["right"] == 10


def autograded(course, student):
    return nbformat.read(course / "autograded" / student / STEM / f"{STEM}.ipynb", as_version=4)


def said(notebook, exercise_id):
    test = cells_of(notebook)[f"test-{key(exercise_id)}"]
    return "".join(output.get("data", {}).get("text/plain", "") for output in test.outputs)


def assert_is_the_students_version(notebook):
    """Every stub as the notebook has it, and no solution."""
    cells = cells_of(notebook)
    assert "SOLUTION" not in "".join(cell.source for cell in notebook.cells)
    for exercise in load_chapter(6).exercises:
        answer, test = cells[f"answer-{key(exercise.id)}"], cells[f"test-{key(exercise.id)}"]
        assert answer.source.count("def ") <= 1
        assert getattr(exercise.stub, "__doc__", None) is None or '"""' in answer.source
        assert not test.metadata.editable
        assert test.metadata.nbgrader.points == POINTS[exercise.id]


# ---- Every chapter --------------------------------------------------------------------------


@pytest.mark.parametrize("number", chapter_numbers())
def test_the_instructors_version_of_every_chapter_is_right(number, tmp_path, monkeypatch):
    """All that grading runs, run here: the imports, the solutions, the tests."""
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))
    notebook = hand_out.assignment(number, hand_out.chapter_notebook(number, hand_out.NOTEBOOKS))
    nbformat.validate(notebook)
    cells = cells_of(notebook)
    first, *names = cells
    # In the order of the page, which puts what is easy first, and some behind 'Going further'.
    keys = [name.removeprefix("answer-") for name in names[::2]]
    assert first == "imports"
    assert names == [f"{kind}-{key}" for key in keys for kind in ("answer", "test")]
    exercises = load_chapter(number).exercises
    assert sorted(keys) == sorted(exercise.id.replace(".", "-") for exercise in exercises)
    known = {}
    for cell in cells.values():
        exec(cell.source, known)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    passed_over = [cell for cell in code if hand_out.NOT_GRADED in cell.metadata.get("tags", [])]
    assert len(passed_over) + len(cells) == len(code)


def test_what_a_solution_takes_from_its_file_is_imported():
    exercise = load_chapter(6).exercises[3]
    answer = hand_out.answer_cell('check("6.4", multi_head)', exercise, "multi_head", {"torch"})
    assert (
        "from d2l_attention.exercises.chapter_06.multi_head import masked_softmax" in answer.source
    )


def test_an_answer_cell_keeps_what_stands_beside_the_stub():
    exercise = load_chapter(6).exercises[2]
    beside = "import math\n\nwidth = 3\n\n"
    cell = f'{beside}def split_heads(X, num_heads): ...\n\n\ncheck("6.3", split_heads)'
    source = hand_out.answer_cell(cell, exercise, "split_heads", set()).source
    assert source.startswith(f'{beside}def split_heads(X, num_heads):\n    """')
    assert "check(" not in source
    _, solution = source.split("### BEGIN SOLUTION\n")
    assert solution.startswith("def split_heads(") and solution.endswith("\n### END SOLUTION")


# ---- What cannot be done is told, and nothing is written ------------------------------------


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_an_unknown_chapter(tmp_path, monkeypatch):
    told = refused(monkeypatch, "44", tmp_path / "course")
    assert told == f"There is no chapter 44: give one from 00 to {chapter_numbers()[-1]}."
    assert everything(tmp_path) == []


def test_a_missing_nbgrader(tmp_path, monkeypatch):
    monkeypatch.setattr(hand_out, "find_spec", lambda _: None)
    told = refused(monkeypatch, "6", tmp_path / "course")
    # A line that sh, cmd and PowerShell read alike, with this Python: .venv/bin is not everywhere.
    assert told.startswith(f"nbgrader is not installed: type `{sys.executable} -m pip install ")
    assert '".[nbgrader]"' in told and "'" not in told
    assert everything(tmp_path) == []


def test_a_copy_beside_the_chapter_is_not_the_chapter(tmp_path):
    for name in (CHAPTER, f"{CHAPTER}-Copy1"):
        (tmp_path / f"{name}.ipynb").touch()
    assert hand_out.chapter_notebook(6, tmp_path) == tmp_path / f"{CHAPTER}.ipynb"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "has 0 named 06_*.ipynb: give the folder `notebooks` of a checkout"),
        ("", "is no notebook: make it anew with `make notebooks`."),
        (nbformat.writes(nbformat.v4.new_notebook()), "has no cell that checks 6.1, 6.2, "),
    ],
    ids=["missing", "empty", "without checks"],
)
def test_a_chapter_that_is_missing_or_damaged(tmp_path, monkeypatch, text, expected):
    if text is not None:
        (tmp_path / f"{CHAPTER}.ipynb").write_text(text)
    before = everything(tmp_path)
    told = refused(monkeypatch, "6", tmp_path / "course", "--notebooks", tmp_path)
    assert expected in told and everything(tmp_path) == before


def test_an_assignment_is_brought_up_to_date_and_what_is_the_instructors_stays(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "source" / STEM
    folder.mkdir(parents=True)
    (folder / f"{STEM}.ipynb").write_text("an older version")
    own = folder / "data.csv", tmp_path / "nbgrader_config.py"
    for file in own:
        file.write_text("# mine")
    monkeypatch.setattr(sys, "argv", ["exercises", "nbgrader", "6", str(tmp_path)])
    main()
    out = capsys.readouterr().out
    assert "nbgrader_config.py was there and stays as it is." in out
    assert out.endswith(f"Next, in {tmp_path}: nbgrader generate_assignment {STEM}\n")
    assert nbformat.read(folder / f"{STEM}.ipynb", as_version=4).metadata.d2l_attention.version
    assert [file.read_text() for file in own] == ["# mine"] * 2


def test_a_course_folder_that_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "course").write_text("my own")
    told = refused(monkeypatch, "6", tmp_path / "course")
    assert re.fullmatch(r"Cannot write into .*/course: (Not a directory|File exists)\.", told)


def test_a_full_disk_leaves_the_assignment_as_it_was(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    notebook = tmp_path / "source" / STEM / f"{STEM}.ipynb"
    notebook.parent.mkdir(parents=True)
    notebook.write_text("as it was")
    monkeypatch.setattr(hand_out, "write_whole", full)
    told = refused(monkeypatch, "6", tmp_path)
    assert told == f"Cannot write into {tmp_path}: No space left on device."
    assert notebook.read_text() == "as it was"
