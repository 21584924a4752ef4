"""What `make notebooks` runs again, and where it keeps the outputs that are there."""

import nbformat
import pytest

from notebooks.publish import build
from notebooks.publish.page import students_page

TEXT = """\
# %% [markdown] slideshow={"slide_type": "slide"}
# Six is a number.

# %% slideshow={"slide_type": "subslide"}
print(2 * 3)

# %% slideshow={"slide_type": "subslide"}
print(2 + 3)
"""


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture
def stored(tmp_path):
    """A notebook that was run, as a file, beside its text."""
    text = tmp_path / "99_six.py"
    text.write_text(TEXT, "utf-8")
    notebook = students_page(text)
    for number, cell in enumerate(code_of(notebook), start=1):
        cell.execution_count = number
        cell.outputs = [nbformat.v4.new_output("stream", text=f"output {number}\n")]
    notebook.metadata.widgets = {"state": "of the views"}
    build.write(notebook, tmp_path / "99_six.ipynb")
    return tmp_path / "99_six.ipynb"


def changed(stored, old, new):
    text = stored.with_suffix(".py")
    assert old in TEXT
    text.write_text(TEXT.replace(old, new), "utf-8")
    return students_page(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Six is a number.", "Six is a number.\n\n# %% [markdown]\n# So is seven."),
        ('{"slide_type": "subslide"}\nprint(2 * 3)', '{"slide_type": "skip"}\nprint(2 * 3)'),
        ("# %% slideshow", '# %% tags=["hide-input"] slideshow'),
    ],
    ids=["prose", "slide type", "tag"],
)
def test_outputs_stay_where_the_code_is_the_same(stored, old, new):
    notebook = changed(stored, old, new)
    assert not build.is_current(notebook, stored)
    assert build.keep_outputs(notebook, stored)
    kept = code_of(notebook)
    assert [cell.outputs[0].text for cell in kept] == ["output 1\n", "output 2\n"]
    assert [cell.execution_count for cell in kept] == [1, 2]
    assert notebook.metadata.widgets == {"state": "of the views"}
    build.write(notebook, stored)
    assert build.is_current(notebook, stored)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * 3", "2 * 4"),
        ("print(2 * 3)", "print(2 * 3)\n\n# %%\nprint(7)"),
    ],
    ids=["other code", "one more cell"],
)
def test_other_code_is_run(stored, old, new):
    assert not build.keep_outputs(changed(stored, old, new), stored)


def test_what_was_never_run_is_run(stored):
    notebook = nbformat.read(stored, as_version=4)
    code_of(notebook)[-1].execution_count = None
    build.write(notebook, stored)
    assert not build.keep_outputs(students_page(stored.with_suffix(".py")), stored)
    stored.unlink()
    assert not build.keep_outputs(students_page(stored.with_suffix(".py")), stored)


@pytest.mark.parametrize("content", ["<<<<<<< HEAD", "[]", '{"cells": [{}]}'])
def test_a_damaged_notebook_is_made_anew(stored, content):
    notebook = students_page(stored.with_suffix(".py"))
    stored.write_text(content, "utf-8")
    assert not build.is_current(notebook, stored) and not build.keep_outputs(notebook, stored)
