"""What a class got wrong: from graded notebooks to numbers, sentences and a page."""

import csv
import dataclasses
import io
import json
import re
import sys

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader_course import ROOT, nothing_private_stays  # noqa: F401 - a fixture

from d2l_attention.classroom.assignment import solution_source
from d2l_attention.classroom.report import (
    ClassReport,
    as_csv,
    as_page,
    as_text,
    ending_of,
    read,
    read_student,
    tree_of,
)
from d2l_attention.exercises.__main__ import main
from d2l_attention.exercises.engine.display import TOLD
from d2l_attention.exercises.engine.edits import source_of
from d2l_attention.exercises.engine.registry import load_chapter

EXAMPLE = ROOT / "notebooks" / "publish" / "classroom" / "private_example"
NAME = "hw06_multi_head_attention"
HEADS = next(each for each in load_chapter(6).exercises if each.id == "6.3")
REFERENCE = solution_source(HEADS, "split_heads", set())
MINE = "def split_heads(X, H):\n    return X.unflatten(-1, (H, -1)).mT"
SAYS = "6.3 · Cut into heads (easy, 6 minutes)\n"


def graded(exercise_id, answer, said=None, error=None, told=None):
    """An answer and its test, as nbgrader leaves them."""
    key = exercise_id.replace(".", "-")
    data = {"text/plain": SAYS + (said or "")} | ({TOLD: told} if told else {})
    outputs = [new_output("display_data", data)] if said else []
    outputs += [new_output("error", ename="E", evalue=error, traceback=[])] if error else []
    made = new_code_cell(answer), new_code_cell("check", outputs=outputs)
    for kind, cell in zip(("answer", "test"), made, strict=True):
        cell.metadata["nbgrader"] = {"grade_id": f"{kind}-{key}"}
    return list(made)


@pytest.fixture
def course(tmp_path):
    """Six students: who is right, copies, is wrong twice alike, fails, and one unreadable."""

    def hand_in(student, *cells, version="0.2.0"):
        folder = tmp_path / "autograded" / student / NAME
        folder.mkdir(parents=True)
        notebook = new_notebook(cells=[*cells], metadata={"d2l_attention": {"version": version}})
        (folder / f"{NAME}.ipynb").write_text(json.dumps(notebook), "utf-8")

    stub = "def split_heads(X, num_heads):\n    ...\n\n\n"
    hand_in("anna", *graded("6.3", stub + REFERENCE, "Solved. Yes."))
    wrong = "Not yet. The heads' axis is not first. Move it."
    named = {"mistake": "axes stay", "share": 0.0}
    hand_in("ben", *graded("6.3", MINE, wrong, told=named), version="0.1.0")
    note = new_markdown_cell("**Before grading.**\n\n- A cell was pasted.")
    reworded = "Not yet. The axis of the heads is not first. Move it."
    hand_in("cleo", note, *graded("6.3", f'{MINE}  # "mine"', reworded, told=named))
    hand_in("dan", *graded("6.3", "def split_heads(", error="'(' was never closed"))
    hand_in("eve", *graded("6.3", "...", "Not attempted yet."))
    (tmp_path / "submitted" / "fay" / NAME).mkdir(parents=True)
    return tmp_path


def made_of(**students):
    """A report of graded cells, by student."""
    read_ones = [read_student(name, new_notebook(cells=cells)) for name, cells in students.items()]
    return ClassReport(NAME, {each.id: each for each in load_chapter(6).exercises}, read_ones)


def test_numbers_by_hand(course):
    report = read(course, NAME)
    assert [student.name for student in report.students] == "anna ben cleo dan eve fay".split()
    states = {"solved": 1, "wrong": 2, "failed": 1, "untouched": 1, "missing": 1}
    assert dict(report.states("6.3")) == states
    assert report.states("6.1")["missing"] == 6
    assert [report.points(student) for student in report.students] == [1, 0, 0, 0, 0, 0]


def test_what_is_said(course):
    report = read(course, NAME)
    report.exercises["6.3"] = dataclasses.replace(HEADS, section="Cut and join")
    assert report.told("6.3") == [
        ("2 times: The axis of the heads is not first. (axes stay)", ["ben", "cleo"]),
        ("teach again: 'Cut and join'", []),
        ("equal to the reference: anna", []),
        ("equal to each other: ben, cleo", []),
    ]
    text = as_text(report)
    assert "fay: not graded: see what nbgrader autograde says" in text
    assert "cleo: A cell was pasted." in text


def test_the_table_has_a_row_for_each_student(course):
    rows = list(csv.DictReader(io.StringIO(as_csv(read(course, NAME)))))
    columns = "student", "points of 1", "6.3", "version"
    assert [tuple(row[each] for each in columns) for row in rows] == [
        ("anna", "1", "solved", "0.2.0"),
        ("ben", "0", "wrong: axes stay", "0.1.0"),
        ("cleo", "0", "wrong: axes stay", "0.2.0"),
        ("dan", "0", "failed", "0.2.0"),
        ("eve", "0", "untouched", "0.2.0"),
        ("fay", "0", "missing", ""),
    ]


def test_a_class_of_one(course):
    report = read(course, NAME)
    alone = dataclasses.replace(report, students=report.students[:1])
    assert as_text(alone).startswith(f"{NAME}: 1 student, points of 1\n")
    assert ">1 student<" in as_page(alone)


def test_a_part_of_the_points_is_a_state_of_its_own():
    said = "Not yet. Your test passes on one that reshapes. Look."
    told = {"mistake": "passes where it reshapes", "share": 5 / 6}
    report = made_of(ann=graded("6.6", "def test(): return 1", said, told=told))
    assert dict(report.states("6.6")) == {"partly": 1}
    assert report.told("6.6")[0][1] == ["ann"]
    assert "ann,2.5,missing,missing,missing,missing,missing,partly: passes where" in as_csv(report)
    assert 'title="partly: 1"' in as_page(report) and "<td>partly</td>" in as_page(report)


