"""Every chapter is whole, fresh, executed and in one form. What its cells do, nbval checks."""

import re
from pathlib import Path

import jupytext
import nbformat
import pytest

from d2l_attention.exercises.engine.registry import load_chapter

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
CHAPTERS = [
    "00_start_here",
    "01_queries_keys_values",
    "02_attention_pooling",
    "03_scoring_functions",
    "04_masked_softmax",
    "05_bahdanau_attention",
    "06_multi_head_attention",
    "07_self_attention_and_positions",
    "08_the_transformer",
    "09_attention_in_all_its_forms",
    "10_attention_at_scale",
]
BANNED = {
    "a star import": r"^\s*from\s+\S+\s+import\s+\*",
    "a change of sys.path": r"\bsys\.path\b",
    "a change of folder": r"\bchdir\b|^\s*%cd\b",
    "a shell command": r"^\s*!|^\s*%%?(bash|sh|sx|system)\b|\bos\.system\b|\bsubprocess\b",
    "an installation": r"\b(pip|conda|mamba)\b",
    "a download": r"\brequests\b|\burllib\b|\burlretrieve\b|\bhttpx?\b|https?://|\bdownload",
    "a silenced warning": r"\bfilterwarnings\b|\bsimplefilter\b",
}
# What a path on the machine that ran the notebook looks like in an output.
LOCAL_PATH = rf"{re.escape(str(ROOT))}|/(home|Users|root|tmp|usr|opt|var)/|site-packages|[A-Z]:\\"
SLIDE_TYPES = {"slide", "subslide", "fragment", "notes", "skip", "-"}

notebook_paths = pytest.mark.parametrize(
    "path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem
)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def comparable(notebook):
    """The cells without what a run adds to them, with what a text can say about them."""
    return [
        (
            cell.cell_type,
            cell.source,
            {k: v for k, v in cell.metadata.items() if k in ("slideshow", "tags")},
        )
        for cell in notebook.cells
    ]


def banned_in(code):
    return [name for name, regex in BANNED.items() if re.search(regex, code, re.MULTILINE)]


def test_every_chapter_is_there_as_text_and_as_notebook():
    assert [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))] == CHAPTERS
    assert [path.stem for path in sorted(NOTEBOOKS.glob("src/[0-9]*.py"))] == CHAPTERS


@notebook_paths
def test_the_notebook_is_what_its_text_says(path):
    text = jupytext.read(NOTEBOOKS / "src" / f"{path.stem}.py", fmt="py:percent")
    assert comparable(read(path)) == comparable(text), "stale: make notebooks brings it up to date"


@notebook_paths
def test_every_cell_was_run_and_none_failed(path):
    notebook = read(path)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert [output for output in outputs(notebook) if output.output_type == "error"] == []


@notebook_paths
def test_the_notebook_keeps_to_the_rules(path):
    cells = code_cells(read(path))
    found = {cell.source: banned_in(cell.source) for cell in cells if banned_in(cell.source)}
    assert found == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from torch import *", "a star import"),
        ("import sys\nsys.path.insert(0, '..')", "a change of sys.path"),
        ("os.chdir('..')", "a change of folder"),
        ("x = 1\n!ls", "a shell command"),
        ("%pip install torch", "an installation"),
        ("urllib.request.urlretrieve(a, b)", "a download"),
        ("load('https://example.org/data.zip')", "a download"),
        ("warnings.filterwarnings('ignore')", "a silenced warning"),
    ],
)
def test_the_rules_see_what_they_forbid(code, expected):
    assert expected in banned_in(code)
    assert banned_in("import torch\nx = torch.rand(3) != 2  # a pipe, a path, a request") == []


@notebook_paths
def test_the_first_cell_says_what_awaits_the_student(path):
    first = read(path).cells[0]
    assert first.cell_type == "markdown" and first.source.startswith("# ")
    for needed in (r"\*\*You will\*\*", r"\d+ minutes", r"(?i)builds? on", r"D2L.*\b11\b"):
        assert re.search(needed, first.source, re.DOTALL), f"the first cell lacks {needed}"


@notebook_paths
def test_the_minutes_are_those_of_the_exercises(path):
    """In the chapter's first cell, and in the README's table."""
    number = int(path.stem[:2])
    exercises = sum(exercise.minutes for exercise in load_chapter(number).exercises)
    first = " ".join(read(path).cells[0].source.split())
    reading = re.search(r"About (\d+) minutes", first)[1]
    if number > 0:  # chapter 0 has one exercise, of a minute
        assert f"About {reading} minutes, and {exercises} for the exercises" in first
    row = re.search(rf"^\| \[{number:02d} .*$", (ROOT / "README.md").read_text(), re.MULTILINE)[0]
    assert f"({path.relative_to(ROOT)})" in row and f"| {reading} + {exercises} |" in row


@notebook_paths
def test_the_chapter_ends_with_summary_exercises_and_sources(path):
    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    headings = re.findall(r"^## (.+?)\s*$", prose, re.MULTILINE)
    if path.stem == "00_start_here":
        headings = [heading for heading in headings if heading != "Exercises"]
        assert headings[-2:] == ["Summary", "Sources"]
    else:
        assert headings[-3:] == ["Summary", "Exercises", "Sources"]


@notebook_paths
def test_every_cell_has_its_place_on_the_slides(path):
    for cell in read(path).cells:
        assert cell.metadata.get("slideshow", {}).get("slide_type") in SLIDE_TYPES, cell.source


@notebook_paths
def test_what_is_for_the_lecturer_says_so(path):
    """In JupyterLab a note looks like any other cell: a student must be able to skip it."""
    for cell in read(path).cells:
        if cell.metadata.slideshow.slide_type == "notes":
            assert cell.source.startswith("**For the lecturer.**"), cell.source


@notebook_paths
def test_every_picture_is_followed_by_its_description(path):
    cells = read(path).cells
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            assert following is not None and following.cell_type == "markdown", cell.source
            assert following.source.startswith("*Figure:"), cell.source


@notebook_paths
def test_no_output_tells_where_it_was_made(path):
    for output in outputs(read(path)):
        text = {kind: data for kind, data in output.get("data", {}).items() if "image" not in kind}
        shown = f"{output.get('text', '')} {text}"
        assert not re.search(LOCAL_PATH, shown), shown[:500]


@notebook_paths
def test_the_file_is_smaller_than_a_megabyte(path):
    assert path.stat().st_size < 1_000_000


@notebook_paths
def test_python_that_the_prose_quotes_is_the_packages(path):
    package = "\n".join(file.read_text("utf-8") for file in (ROOT / "d2l_attention").rglob("*.py"))
    lines = {line.strip() for line in package.splitlines()}
    for cell in read(path).cells:
        blocks = re.findall(r"^```python\n(.*?)^```", cell.source, re.MULTILINE | re.DOTALL)
        quoted = [line.strip() for line in "".join(blocks).splitlines() if line.strip()]
        assert set(quoted) <= lines, "these lines stand nowhere in the package"
