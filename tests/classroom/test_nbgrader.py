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
SYNTAX_ERROR = "def split_heads(X, num_heads)\n    return X"
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


ENDS_PYTHON = "import os\nos._exit(3)"


def place_of(notebook, name):
    return notebook.cells.index(cells_of(notebook)[name])


def clumsy(half, right):
    """What students do to a notebook of 3 points, or of 10, with the points that are left."""

    def changed(*changes, of=half):
        submission = copy.deepcopy(of)
        cells = cells_of(submission)
        for change in changes:
            change(submission, cells)
        return submission

    def pasted(name):
        return lambda nb, cells: nb.cells.insert(place_of(nb, name) + 1, copy.deepcopy(cells[name]))

    def without(*names):
        return lambda nb, cells: [nb.cells.remove(cells[name]) for name in names]

    def other_name(nb, cells):
        cells["answer-6-1"].metadata.nbgrader.grade_id = "mine"

    def no_name(nb, cells):
        del cells["answer-6-4"].metadata.nbgrader["grade_id"]

    def own_cell(nb, cells):
        answer = cells["answer-6-4"]
        nb.cells.insert(nb.cells.index(answer) + 1, nbformat.v4.new_code_cell(answer.source))
        answer.source = "def multi_head(*given):\n    ..."

    def other_order(nb, cells):
        nb.cells[:] = nb.cells[::-1]

    def imports_last(nb, cells):
        nb.cells.remove(cells["imports"])
        nb.cells.append(cells["imports"])

    def kernel_ends(nb, cells):
        cells["answer-6-5"].source = ENDS_PYTHON

    def own_cell_ends_the_kernel(nb, cells):
        nb.cells.insert(place_of(nb, "answer-6-2"), nbformat.v4.new_code_cell(ENDS_PYTHON))

    def answer_became_prose(nb, cells):
        place = nb.cells.index(cells["answer-6-1"])
        nb.cells[place] = nbformat.v4.new_markdown_cell(
            "(1, 2)", metadata=cells["answer-6-1"].metadata
        )

    def odd_metadata(nb, cells):
        cells["answer-6-2"].metadata.nbgrader = "yes"
        nb.cells[0].metadata.nbgrader = {}
        cells["test-6-2"].metadata.nbgrader = {"grade_id": 7, "grade": "perhaps"}

    def older(nb, cells):
        nb.metadata["d2l_attention"] = {"version": "0.0.1"}

    def by_colab(nb, cells):
        nb.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"1": {}}}
        nb.metadata["kernelspec"] = {"name": "nobody-has-it", "display_name": "Mine"}
        cells["answer-6-2"].metadata.colab = {"base_uri": "https://localhost"}

    def other_names(nb, cells):
        source = "from IPython import display\nresult = check = print = 1\nquit()"
        nb.cells.insert(place_of(nb, "test-6-1"), nbformat.v4.new_code_cell(source))

    def nothing_is_left(nb, cells):
        nb.cells[:] = []

    def everything_twice(nb, cells):
        nb.cells += copy.deepcopy(nb.cells)

    stuck = with_answers(half, {"6.3": ENDLESS, "6.6": SYNTAX_ERROR})
    # A kernel a notebook takes seconds: what meets different exercises shares one.
    return {
        "own-cells": (
            changed(
                pasted("answer-6-1"),
                pasted("test-6-4"),
                pasted("answer-6-5"),
                own_cell,
                without("test-6-1"),
            ),
            3,
        ),
        "renamed": (changed(other_name, no_name, older, imports_last, odd_metadata), 3),
        "without": (
            changed(
                without("answer-6-4", "imports"),
                without("answer-6-5", "test-6-5"),
                answer_became_prose,
                of=right,
            ),
            10 - 2 - 2 - 1,
        ),
        "other-order": (changed(other_order), 0),
        "ends-python": (changed(kernel_ends, own_cell_ends_the_kernel, of=stuck), 3),
        "colab": (changed(by_colab, other_names), 3),
        "nothing": (changed(nothing_is_left), 0),
        "twice": (changed(everything_twice), 3),
    }


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

    answers = {i: cells_of(right)[f"answer-{key(i)}"].source for i in ("6.1", "6.4")}
    half = with_answers(blank, answers | {"6.2": "answer = (4, 12, 1)"})  # the last is wrong
    own_test = cells_of(right)["answer-6-6"].source
    no_lengths = own_test.replace(
        "valid_lens = torch.tensor([2, 5])", "valid_lens = torch.tensor([5, 5])"
    )
    # A check of one's own, a test whose text is changed, a test that is tagged as not to be run;
    # and five of six bugs found.
    cheat = with_answers(blank, {"6.1": OWN_CHECK, "6.6": no_lengths})
    cells_of(cheat)["test-6-4"].source = "pass"
    cells_of(cheat)["test-6-5"].metadata.tags = [hand_out.NOT_GRADED]
    submissions = clumsy(half, right) | {
        "right": (right, 10),
        "untouched": (blank, 0),
        "cheat": (cheat, 2.5),
    }
    for student, (submission, _) in submissions.items():
        hand_in(course, student, submission)

    # A slow machine must not fail a right answer.
    graded = nbgrader(course, "autograde", STEM, "--Execute.timeout=900")
    assert graded.returncode == 0, graded.stdout
    assert points_in(course) == {name: points for name, (_, points) in submissions.items()}
    assert "still running after 10 seconds" in said(course, "ends-python", "6.3")
    assert "Not attempted yet." in said(course, "untouched", "6.4")
    assert "several cells 'answer-6-1'" in beginning(course, "own-cells")
    assert "'mine' is not one of the assignment" in beginning(course, "renamed")
    assert "The cell 'test-6-1' was missing" in beginning(course, "own-cells")
    assert "The cell 'imports' was missing" in beginning(course, "without")
    assert "version 0.0.1 of the course" in beginning(course, "renamed")
    assert "Before grading" not in beginning(course, "right")
    ended = nbformat.read(course / "autograded/ends-python" / STEM / f"{STEM}.ipynb", 4)
    assert "ended Python" in str(cells_of(ended)["answer-6-5"].outputs)
    assert "This cell ended Python" in str(cells_with(course, "colab", "quit()"))
    page = nbgrader(course, "generate_feedback", STEM, "--student=colab")
    assert page.returncode == 0, page.stdout
    chapter = nbformat.read(course / "autograded" / "right" / STEM / f"{STEM}.ipynb", as_version=4)
    was_run = [cell for cell in chapter.cells if cell.get("execution_count")]
    assert len(was_run) == 1 + 2 * len(POINTS)  # imports, answers, tests

    # A file that is no notebook is named, and nobody behind it is forgotten. Then the instructor
    # hands out once more, with submissions there.
    hand_in(course, "damaged", '{"cells": [')
    hand_in(course, "zoe", half)
    graded = nbgrader(course, "autograde", STEM, "--Execute.timeout=900")
    assert graded.returncode == 1, graded.stdout
    assert re.findall(r"error processing .* for student '(\w+)'", graded.stdout) == ["damaged"]
    assert points_in(course)["zoe"] == 3
    main()
    again = nbgrader(course, "generate_assignment", STEM, "--force")
    assert again.returncode == 0, again.stdout
    assert points_in(course)["right"] == 10


