"""A lecture from several chapters: what a plan takes, what it leaves out, and what it is told."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from notebooks.publish import needs as needs_module
from notebooks.publish.course import notebook_of, texts
from notebooks.publish.needs import (
    all_sections,
    direct,
    needs,
    needs_of_chapters,
    sections_of,
)
from notebooks.publish.slides import lecture
from notebooks.publish.slides.deck import read
from notebooks.publish.slides.errors import SlidesError
from notebooks.publish.slides.lecture import (
    SHIPPED,
    SPEAKING,
    Excerpt,
    Lecture,
    chapters_of,
    export_plan,
    minutes_of_headings,
    notebook_of_plan,
    read_plan,
    spoken_minutes,
)
from notebooks.publish.slides.structure import columns_of

PLAN = 'title = "T"\nminutes = 45\n[[part]]\nchapter = "01"\nheadings = ["A"]\n'


def chapter(title, *texts):
    made = [new_markdown_cell(f"# {title}")]
    for text in texts:
        kind, _, source = text.partition(": ")
        cell = (new_code_cell if kind == "code" else new_markdown_cell)(source)
        cell.metadata["slideshow"] = {"slide_type": "-" if kind == "code" else kind}
        made.append(cell)
    return new_notebook(cells=made)


@pytest.fixture
def two_chapters(monkeypatch):
    """Chapter 01 has two sections; section B of chapter 02 needs the first of them."""
    table = {"02 B": ("01 Softmax", "02 A"), "02 A": (), "01 Softmax": (), "01 More": ()}
    monkeypatch.setattr(lecture, "needs", lambda: table)
    return {
        "01": chapter(
            "1 · One", "slide: ## Softmax", "code: 1", "subslide: ### Deep", "slide: ## More"
        ),
        "02": chapter(
            "2 · Two",
            "skip: ## What you need",
            "slide: ## A",
            "slide: ## B",
            "notes: Two minutes. Go.",
        ),
    }


def plan(*parts):
    return Lecture("mine", "My lecture", 45, [Excerpt(*part) for part in parts])


def sources(notebook):
    return [cell.source for cell in notebook.cells]


def test_a_heading_brings_its_own_slides_up_to_the_next_one(two_chapters):
    whole = notebook_of_plan(plan(("01", ["Softmax"])), two_chapters)
    assert sources(whole)[1:] == ["## Softmax", "1"]
    nbformat.validate(whole)


def test_the_plan_s_order_counts_and_each_part_begins_a_column(two_chapters):
    asked = plan(("02", ["A"]), ("01", ["Deep", "Softmax"]))
    whole = notebook_of_plan(asked, two_chapters)
    assert sources(whole)[1:] == ["## A", "### Deep", "## Softmax", "1"]
    assert len(columns_of(whole)) == 4 and asked.remarks == []


def test_what_is_left_out_of_another_chapter_is_told_and_bridged(two_chapters):
    asked = plan(("02", ["A", "B"]))
    whole = notebook_of_plan(asked, two_chapters)
    assert sources(whole)[1] == "## What you need"
    assert asked.remarks[0] == "02 B needs 01 Softmax"
    assert "'What you need' of chapter 02 is put in" in asked.remarks[1]


def test_what_is_left_out_of_the_same_chapter_or_comes_later_is_told(two_chapters):
    asked = plan(("01", ["Softmax"]), ("02", ["B"]))
    whole = notebook_of_plan(asked, two_chapters)
    assert asked.remarks == ["02 B needs 02 A"] and "## What you need" not in sources(whole)
    asked = plan(("02", ["A", "B"]), ("01", ["Softmax"]))
    notebook_of_plan(asked, two_chapters)
    assert asked.remarks[0] == "02 B needs 01 Softmax"


def test_minutes_are_those_of_the_notes(two_chapters):
    whole = notebook_of_plan(plan(("01", ["Softmax"]), ("02", ["A", "B"])), two_chapters)
    assert spoken_minutes(whole.cells[1:]) == 1 + 1 + 2  # without a note a slide counts as one
    assert minutes_of_headings(whole.cells[1:]) == {"01 Softmax": 1, "02 A": 1, "02 B": 2}
    assert "- minute 1: 2 · Two" in whole.cells[0].source


def test_an_unknown_heading_is_named_with_those_there_are(two_chapters):
    words = r"01 has no heading 'Softmaxx' .* of the core only: Softmax, Deep, More"
    with pytest.raises(SlidesError, match=words):
        notebook_of_plan(plan(("01", ["Softmaxx"])), two_chapters)


def test_the_summary_tells_the_minutes_of_each_heading(two_chapters, tmp_path, monkeypatch):
    monkeypatch.setattr(lecture, "chapters_of", lambda plan: dict.fromkeys(two_chapters, tmp_path))
    monkeypatch.setattr(lecture, "read", lambda path: two_chapters["02"])
    monkeypatch.setattr(lecture, "frames_of", lambda *_: {})
    asked = plan(("02", ["A", "B"]))
    export_plan(asked, tmp_path)
    assert asked.remarks[1:4] == ["    1: 02 What you need", "    1: 02 A", "    2: 02 B"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_plan_that_windows_wrote_is_read(tmp_path, encoding, end):
    text = PLAN.replace('"T"', '"Köpfe"').replace("\n", end)
    (tmp_path / "mine.toml").write_bytes(text.encode(encoding))
    assert read_plan(tmp_path / "mine.toml").title == "Köpfe"


def test_a_plan_in_no_unicode_is_said_to_be_unreadable(tmp_path):
    (tmp_path / "mine.toml").write_bytes('title = "Köpfe"'.encode("latin-1"))
    with pytest.raises(SlidesError, match="mine.toml cannot be read: .*utf-8"):
        read_plan(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("= 45", "= "), "cannot be read"),
        (('"01"', "01"), r'cannot be read.* so does chapter = "03"'),
        (('title = "T"', ""), r'no title that can be read: write title = "Sc.* above the parts'),
        (("= 45", '= "x"'), "no minutes that can be read: write minutes = 45"),
        (("[[part]]", "[part]"), r"no part that can be read: write \[\[part\]\], in double"),
        (("[[part]]", "part = [1]"), "no part that can be read"),
        (('chapter = "01"', ""), 'no chapter that can be read: write chapter = "03" below'),
        (("headings", "heading"), r"no headings that can be read: write headings = \["),
        (('["A"]', '"A"'), "no headings"),
        (('["A"]', "[]"), "no headings"),
        (('["A"]', "[1]"), "no headings"),
    ],
)
def test_a_plan_that_is_none(tmp_path, change, words):
    (tmp_path / "mine.toml").write_text(PLAN.replace(*change), "utf-8")
    with pytest.raises(SlidesError, match=rf"mine\.toml .*{words}"):
        read_plan(tmp_path / "mine.toml")


@pytest.mark.parametrize("number", ["6", '"6"', '"06"'])
def test_a_chapter_s_number_with_and_without_quotes(tmp_path, number):
    (tmp_path / "mine.toml").write_text(PLAN.replace('"01"', number), "utf-8")
    assert read_plan(tmp_path / "mine.toml").parts == [Excerpt("06", ["A"])]


def test_a_plan_or_a_chapter_that_is_not_there():
    with pytest.raises(SlidesError, match="there is no plan .*the course has .*ninety_minutes"):
        read_plan("ninety")
    with pytest.raises(SlidesError, match=r"no chapter '99'; there are 00 to \d\d"):
        chapters_of(plan(("99", [])))


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_the_plans_of_the_course_fit_and_lack_nothing(path):
    shipped = read_plan(path.stem)
    chapters = {number: read(where) for number, where in chapters_of(shipped).items()}
    whole = notebook_of_plan(shipped, chapters)
    assert not [remark for remark in shipped.remarks if not bridged(remark)]
    assert (
        0.85 * SPEAKING * shipped.minutes
        < spoken_minutes(whole.cells[1:])
        <= SPEAKING * shipped.minutes
    )


def bridged(remark):
    section, _, needed = remark.partition(" needs ")
    return "put in" in remark or section[:2] != needed[:2]


def test_each_section_says_what_it_needs_and_nothing_needs_what_comes_after_it():
    assert list(needs()) == all_sections()
    order = {section: place for place, section in enumerate(all_sections())}
    for section, needed in needs().items():
        assert all(order[name] < order[section] for name in needed), section
    assert needs_of_chapters()["06"] == ["01", "03", "04"]


def test_chapter_0_says_what_builds_on_what():
    text = next(text for text in texts() if text.stem.startswith("00")).read_text("utf-8")
    rows = re.findall(r"^# \| \[(\d+) · .*? \| .*? \| (.*?) \| ", text, re.MULTILINE)
    told = {f"{int(number):02d}": re.findall(r"\d+", others) for number, others in rows}
    needed = direct(needs_of_chapters())
    assert told == {chapter: [str(int(o)) for o in needed[chapter]] for chapter in told}
    assert len(told) == 13


def test_sections_end_where_the_core_ends():
    book = chapter("1 · One", "slide: ## A", "skip: ### Deep", "skip: ## Exercises", "skip: ## B")
    assert sections_of(book) == {"A": "A", "Deep": "A"}
    assert needs_module.FILE.exists() and all(notebook_of(text).exists() for text in texts())
