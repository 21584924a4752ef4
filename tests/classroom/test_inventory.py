"""The inventory: its keys are proved, its sections exist, its report is right by hand."""

import contextlib
import re
import sys

import nbformat
import pytest
from nbgrader_course import ROOT

from d2l_attention.classroom.inventory import FORMS, LETTERS, RIGHT, mark, notebook, questions
from d2l_attention.classroom.inventory_report import as_csv, as_page, as_text, gain, printed, read
from d2l_attention.classroom.report import NoReport
from d2l_attention.exercises.__main__ import main

ALL = sum(map(questions, FORMS), [])


@pytest.mark.parametrize("question", ALL, ids=lambda each: f"{each.form}-{each.number}")
def test_a_proof_finds_one_true_answer_which_is_the_key(question, capsys):
    exec(question.proving(), {})
    assert capsys.readouterr().out == f"True: {question.key}\n"


def test_the_forms_are_parallel_and_give_nothing_away():
    keys = [[each.key for each in questions(form)] for form in FORMS]
    assert all(one.count(letter) == 3 for one in keys for letter in LETTERS)
    assert not any(one == other for one, other in zip(*keys, strict=True))
    assert all(set(each.answers) == {RIGHT, *each.misconceptions} for each in ALL)
    lengths = [(len(each.answers[RIGHT]), *sorted(map(len, each.answers.values()))) for each in ALL]
    assert sum(right > third for right, _, _, third, _ in lengths) <= len(ALL) / 3


def test_what_cures_is_a_section_of_a_chapter():
    for _, section in {tuple(each) for one in ALL for each in one.misconceptions.values()}:
        number, _, heading = section.partition(" ")
        (chapter,) = (ROOT / "notebooks" / "src").glob(f"{number}_*.py")
        assert re.search(rf"^# #+ {re.escape(heading)}$", chapter.read_text("utf-8"), re.M), section


def test_from_paper_and_notebooks_to_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["exercises", "inventory", str(tmp_path)])
    main()
    with pytest.raises(NoReport, match="Nobody has taken"):
        read(tmp_path)
    key, made = [each.key for each in questions("before")], notebook("after")
    wrong = ["A", *key[1:]]  # the first answer: large-scores-sharpen
    rows = ["student", *map(str, range(1, 13))], ["ann", *key], ["ben", *wrong], ["cy", *[""] * 12]
    paper = "\n".join(map(",".join, rows))
    (tmp_path / "inventory" / "before.csv").write_text(paper, "utf-8")
    for cell in made.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            _, _, number = cell.id.rpartition("-")
            with contextlib.suppress(AssertionError):
                assert mark("after", int(number), "b)" if number == "1" else key[0]) == 1
            cell.outputs = [nbformat.v4.new_output("stream", text=capsys.readouterr().out)]
    assert printed(made, "after")[1] == "B"
    for student in ("ann", "ben"):
        folder = tmp_path / "autograded" / student / "inventory_after"
        folder.mkdir(parents=True)
        nbformat.write(made, folder / "inventory_after.ipynb")
    (tmp_path / "submitted" / "cy" / "inventory_after").mkdir(parents=True)
    learned = read(tmp_path)
    assert learned.both == ["ann", "ben"]
    assert [learned.share(form, [1]) for form in FORMS] == [0.5, 0.0]
    assert learned.commonest("before", 1) == ("large-scores-sharpen", 1)
    assert learned.commonest("after", 1) == ("exponentials-without-a-sum", 2)
    assert learned.item("before", 1) == (1 / 3, pytest.approx(0.5))  # (1, 0, 0), (11, 11, 0)
    assert learned.item("after", 1) == (0, None)  # all alike
    assert (gain(0.4, 0.7), gain(0.5, 0.0), gain(1, 1)) == (pytest.approx(0.5), -1, None)
    monkeypatch.setattr(sys, "argv", ["exercises", "report", "inventory", str(tmp_path)])
    main()
    assert as_text(learned) in capsys.readouterr().out
    assert "cy, after: not graded" in as_text(learned) and "https:" not in as_page(learned)
    assert "ben,before,11,large-scores-sharpen,right" in as_csv(learned)