def test_the_most_there_is_to_get():
    """Of what was handed out, with the points that an instructor gave it."""
    cells = [*graded("6.3", REFERENCE, "Solved."), *graded("6.6", "...", "Not attempted yet.")]
    cells[1].metadata["nbgrader"]["points"] = 4
    report = made_of(ann=cells)
    assert as_csv(report).startswith("student,points of 7,")
    assert ", points of 7\n" in as_text(report) and "<th>points of 7</th>" in as_page(report)
    assert made_of(ann=[]).most == 10  # nothing is graded: all of the chapter


def test_who_finds_the_bugs_is_no_copy():
    bugs = next(each for each in load_chapter(6).exercises if each.id == "6.5")
    mended = solution_source(bugs, "attend_in_heads", set())
    right = graded("6.5", mended, "Solved. Yes.")
    assert made_of(ann=right, dan=right).told("6.5") == []


def test_what_is_compared_is_the_cell_that_counts():
    """Not a copy before or behind it, and not what was handed out, where none of it was written."""
    answer, test = graded("6.3", REFERENCE, "Solved. Yes.")
    copies = new_code_cell(MINE), new_code_cell(MINE)
    pasted = made_of(ann=[copies[0], answer, copies[1], test])
    assert pasted.like_the_reference("6.3") == ["ann"]
    answer, test = graded("6.3", source_of(HEADS.stub), "Solved. Yes.")
    own = [answer, copies[0], test]
    assert made_of(ann=own, ben=own).alike("6.3") == []


def test_the_page_loads_nothing_and_shows_names_as_text(course):
    (course / "autograded" / "ben").rename(course / "autograded" / "<b>ben")
    page = as_page(read(course, NAME))
    assert "(axes stay)<br>&lt;b&gt;ben, cleo</li>" in page and "<b>ben" not in page
    assert not re.search(r"https?:|src=|@import|<script", page)


def test_layout_comments_docstrings_and_imports_do_not_make_code_another():
    code = "import math\n\ndef f(x):\n    '''Says.'''\n    return (x+1)  # one more\n"
    assert tree_of(code) == tree_of("def f(x): return x + 1") != tree_of("def f(x): return x + 2")
    assert tree_of("def f(x): ...\ndef f(x): return x + 1") == tree_of("def f(x): return x + 1")
    assert tree_of("def f(") == tree_of("") == ""


def test_the_command_writes_both_files(course, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["exercises", "report", NAME, str(course)])
    main()
    out = capsys.readouterr().out
    assert out.startswith(f"{NAME}: 6 students") and "Written:" in out
    assert {path.suffix for path in (course / "report").iterdir()} == {".html", ".csv"}


@pytest.mark.parametrize(
    "wanted", [f"{NAME}/", f"submitted/anna/{NAME}", NAME.upper(), f"{NAME}.ipynb", rf"a\\{NAME}"]
)
def test_an_assignment_by_another_spelling(course, wanted):
    report = read(course, wanted)
    assert report.assignment == NAME
    assert [report.points(student) for student in report.students] == [1, 0, 0, 0, 0, 0]


def refused(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["exercises", "report", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return str(stop.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ps1", "is not one of this course's assignments, whose names begin like hw06_"),
        ("hw5_x", "is not one of this course's assignments"),
        ("hw50_quiz", "give their folder with --with, or set D2L_ATTENTION_EXERCISES to it."),
    ],
)
def test_an_assignment_without_checks(course, monkeypatch, name, words):
    (course / "submitted" / "anna" / name).mkdir(parents=True)
    told = refused(monkeypatch, name, course)
    assert words in told and "Traceback" not in told
    assert not (course / "report").exists()


def test_an_assignment_nobody_handed_in(course, tmp_path, monkeypatch):
    told = refused(monkeypatch, "hw07_x", course)
    assert "no assignment 'hw07_x'" in told and f"The folder has {NAME}." in told
    (course / "source" / "hw07_x").mkdir(parents=True)
    assert (
        refused(monkeypatch, "hw07_x", course) == f"Nothing was handed in for hw07_x in {course}."
    )
    assert "The folder has none." in refused(monkeypatch, NAME, tmp_path / "elsewhere")


def test_a_forged_verdict_ends_no_report():
    told = {"mistake": {"m": 1}, "share": 1000}
    data = {"text/plain": "x\nNot yet. a", TOLD: told}
    output = new_output("display_data", data)
    answer = ending_of(new_code_cell("", outputs=[output]))
    assert (answer.mistake, answer.share) == ("{'m': 1}", 1.0)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_that_cannot_write_it(course, monkeypatch, encoding):
    (course / "autograded" / "anna").rename(course / "autograded" / "Zoë √ 王")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "argv", ["exercises", "report", NAME, str(course)])
    main()
    terminal.flush()
    told = terminal.buffer.getvalue().decode(encoding)
    assert "Written:" in told and ("Zoë √ 王" in told) == (encoding == "utf-8")
    for kind in ("csv", "html"):
        assert "Zoë √ 王" in (course / "report" / f"{NAME}.{kind}").read_text("utf-8")


@pytest.mark.usefixtures("nothing_private_stays")
def test_the_report_of_a_course_with_exercises_of_ones_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "submitted" / "anna" / "hw50_quiz").mkdir(parents=True)
    command = ["exercises", "report", "hw50_quiz", str(tmp_path), "--with", str(EXAMPLE)]
    monkeypatch.setattr(sys, "argv", command)
    main()
    assert "Who is surest?" in capsys.readouterr().out
