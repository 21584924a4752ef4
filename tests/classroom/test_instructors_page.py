"""What the instructors' page quotes is in the chapters."""

import re
from pathlib import Path

import nbformat

from d2l_attention.exercises.engine.registry import find

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
INSTRUCTORS = NOTEBOOKS / "publish" / "site" / "instructors.md"
HEADING = re.compile(r"\[(\d\d)\]\(\.\./\.\./(\d\d_\w+)\.ipynb\) \*([^*]+)\*")


def test_every_heading_that_the_page_quotes_is_in_its_chapter():
    quoted = HEADING.findall(INSTRUCTORS.read_text(encoding="utf-8"))
    assert len(quoted) > 20
    for number, stem, heading in quoted:
        cells = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells
        prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert number == stem[:2]
        heading = " ".join(heading.split())  # the page may break a line in it
        assert heading in re.findall(r"^#+ (.+?)\s*$", prose, re.MULTILINE), heading
    assert {number for number, _, _ in quoted} >= {f"{number:02d}" for number in range(9)}


def test_every_exercise_that_the_page_names_exists():
    page = INSTRUCTORS.read_text(encoding="utf-8")
    named = re.findall(r"exercise (\d+\.\d+)(?: (?:to|and) (\d+\.\d+))?", page)
    assert len(named) > 20
    for exercise_id in filter(None, sum(named, ())):
        assert find(exercise_id)
