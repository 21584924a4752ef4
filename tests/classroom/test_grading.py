"""Whatever one cell of a notebook does, the answers in the others keep their points."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.utils import determine_grade
from nbgrader_course import cells_of

from d2l_attention.classroom import assignment as hand_out
from d2l_attention.classroom.grading import PatientExecute, QuietExecute, mend, plain_metadata
from d2l_attention.classroom.report import read_student

USED = ("6.1", "6.3", "6.6")  # a number, a function, a test that the student writes
LONG = 120  # seconds that no right answer needs


@pytest.fixture(scope="module")
def right():
    """Three exercises of chapter 6 with their solutions: 1 + 1 + 3 points."""
    path = hand_out.chapter_notebook(6, hand_out.NOTEBOOKS)
    notebook = hand_out.assignment(6, path)
    names = ["imports"]
    names += [f"{kind}-{i.replace('.', '-')}" for i in USED for kind in ("answer", "test")]
    cells = cells_of(notebook)
    notebook.cells = [cells[name] for name in names]
    return notebook


def known_of(notebook):
    """What ``mend`` wants to know of the notebook that was handed out."""
    return {name: (cell.cell_type, cell.source) for name, cell in cells_of(notebook).items()}


def with_cells(notebook, **sources):
    """The notebook with own cells in front of those that are named, such as ``test_6_1``."""
    own = copy.deepcopy(notebook)
    for name, source in sources.items():
        place = own.cells.index(cells_of(own)[name.replace("_", "-")])
        own.cells.insert(place, new_code_cell(source))
    return own


def graded(notebook, folder, timeout=LONG):
    """Run as nbgrader runs it; the points of each exercise. The report says the same sum."""
    resources = {"metadata": {"path": str(folder)}}
    PatientExecute(timeout=timeout).preprocess(notebook, resources)
    tests = {name: c for name, c in cells_of(notebook).items() if name.startswith("test-")}
    points = {name: determine_grade(cell)[0] for name, cell in tests.items()}
    told = read_student("anna", notebook).answers
    assert [answer.points(0) for answer in told.values()] == list(points.values())
    return list(points.values())


@pytest.fixture(autouse=True)
def no_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))


# ---- Names ------------------------------------------------------------------------------------

OTHER_NAMES = """\
from IPython import display
print = len = check = result = graded = d2l_graded = d2l_attention = _ = __ = Out = In = 1
import sys
for name in [name for name in sys.modules if name.startswith("d2l_attention")]:
    del sys.modules[name]
sys.modules["d2l_attention.exercises.graded"] = None
"""
BROKEN_PYTHON = """\
import builtins
def refuse(*given, **named):
    raise ImportError("no imports in this notebook")
builtins.__import__ = refuse
builtins.isinstance = None
"""


# A kernel takes seconds, and a cell that is not to end a patience: what can be tried in one is.
def test_other_names_cost_nothing(right, tmp_path):
    """Also not beside files that are called like what the tests import, and in a broken Python."""
    for name in ("d2l_attention", "torch", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the student')")
    (tmp_path / "helpers.py").write_text("pair = (1, 2)")
    own = {"answer_6_1": f"import helpers\n{OTHER_NAMES}", "test_6_6": BROKEN_PYTHON}
    notebook = with_cells(right, test_6_3="display = 1", **own)
    assert graded(notebook, tmp_path, timeout=20) == [1, 1, 3]


def test_a_test_leaves_no_names(right):
    tests = [cell.source for cell in right.cells if cell.metadata.nbgrader.grade]
    assert not any("display" in source or "result" in source for source in tests)


# ---- Cells that end Python, or never end --------------------------------------------------------

LATE = """\
import os, threading
threading.Timer(1, os._exit, [3]).start()
"""
CATCHES_ALL = """\
import time
while True:
    try:
        time.sleep(600)
    except BaseException:
        pass
