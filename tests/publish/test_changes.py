"""What a new version brings is told cell by cell, and goes into a student's copy without loss."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from notebooks.publish.changes import find, main, read, take_over, told
from notebooks.publish.student_copies import deliver

NAME = "06_heads.ipynb"
STUB = "def heads(X):\n    ..."
ANSWER = "def heads(X):\n    return X.unflatten(-1, (2, -1))"


def write(path, *cells):
    made = []
    for text in cells:
        new_cell = new_code_cell if "=" in text or "(" in text else new_markdown_cell
        made.append(new_cell(text, id="".join(filter(str.isalnum, text))[:9]))
    nbformat.write(new_notebook(cells=made), path)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A student has answered and added a note; then the course has changed."""
    monkeypatch.chdir(tmp_path)
    notebooks, work = tmp_path / "notebooks", tmp_path / "work"
    notebooks.mkdir()
    write(notebooks / NAME, "# Heads", "Old words.", "x = 1", "## Exercises", STUB, "Farewell.")
    deliver(notebooks, work)
    write(
        work / NAME,
        "# Heads",
        "Old words.",
        "My note.",
        "x = 1",
        "## Exercises",
        ANSWER,
        "Farewell.",
    )
    write(notebooks / NAME, "# Heads", "New words.", "x = 1", "## Exercises", STUB, "y = 7")
    (sentence,) = deliver(notebooks, work)
    assert sentence.endswith("python -m notebooks changes 06")
    return notebooks, work


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
    notebooks, work = course
    other = "def heads(X):\n    raise NotImplementedError"
    write(notebooks / NAME, "# Heads", "New words.", "x = 1", "## Exercises", other, "y = 7")
    deliver(notebooks, work)
    base, mine, new = find("06", work)
    assert take_over(base, mine, new).endswith(f"Compare them with {new}:\n== Exercises: cell 5")
    assert ANSWER in sources(mine) and other not in sources(mine)
    assert other in sources(new)


def test_a_change_beside_a_note_of_the_student_is_not_lost_in_silence(course):
    """nbdime takes a cell that is put in, and the change of the next, for the same place."""
    notebooks, work = course
    write(notebooks / NAME, "# Heads", "New words.", "x = 2", "## Exercises", STUB, "y = 7")
    deliver(notebooks, work)
    base, mine, new = find("06", work)
    said = take_over(base, mine, new)
    assert "x = 2" in sources(mine) or "== Heads: cell 3" in said and "x = 2" in sources(new)


def test_the_next_update_is_told_alone_and_keeps_both_copies(course):
    notebooks, work = course
    take_over(*find("06", work))
    write(notebooks / NAME, "# Heads", "New words.", "x = 1", "## Exercises", STUB, "y = 8")
    deliver(notebooks, work)
    base, mine, new = find("06", work)
    lines = [line for line in told(read(base), read(new)) if line[0] in "+-"]
    assert lines == ["- y = 7", "+ y = 8"]
    assert "06_heads.before2.ipynb" in take_over(base, mine, new)
    assert ANSWER in sources(mine) and "y = 8" in sources(mine)
    assert (work / "06_heads.before.ipynb").exists()


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
