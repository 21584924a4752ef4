"""Minutes, counted by hand on a small chapter."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from notebooks.publish.clock import (
    lines_of,
    minutes,
    minutes_left,
    minutes_of,
    minutes_of_sections,
    words_of,
)


def prose(text, kind="-"):
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})


def test_words_and_lines_by_hand():
    assert words_of("Two words, **three** it's a well-known $x + y$.") == 7
    assert words_of("$$a\n+ b$$ and `num_heads`") == 4
    assert lines_of("x = 1\n\n# why\ny = f(\n    x,\n)\n") == 4


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (prose("word " * 200), 2.0),
        (prose("**Predict.** " + "word " * 99), 3.0),
        (
            prose("*Figure: a description of over a dozen words, which say what is in a picture.*"),
            1.0,
        ),
        (prose("*Figure: the whole, small. The box is dark.*"), 0.2),
        (prose("word " * 200, "notes"), 0.0),
        (new_code_cell("x = 1\n" * 12), 3.0),
        (new_code_cell("x = 1\n" * 12, metadata={"tags": ["hide-input"]}), 0.0),
        (new_code_cell('answer = None\n\ncheck("4.1", answer)'), 0.0),
    ],
)
def test_minutes_of_a_cell(cell, expected):
    assert minutes_of(cell) == pytest.approx(expected)


@pytest.fixture
def chapter():
    cells = [prose("# Title\n\n" + "word " * 99), prose("## One\n\n" + "word " * 899)]
    cells += [prose("### Deeper\n\n" + "word " * 199), prose("## Summary\n\n" + "word " * 299)]
    cells += [prose("## Exercises"), prose("**4.1** " + "word " * 97), new_code_cell("x = 1\n" * 9)]
    cells += [prose("## Going further\n\nIn any order.\n\n### More\n\nSee:")]
    cells += [prose("word " * 594), prose("### Less\n\n" + "word " * 99)]
    cells += [prose("### Exercises\n\n" + "word " * 99), new_code_cell("x = 1\n" * 9)]
    return new_notebook(cells=[*cells, prose("## Sources\n\n" + "word " * 900)])


def test_the_text_of_exercises_counts_but_not_their_code_nor_the_sources(chapter):
    assert minutes(chapter) == pytest.approx(16)


def test_sections_of_going_further(chapter):
    sections = minutes_of_sections(chapter)
    assert sections == {"More": pytest.approx(6.01), "Less": pytest.approx(1)}


def test_a_section_says_what_is_left_where_another_quarter_is_read(chapter):
    assert minutes_left(chapter) == {chapter.cells[3].id: "About 5 to 10 minutes left."}
    parts = new_notebook(cells=[prose("## Part\n\n" + "word " * 399) for _ in range(8)])
    ids = [cell.id for cell in parts.cells]
    assert minutes_left(parts) == {  # of 32 minutes
        ids[2]: "About 25 to 35 minutes left.",
        ids[4]: "About 15 to 25 minutes left.",
        ids[6]: "About 10 to 15 minutes left.",
    }
