"""A text makes two notebooks: the lecture with the notes, the student's page without."""

import nbformat
import pytest
from nbformat.v4 import new_output

from notebooks.publish.lecture_copies import lecture_copy
from notebooks.publish.page import add_alt, lecture, students_page
from notebooks.publish.text import read_text

TEXT = """\
# %% [markdown] slideshow={"slide_type": "slide"}
# # 98 · Weights
#
# **Predict.** What shall we count?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How many?
#
# **Predict.** How many?

# %% [markdown] slideshow={"slide_type": "notes"}
# They say six.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the weights
draw()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three bars, `a` to $c$,
# and *b* is the highest.*
#
# What comes after it.

# %% slideshow={"slide_type": "-"}
print(5)
"""
FIGURE = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "98_weights.py"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.fixture
def page(text):
    page = students_page(text)
    drawn, printed = [cell for cell in page.cells if cell.cell_type == "code"]
    drawn.outputs, drawn.execution_count = [new_output("display_data", data=FIGURE)], 1
    printed.outputs, printed.execution_count = [new_output("stream", text="5\n")], 2
    add_alt(page)
    return page


def test_the_page_has_no_notes_and_folds_what_only_draws(page):
    nbformat.validate(page)
    assert [cell.cell_type for cell in page.cells] == ["markdown"] * 2 + ["code", "markdown"] + [
        "code",
        "markdown",
    ]
    assert "six" not in str(page)
    drawn, printed = [cell for cell in page.cells if cell.cell_type == "code"]
    assert drawn.metadata.jupyter == {"source_hidden": True}
    assert "jupyter" not in printed.metadata


def test_the_figure_in_words_is_folded_and_is_the_pictures_alternative_text(page):
    words = page.cells[3].source
    assert words.startswith("<details><summary>The figure in words</summary>\n\nThree bars, `a`")
    assert words.endswith("is the highest.\n\n</details>\n\nWhat comes after it.")
    alt = page.cells[2].outputs[0].metadata["image/png"]["alt"]
    assert alt == "Three bars, a to c, and b is the highest."


def test_a_view_keeps_its_own_words(page):
    output = page.cells[2].outputs[0]
    output.metadata["image/png"]["alt"] = "its own"
    add_alt(page)
    assert output.metadata["image/png"]["alt"] == "its own"


def test_the_page_says_how_long_it_takes_and_where_to_go_on(page):
    said = "## How many?\n\n<small>About 5 to 10 minutes left.</small>"
    assert page.cells[1].source.startswith(said)
    assert page.cells[-1].source == "[Back to the map](00_start_here.ipynb)"


def test_the_lecture_has_the_notes_and_the_outputs_of_the_page(text, page):
    whole = lecture(text, page)
    assert [cell.source for cell in whole.cells] == [c.source for c in read_text(text).cells]
    drawn, printed = [cell for cell in whole.cells if cell.cell_type == "code"]
    assert drawn.outputs[0].data == FIGURE and printed.outputs[0].text == "5\n"
    assert whole.cells[2].source == "They say six."


def test_the_lecturers_copy_puts_a_heading_over_each_note(text, page):
    copy = lecture_copy(text, page)
    assert copy.cells[2].source == "**For the lecturer.**\nThey say six."
    assert str(copy).count("For the lecturer") == 1


def test_cells_keep_their_ids_when_others_come(text):
    before = {cell.source: cell.id for cell in students_page(text).cells}
    text.write_text(TEXT.replace("print(5)", "print(4)\n\n# %%\nprint(5)"), "utf-8")
    after = {cell.source: cell.id for cell in students_page(text).cells}
    assert before.items() <= after.items()