def beginning(course, student):
    path = course / "autograded" / student / STEM / f"{STEM}.ipynb"
    return nbformat.read(path, as_version=4).cells[0].source


def cells_with(course, student, text):
    path = course / "autograded" / student / STEM / f"{STEM}.ipynb"
    return [cell for cell in nbformat.read(path, as_version=4).cells if text in cell.source]


def assert_is_the_students_version(notebook):
    """Every stub as the notebook has it, and no solution."""
    cells = cells_of(notebook)
    assert "SOLUTION" not in "".join(cell.source for cell in notebook.cells)
    for exercise in load_chapter(6).exercises:
        answer, test = cells[f"answer-{key(exercise.id)}"], cells[f"test-{key(exercise.id)}"]
        assert answer.source.count("def ") <= 1
        assert getattr(exercise.stub, "__doc__", None) is None or '"""' in answer.source
        assert (test.metadata.editable, test.metadata.nbgrader.points) == (
            False,
            POINTS[exercise.id],
        )


def said(course, student, exercise_id):
    path = course / "autograded" / student / STEM / f"{STEM}.ipynb"
    test = cells_of(nbformat.read(path, as_version=4))[f"test-{exercise_id.replace('.', '-')}"]
    return "".join(output.get("data", {}).get("text/plain", "") for output in test.outputs)


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


def test_missing_notebooks(tmp_path, monkeypatch):
    told = refused(monkeypatch, "6", tmp_path / "course", "--notebooks", tmp_path)
    assert "has 0 named 06_*.ipynb: give the folder `notebooks` of a checkout" in told
    assert everything(tmp_path) == []


def test_a_copy_beside_the_chapter_is_not_the_chapter(tmp_path):
    for name in (CHAPTER, f"{CHAPTER}-Copy1"):
        (tmp_path / f"{name}.ipynb").touch()
    assert hand_out.chapter_notebook(6, tmp_path) == tmp_path / f"{CHAPTER}.ipynb"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is no notebook: make it anew with `make notebooks`."),
        (nbformat.writes(nbformat.v4.new_notebook()), "has no cell that checks 6.1, 6.2, "),
    ],
)
def test_a_chapter_that_is_damaged(tmp_path, monkeypatch, text, expected):
    (tmp_path / f"{CHAPTER}.ipynb").write_text(text)
    told = refused(monkeypatch, "6", tmp_path / "course", "--notebooks", tmp_path)
    assert expected in told
    assert everything(tmp_path) == [f"{CHAPTER}.ipynb"]


def test_an_assignment_that_is_there_is_brought_up_to_date(tmp_path, monkeypatch):
    folder = tmp_path / "source" / STEM
    folder.mkdir(parents=True)
    (folder / "data.csv").write_text("my own")
    (folder / f"{STEM}.ipynb").write_text("an older version")
    monkeypatch.setattr(sys, "argv", ["exercises", "nbgrader", "6", str(tmp_path)])
    main()
    assert nbformat.read(folder / f"{STEM}.ipynb", as_version=4).metadata.d2l_attention.version
    assert (folder / "data.csv").read_text() == "my own"


def test_a_course_folder_that_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "course").write_text("my own")
    told = refused(monkeypatch, "6", tmp_path / "course")
    assert re.fullmatch(r"Cannot write into .*/course: (Not a directory|File exists)\.", told)


def test_settings_that_are_there_stay(tmp_path, monkeypatch, capsys):
    (tmp_path / "nbgrader_config.py").write_text("# mine")
    monkeypatch.setattr(sys, "argv", ["exercises", "nbgrader", "6", str(tmp_path)])
    main()
    out = capsys.readouterr().out
    assert "nbgrader_config.py was there and stays as it is." in out
    assert out.endswith(f"Next, in {tmp_path}: nbgrader generate_assignment {STEM}\n")
    assert (tmp_path / "nbgrader_config.py").read_text() == "# mine"


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