"""


def test_cells_and_answers_that_end_python_cost_themselves(right, tmp_path):
    notebook = with_cells(right, test_6_6="quit()")
    cells_of(notebook)["answer-6-3"].source += "\nimport os\nos._exit(1)"
    assert graded(notebook, tmp_path) == [1, 0, 3]
    ended = [cell.source for cell in notebook.cells if "This cell ended Python" in str(cell)]
    assert ended == [cells_of(notebook)["answer-6-3"].source, "quit()"]


def test_an_end_that_comes_late_costs_no_answer(right, tmp_path):
    notebook = with_cells(right, answer_6_1=LATE, answer_6_6="import time\ntime.sleep(2)")
    assert graded(notebook, tmp_path) == [1, 1, 3]


def test_cells_that_nothing_stops_cost_themselves(right, tmp_path):
    """What an answer needs from another cell of the student, it finds in the new kernel, too."""
    helped = copy.deepcopy(right)
    answer = cells_of(helped)["answer-6-1"]
    answer.source = f"{answer.source}\nanswer = same(answer)"
    own = {"answer_6_1": "def same(x):\n    return x", "test_6_1": CATCHES_ALL}
    notebook = with_cells(helped, **own)
    assert graded(notebook, tmp_path, timeout=20) == [1, 1, 3]
    stopped = [cell.source for cell in notebook.cells if "could not be stopped" in str(cell)]
    assert stopped == [CATCHES_ALL]


def test_an_answer_that_is_not_there_is_not_tried_again(right, tmp_path, monkeypatch):
    """Each trial takes a kernel, and seconds."""
    started = []
    new = QuietExecute.start_new_kernel
    monkeypatch.setattr(
        QuietExecute, "start_new_kernel", lambda self, **kw: started.append(1) or new(self, **kw)
    )
    notebook = copy.deepcopy(right)
    cells_of(notebook)["answer-6-1"].source = "# nothing yet"
    cells_of(notebook)["answer-6-3"].source = "def split_heads(X, num_heads)\n    return X"
    assert graded(notebook, tmp_path) == [0, 0, 3]
    assert len(started) == 1


# ---- Points -------------------------------------------------------------------------------------


def test_points_do_not_depend_on_what_the_kernel_shows(right, tmp_path):
    notebook = copy.deepcopy(right)
    written = cells_of(notebook)["answer-6-6"]
    written.source = written.source.replace(
        "valid_lens = torch.tensor([2, 5])", "valid_lens = torch.tensor([5, 5])"
    )  # five of six bugs
    cells_of(notebook)["answer-6-1"].source = "answer = 3"
    own = "%precision 0\nget_ipython().ast_node_interactivity = 'none'"
    own += "\nimport sys\nprint('a warning', file=sys.stderr)"
    shell = f"!echo ran > {tmp_path / 'by_git'}\nfiles = !ls\n%pip list\nassert files == []"
    notebook = with_cells(notebook, answer_6_1=own, test_6_1=shell)
    assert graded(notebook, tmp_path) == [0, 1, 2.5]
    assert not (tmp_path / "by_git").exists() and "Not run for a grade: ls" in str(notebook)
    (error,) = [o for o in cells_of(notebook)["test-6-1"].outputs if o.output_type == "error"]
    assert error.traceback == ["not solved yet, see above"]  # and no path of whoever grades


@pytest.mark.parametrize("late", [False, True], ids=["before the test", "behind it"])
def test_of_pasted_answers_the_one_counts_that_python_has(right, late):
    """A copy below its original is what a student goes on with."""
    notebook = copy.deepcopy(right)
    place = notebook.cells.index(cells_of(notebook)["answer-6-3"])
    pasted = copy.deepcopy(notebook.cells[place])
    pasted.source = "def split_heads(X, num_heads):\n    return X"
    notebook.cells.insert(place + 1 + late, pasted)
    (remark,) = mend(notebook, known_of(right), {})
    assert ("the first" if late else "the last one before its test") in remark
    assert (cells_of(notebook)["answer-6-3"] is pasted) == (not late)


def test_what_is_added_to_the_imports_stands_in_a_cell_of_its_own(right):
    notebook = copy.deepcopy(right)
    cells_of(notebook)["imports"].source += "\nimport numpy as np"
    (remark,) = mend(notebook, known_of(right), {})
    assert "The cell 'imports' was changed" in remark
    assert (
        "import numpy" in notebook.cells[1].source and "nbgrader" not in notebook.cells[1].metadata
    )


def test_slips_of_other_programs_are_mended_before_anybody_looks(right):
    """Each of them would cost the whole notebook: nbconvert looks at it after every step."""
    notebook = copy.deepcopy(right)
    answer, test, *_ = notebook.cells[1:]
    del answer["outputs"], answer["execution_count"]
    answer.id, answer.source = "#VSC-0a1b", answer.source + "  # \ud83d"
    test.execution_count, test.outputs = "*", [{"output_type": "stream", "text": "no name"}]
    notebook.cells[3].metadata.nbgrader["grade_id"] = ["a", "list"]
    plain_metadata(notebook)
    (remark,) = mend(notebook, known_of(right), {})
    assert "A cell named \"['a', 'list']\" is not one of the assignment" in remark
    nbformat.validate(notebook)
    nbformat.writes(notebook).encode()


def test_an_instructors_points_and_own_tests_count(right, tmp_path):
    notebook = copy.deepcopy(right)
    notebook.cells = notebook.cells[:5]
    cells = cells_of(notebook)
    cells["test-6-1"].source = "0.5"
    cells["test-6-3"].metadata.nbgrader.points = 8
    PatientExecute(timeout=LONG).preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    assert determine_grade(cells["test-6-1"]) == (0.5, 1)
    assert determine_grade(cells["test-6-3"]) == (8, 8)
    assert read_student("anna", notebook).answers["6.3"].points(0) == 8


def test_cells_that_are_gone_or_there_twice(right):
    notebook = copy.deepcopy(right)
    notebook.cells = []
    known, points = known_of(right), {"test-6-1": 1, "test-6-3": 1, "test-6-6": 3}
    assert len(mend(notebook, known, points)) == 4
    assert list(cells_of(notebook)) == ["imports", "test-6-1", "test-6-3", "test-6-6"]
    assert cells_of(notebook)["test-6-6"].metadata.nbgrader.points == 3
    notebook.cells = copy.deepcopy(right.cells) + copy.deepcopy(right.cells)
    assert len(mend(notebook, known, points)) == 7
    named = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    assert named == [*known, *[None] * 7]
    notebook.cells = copy.deepcopy(right.cells[::-1])
    assert mend(notebook, known, points) == []
    assert list(cells_of(notebook)) == ["imports", *list(known)[:0:-1]]


# ---- What other programs write -------------------------------------------------------------------

FOREIGN = {
    "Colab": {
        "widgets": {"application/vnd.jupyter.widget-state+json": {"1": {"model_name": "L"}}},
        "colab": {"provenance": []},
        "accelerator": "GPU",
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
    },
    "VS Code": {"language_info": {"name": "python"}, "vscode": {"interpreter": {"hash": "1"}}},
    "another kernel": {"kernelspec": {"name": "nobody-has-it", "language": "julia"}},
    "odd": {"kernelspec": "python", "language_info": [], "d2l_attention": "0.1", "widgets": 3},
    "none": {},
}


@pytest.mark.parametrize("metadata", FOREIGN.values(), ids=FOREIGN)
def test_a_notebook_of_another_program_has_a_page(right, metadata):
    """What nbgrader's sanitizing does, and the page of its feedback."""
    from nbconvert.exporters import HTMLExporter

    notebook = nbformat.reads(nbformat.writes(right), as_version=4)
    notebook.metadata = nbformat.from_dict(metadata)
    for cell in notebook.cells:
        cell.metadata.update(tags="mine", vscode={"languageId": "python"}, collapsed=None)
        cell.metadata.colab = {"base_uri": "https://localhost"}
    cells = cells_of(right)
    points = {name: c.metadata.nbgrader.points for name, c in cells.items() if "test" in name}
    plain_metadata(notebook)
    assert mend(notebook, known_of(right), points) == []
    assert notebook.metadata.kernelspec == hand_out.KERNEL
    assert HTMLExporter(template_name="lab").from_notebook_node(notebook)[0]
    read_student("anna", notebook)
