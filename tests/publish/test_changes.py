"""What a new version brings is told cell by cell, and goes into a student's copy without loss."""

import json
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from notebooks.publish.changes import find, main, read, take_over, told
from notebooks.publish.student_copies import deliver

NAME = "06_heads.ipynb"
STUB = "def heads(X):\n    ..."
OTHER = "def heads(X):\n    raise NotImplementedError"
ANSWER = "def heads(X):\n    return X.unflatten(-1, (2, -1))"


def write(path, *cells):
    made = []
    for text in cells:
        new_cell = new_code_cell if "=" in text or "(" in text else new_markdown_cell
        made.append(new_cell(text, id="".join(filter(str.isalnum, text))[:9]))
    nbformat.write(new_notebook(cells=made), path)


def version(x="x = 1", stub=STUB, last="y = 7"):
    return "# Heads", "New words.", x, "## Exercises", stub, last


def update(course, *cells, **changed):
    """The course delivers its next version: these cells, or those of ``version``."""
    notebooks, work = course
    write(notebooks / NAME, *(cells or version(**changed)))
    return deliver(notebooks, work)


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """The folder of the course's notebooks, and that of the student's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks", tmp_path / "work"


@pytest.fixture
def course(empty):
    """A student has answered and added a note; then the course has changed."""
    update(empty, "# Heads", "Old words.", "x = 1", "## Exercises", STUB, "Farewell.")
    mine = "# Heads", "Old words.", "My note.", "x = 1", "## Exercises", ANSWER, "Farewell."
    write(empty[1] / NAME, *mine)
    (sentence,) = update(empty)
    assert sentence.endswith("python -m notebooks changes 06")
    return empty


def sources(path):
    return [cell.source for cell in read(path).cells]


def test_the_changes_are_the_course_s_without_the_student_s(course):
    base, _, new = find("06", course[1])
    text = "\n".join(told(read(base), read(new)))
    assert "== Heads" in text and "- Old words." in text and "+ New words." in text
    assert "- Farewell." in text and "+ y = 7" in text
    assert "return" not in text and "note" not in text and "x = 1" not in text


def test_answers_and_notes_go_into_the_new_version_and_the_copy_is_kept(course):
    base, mine, new = find("06", course[1])
    before = mine.read_bytes()
    assert "06_heads.before.ipynb" in take_over(base, mine, new)
    assert sources(mine) == [
        *("# Heads", "New words.", "My note.", "x = 1", "## Exercises", ANSWER, "y = 7")
    ]
    assert (course[1] / "06_heads.before.ipynb").read_bytes() == before
    assert not new.exists()


def test_lines_that_both_changed_are_the_student_s_and_are_named(course):
    work = course[1]
    update(course, stub=OTHER)
    base, mine, new = find("06", work)
    said = take_over(base, mine, new)
    assert said.endswith(f"{new}:\n== Exercises: cell 5, which you changed, too")
    assert ANSWER in sources(mine) and OTHER not in sources(mine)
    assert OTHER in sources(new)


def test_the_next_update_is_told_alone_and_keeps_both_copies(course):
    work = course[1]
    take_over(*find("06", work))
    update(course, last="y = 8")
    base, mine, new = find("06", work)
    lines = [line for line in told(read(base), read(new)) if line[0] in "+-"]
    assert lines == ["- y = 7", "+ y = 8"]
    assert "06_heads.before2.ipynb" in take_over(base, mine, new)
    assert ANSWER in sources(mine) and "y = 8" in sources(mine)
    assert (work / "06_heads.before.ipynb").exists()


def put_into(path, *texts):
    """A student writes cells at the end of a file, as JupyterLab does."""
    notebook = read(path)
    notebook.cells += [new_code_cell(text) for text in texts]
    nbformat.write(notebook, path)


def test_an_answer_in_the_version_that_was_left_to_compare_with_is_taken_over_by_the_next(course):
    work = course[1]
    update(course, stub=OTHER)
    assert "Compare them with" in take_over(*find("06", work))
    put_into(work / "06_heads.new.ipynb", "written(in_new)")
    update(course, stub=OTHER, last="y = 8")
    said = take_over(*find("06", work))
    assert {"written(in_new)", ANSWER, "y = 8"} <= set(sources(work / NAME))
    assert "Compare" not in said
    assert not (work / "06_heads.new.ipynb").exists()


def test_what_was_left_to_compare_with_is_not_taken_away_by_a_second_call(course):
    work = course[1]
    update(course, stub=OTHER)
    assert "Compare them with" in take_over(*find("06", work))
    before = sources(work / NAME)
    with pytest.raises(ValueError, match="has been merged with .*06_heads.new.ipynb already"):
        take_over(*find("06", work))
    assert sources(work / NAME) == before and OTHER in sources(work / "06_heads.new.ipynb")


def test_three_versions_with_work_in_each_become_one(course):
    work = course[1]
    put_into(work / "06_heads.new.ipynb", "written(in_2)")
    update(course, last="y = 8")
    put_into(work / "06_heads.new2.ipynb", "written(in_3)")
    update(course, last="y = 9")
    assert "06_heads.before2.ipynb" in take_over(*find("06", work))
    assert "written(in_2)" in sources(work / "06_heads.before2.ipynb")
    there = sources(work / NAME)
    assert {"My note.", ANSWER, "written(in_2)", "written(in_3)", "y = 9"} <= set(there)
    assert not {"y = 7", "y = 8", "Farewell."} & set(there)
    assert sorted(path.name for path in work.glob("*.new*")) == []


def test_an_answer_that_is_another_one_in_the_new_version_is_named_with_its_file(course):
    work = course[1]
    notebook = read(work / "06_heads.new.ipynb")
    notebook.cells[4].source = "def heads(X):\n    return 'another answer'"
    nbformat.write(notebook, work / "06_heads.new.ipynb")
    said = take_over(*find("06", work))
    assert (
        f"What is missing stands in {work / '06_heads.before2.ipynb'}:\n== Exercises: cell 5"
        in said
    )
    assert ANSWER in sources(work / NAME)
    assert notebook.cells[4].source in sources(work / "06_heads.before2.ipynb")


def test_the_newest_version_need_not_have_the_highest_number(course):
    work = course[1]
    put_into(work / "06_heads.new.ipynb", "written(in_2)")
    update(course, last="y = 8")
    put_into(work / "06_heads.new2.ipynb", "written(in_3)")
    (work / "06_heads.new.ipynb").unlink()
    update(course, last="y = 9")
    take_over(*find("06", work))
    assert {"written(in_3)", "y = 9"} <= set(sources(work / NAME))
    assert "y = 8" not in sources(work / NAME)


def test_what_a_student_wrote_in_the_new_version_is_not_told_as_the_course_s(
    course, monkeypatch, capsys
):
    put_into(course[1] / "06_heads.new.ipynb", "written(in_new)")
    monkeypatch.setattr("sys.argv", ["changes", "06"])
    main()
    told = capsys.readouterr().out
    assert "+ y = 7" in told and "written" not in told


@pytest.mark.parametrize("name", ["06_heads.new-Copy1", "06_heads-Copy1", "06_heads_mine"])
def test_copies_of_copies_stay_as_they_are_and_are_named(course, name):
    work = course[1]
    other = work / f"{name}.ipynb"
    shutil.copy(work / NAME, other)
    put_into(other, "written(there)")
    before = other.read_bytes()
    base, mine, new = find("06", work)
    assert new.name == "06_heads.new.ipynb"
    assert f"left as it is: {other}." in take_over(base, mine, new)
    assert other.read_bytes() == before
    assert "y = 7" in sources(mine)


def test_where_only_a_copy_of_the_copy_is_left_it_says_what_to_do(course):
    work = course[1]
    (work / NAME).rename(work / "06_heads-Copy1.ipynb")
    with pytest.raises(
        FileNotFoundError, match=r"06_heads.ipynb is missing.*-Copy1.*the name 06_h"
    ):
        find("06", work)
    (work / "06_heads-Copy1.ipynb").rename(work / NAME)
    take_over(*find("06", work))
    assert {ANSWER, "y = 7"} <= set(sources(work / NAME))


def test_of_two_names_of_a_chapter_the_one_with_news_is_meant(course):
    notebooks, work = course
    write(notebooks / "06_many_heads.ipynb", "# Heads", "x = 1")
    deliver(notebooks, work)
    assert find("06", work)[1] == work / NAME
    (work / "06_heads.new.ipynb").unlink()
    with pytest.raises(FileNotFoundError, match=r"several copies.*06_heads.*06_many_heads"):
        find("06", work)


def test_who_goes_back_to_an_older_copy_gets_all_that_came_since(course):
    work = course[1]
    take_over(*find("06", work))
    (work / "06_heads.before.ipynb").replace(work / NAME)
    update(course, last="y = 8")
    take_over(*find("06", work))
    there = sources(work / NAME)
    assert {"New words.", "My note.", ANSWER, "y = 8"} <= set(there)
    assert not {"Old words.", "Farewell."} & set(there)


@pytest.mark.parametrize("changed", [False, True])
def test_a_cell_that_the_course_took_out_beside_a_student_s_own_goes_or_is_named(empty, changed):
    goes = "The one that goes."
    update(empty, "# Heads", goes, "The last.")
    own = f"{goes}\nI was here." if changed else goes
    mine = empty[1] / NAME
    write(mine, "# Heads", "My own.", own, "The last.")
    update(empty, "# Heads", "The last.")
    said = take_over(*find("06", empty[1]))
    assert sources(mine) == ["# Heads", "My own.", *[own] * changed, "The last."]
    named = "== Heads: taken out, but changed or moved by you: it is cell 3 of yours"
    assert (named in said) == changed


def without_ids(whole):
    whole["nbformat_minor"] = 4
    for cell in whole["cells"]:
        del cell["id"]


def without_minor(whole):
    del whole["nbformat_minor"]


def without_outputs(whole):
    for cell in whole["cells"]:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)


def with_one_id(whole):
    for cell in whole["cells"]:
        cell["id"] = "the same, and with spaces"


def of_ten_years_ago(whole):
    old = nbformat.convert(nbformat.reads(json.dumps(whole), 4), 3)
    whole.clear()
    whole.update(old)


@pytest.mark.parametrize(
    ("change", "encoding"),
    [
        (without_ids, "utf-8-sig"),
        (without_ids, "utf-16"),
        *((odd, "utf-8") for odd in (without_minor, without_outputs, with_one_id)),
        (of_ten_years_ago, "utf-8"),
    ],
)
def test_a_copy_of_any_format_or_program_becomes_one_that_is_valid(course, change, encoding):
    mine = course[1] / NAME
    whole = json.loads(mine.read_text("utf-8"))
    change(whole)
    mine.write_text(json.dumps(whole), encoding)
    take_over(*find("06", course[1]))
    after = json.loads(mine.read_text("utf-8"))
    nbformat.validate(after)
    assert after["nbformat_minor"] == 5
    assert {"New words.", "My note.", ANSWER} <= set(sources(mine))


@pytest.mark.parametrize("cell", [None, {"cell_type": "code"}, {"source": "x"}, {"source": 3}])
def test_a_copy_with_a_cell_that_is_none_is_named(course, cell):
    work = course[1]
    whole = json.loads((work / NAME).read_text("utf-8"))
    whole["cells"].append(cell)
    (work / NAME).write_text(json.dumps(whole), "utf-8")
    with pytest.raises(ValueError, match=f"{NAME} cannot be read as a notebook"):
        take_over(*find("06", work))


def test_where_the_result_would_be_no_notebook_nothing_is_touched(course):
    work = course[1]
    whole = json.loads((work / NAME).read_text("utf-8"))
    whole["cells"][2]["colour"] = "red"
    (work / NAME).write_text(json.dumps(whole), "utf-8")
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=f"{NAME} has something .* all files are as they were"):
        take_over(*find("06", work))
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before


def test_work_in_a_new_version_that_nobody_knows_stays_and_is_named(course):
    """Once nothing told what a new version was as it came, and such folders are still there."""
    work = course[1]
    (work / ".delivered" / "06_heads.new.ipynb").unlink()
    assert find("06", work)[2] == work / "06_heads.new.ipynb"
    put_into(work / "06_heads.new.ipynb", "written(in_new)")
    with pytest.raises(FileNotFoundError, match="left as it is: .*06_heads.new.ipynb"):
        find("06", work)
    update(course, last="y = 8")
    said = take_over(*find("06", work))
    assert f"left as it is: {work / '06_heads.new.ipynb'}." in said
    assert "written(in_new)" in sources(work / "06_heads.new.ipynb")
    assert "y = 8" in sources(work / NAME)


@pytest.mark.parametrize(
    ("number", "broken", "words"),
    [
        ("07", None, "no copy of a chapter 07 in work"),
        ("06", "06_heads.new.ipynb", "nothing new beside"),
        ("06", ".delivered/06_heads.ipynb", "nbdiff-web"),
    ],
)
def test_what_is_missing_is_said(course, monkeypatch, number, broken, words):
    if broken:
        (course[1] / broken).unlink()
    monkeypatch.setattr("sys.argv", ["changes", number])
    with pytest.raises(SystemExit, match=words):
        main()


def test_a_damaged_copy_is_named(course, monkeypatch):
    (course[1] / NAME).write_text("{ torn", "utf-8")
    monkeypatch.setattr("sys.argv", ["changes", "06", "--merge"])
    with pytest.raises(SystemExit, match="06_heads.ipynb cannot be read as a notebook"):
        main()
