"""Minutes, counted by hand on a small chapter."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from notebooks.publish.minutes import lines_of, minutes, minutes_left, minutes_of, words_of


def prose(text, kind="-"):
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})


def test_words_and_lines_by_hand():
    assert words_of("Two words, **three** it's a well-known $x + y$.") == 7
    assert words_of("$$a\n+ b$$ and `num_heads`") == 4
    assert lines_of("x = 1\n\n# why\ny = f(\n    x,\n)\n") == 4


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (prose("word " * 300), 2.0),
        (prose("**Predict.** " + "word " * 149), 2.0),
        (prose("*Figure: a long description of the picture above.*"), 1.0),
        (prose("word " * 300, "notes"), 0.0),
        (new_code_cell("x = 1\n" * 12), 2.0),
        (new_code_cell("x = 1\n" * 12, metadata={"tags": ["hide-input"]}), 0.0),
    ],
)
def test_minutes_of_a_cell(cell, expected):
    assert minutes_of(cell) == pytest.approx(expected)


@pytest.fixture
def chapter():
    cells = [prose("# Title"), prose("## One\n\n" + "word " * 1499), prose("## Two\n\nwords")]
    cells += [prose("## Summary\n\n" + "word " * 749), prose("## Exercises\n\n" + "word " * 900)]
    cells += [prose("## Going further"), prose("### More\n\n" + "word " * 299)]
    cells += [prose("### Exercises\n\n" + "word " * 900), prose("## Sources\n\n" + "word " * 900)]
    return new_notebook(cells=cells)


def test_core_and_further_without_exercises_and_sources(chapter):
    assert minutes(chapter, "core") == pytest.approx(15, abs=0.1)
    assert minutes(chapter, "further") == pytest.approx(2, abs=0.1)


def test_a_section_says_what_is_left_in_steps_of_five_minutes(chapter):
    said = minutes_left(chapter)
    assert [said.get(cell.id) for cell in chapter.cells[:5]] == [
        None,
        "About 15 minutes left.",
        "About 5 minutes left.",
        None,
        None,
    ]
