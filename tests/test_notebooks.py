"""Every chapter is whole, fresh, executed and in one form. What its cells do, nbval checks."""

import ast
import copy
import re
from functools import cache

import nbformat
import pytest

from notebooks.publish.cells import is_description, is_folded, is_note
from notebooks.publish.course import NOTEBOOKS, ROOT, text_of, texts
from notebooks.publish.page import add_alt, students_page
from notebooks.publish.text import read_text

CHAPTERS = [text.stem for text in texts()]
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


@cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def banned_in(code):
    return [name for name, regex in BANNED.items() if re.search(regex, code, re.MULTILINE)]


def test_every_chapter_is_there_as_text_and_as_notebook():
    """Numbered without a gap, and no stray notebook is handed to students."""
    assert [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))] == CHAPTERS
    assert [int(name[:2]) for name in CHAPTERS] == list(range(len(CHAPTERS))) and len(CHAPTERS) > 13


def test_chapter_0_leads_to_every_other():
    start = "\n".join(cell.source for cell in read(NOTEBOOKS / f"{CHAPTERS[0]}.ipynb").cells)
    assert [name for name in CHAPTERS[1:] if f"{name}.ipynb" not in start] == []


@notebook_paths
def test_the_notebook_is_the_students_page_of_its_text(path):
    page, expected = copy.deepcopy(read(path)), students_page(text_of(path))
    for notebook in (page, expected):
        for cell in notebook.cells:
            cell.update({"outputs": [], "execution_count": None} if "outputs" in cell else {})
    assert page.cells == expected.cells, "stale: make notebooks brings it up to date"


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
def test_the_chapter_ends_with_summary_exercises_and_sources(path):
    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    headings = re.findall(r"^## (.+?)\s*$", prose, re.MULTILINE)
    headings = [heading for heading in headings if heading != "Going further"]
    if path.stem == "00_start_here":
        assert headings[-3:] == ["Summary", "Symbols and words", "Sources"]
    else:
        assert headings[-3:] == ["Summary", "Exercises", "Sources"]


@notebook_paths
def test_the_page_ends_with_the_way_on(path):
    last = read(path).cells[-1].source
    following = CHAPTERS[CHAPTERS.index(path.stem) + 1 :][:1]
    assert not following or f"({following[0]}.ipynb)" in last
    if path.stem != "00_start_here":
        assert "(00_start_here.ipynb)" in last
        assert "(00_start_here.ipynb#Symbols-and-words)" in read(path).cells[0].source


@notebook_paths
def test_every_cell_has_its_place_on_the_slides(path):
    for cell in read(path).cells:
        assert cell.metadata.get("slideshow", {}).get("slide_type") in SLIDE_TYPES, cell.source


@notebook_paths
def test_no_line_of_a_paragraph_begins_a_list(path):
    """As 'chapter' and, on the next line, '1. A narrow kernel ...' would."""
    for cell in read_text(text_of(path)).cells:
        if cell.cell_type == "markdown":
            assert not list_in_a_paragraph(cell.source), cell.source


def list_in_a_paragraph(source):
    """A line that begins as a list does, below one that is of no list and not bold to its end."""
    return re.search(r"^(?!#|[-+*] |\d+[.)] | )\S.*(?<!\*)\n([-+*]|1[.)]) ", source, re.MULTILINE)


def test_such_lists_are_seen():
    assert list_in_a_paragraph("as in chapter\n1. A narrow kernel")
    assert list_in_a_paragraph("is $(1 + 1\n+ 4) / 3$")
    for fine in (
        "**You will**\n- see",
        "- one\n- two",
        "1. one\n   and more\n2. two",
        "text\n\n- one",
    ):
        assert not list_in_a_paragraph(fine)


@notebook_paths
def test_notes_for_the_lecturer_are_in_the_text_only(path):
    notes = [cell for cell in read_text(text_of(path)).cells if is_note(cell)]
    assert notes, "a lecture needs notes"
    for cell in notes:
        assert re.match("[A-Z0-9']", cell.source), f"no sentence begins here: {cell.source}"
        assert "For the lecturer" not in cell.source, "the slide type says it already"
    assert not [cell for cell in read(path).cells if is_note(cell) or "lecturer" in cell.source]


@notebook_paths
def test_every_picture_is_followed_by_its_description(path):
    page = read(path)
    for cell, following in zip(page.cells, [*page.cells[1:], None], strict=True):
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                assert following is not None, cell.source
                assert "<summary>The figure in words</summary>" in following.source, cell.source
                assert output.metadata["image/png"]["alt"].strip(), cell.source
    cells = read_text(text_of(path)).cells
    for cell, following in zip(cells, cells[1:], strict=False):
        if is_description(following):
            assert cell.cell_type == "code", following.source


@notebook_paths
def test_a_folded_cell_says_what_it_does(path):
    """JupyterLab shows its first line."""
    for cell in code_cells(read(path)):
        if is_folded(cell):
            assert cell.metadata.jupyter.source_hidden is True
            assert re.match(r"# [A-Z].{9}", cell.source), cell.source
            if is_check(cell.source) and not cell.outputs:
                assert re.match(r"# Checks ", cell.source), f"what did it check?\n{cell.source}"


@notebook_paths
def test_what_only_draws_or_checks_is_folded(path):
    unfolded = [cell.source for cell in code_cells(read(path)) if not is_folded(cell)]
    assert [source for source in unfolded if is_check(source) or only_imports(source)] == []
    assert [source for source in unfolded if "plt.subplots" in source] == []


@notebook_paths
def test_what_is_read_uses_no_name_that_a_folded_cell_defines(path):
    readable, folded = set(), set()
    for cell in code_cells(read(path)):
        defined, used, imported = names_of(cell.source)
        if is_folded(cell):
            folded |= defined - readable
        else:
            assert used & folded - readable == set(), cell.source
            readable |= defined
        readable |= imported


def is_check(source):
    """Whether the cell asserts something and shows nothing else."""
    asserts = re.search(r"^ *(assert|torch\.testing\.assert|check_shape)", source, re.MULTILINE)
    shows = re.search(
        r"^(?!.*checked: ).*(print\(|plt\.|show_|^\w+$|check\()", source, re.MULTILINE
    )
    defines = re.search(r"^(class|def) ", source, re.MULTILINE)
    return bool(asserts and not shows and not defines and not has_other_work(source))


def has_other_work(source):
    """Whether more than a third of the statements prepare something that others may use."""
    body = ast.parse(source).body
    work = [node for node in body if isinstance(node, ast.Assign | ast.AugAssign | ast.With)]
    return 3 * len(work) > len(body)


def only_imports(source):
    """Whether the cell is a wall: more than five lines, all of imports and settings."""
    body = ast.parse(source).body
    kinds = ast.Import | ast.ImportFrom | ast.Expr
    return len(source.splitlines()) > 5 and all(isinstance(node, kinds) for node in body)


def names_of(source):
    """The names that a cell defines at its top level, uses before that, and imports."""
    defined, used, imported = set(), set(), set()

    def use(node):
        loads = (n for n in ast.walk(node) if isinstance(n, ast.Name))
        names = {name.id for name in loads if isinstance(name.ctx, ast.Load)}
        used.update(names - local_names(node) - defined)

    def read_in_order(body):
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                names = (name.asname or name.name for name in statement.names)
                imported.update(name.split(".")[0] for name in names)
            elif isinstance(statement, ast.For | ast.With | ast.If | ast.While):
                inner = [part for part in ast.iter_child_nodes(statement)]
                parts = [part for part in inner if not isinstance(part, ast.stmt)]
                for part in parts:
                    use(part)
                defined.update(*map(bound_by, parts))
                read_in_order([part for part in inner if isinstance(part, ast.stmt)])
            else:
                use(statement)
                defined.update(bound_by(statement))

    read_in_order(ast.parse(source).body)
    return defined, used, imported


def bound_by(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {name.id for name in stored}


def local_names(statement):
    """Names that functions, lambdas and comprehensions of the statement bind for themselves."""
    inner = ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp
    inner |= ast.GeneratorExp
    own = [
        node
        for outer in ast.walk(statement)
        if isinstance(outer, inner)
        for node in ast.walk(outer)
    ]
    stored = {n.id for n in own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {n.arg for n in own if isinstance(n, ast.arg)}


def test_the_eyes_see_names_checks_and_walls():
    defined, used, imported = names_of(
        "import torch\nx = f(a)\ny = [x for b in range(c)]\nd = d + 1"
    )
    assert defined >= {"x", "y", "d"} and imported == {"torch"}
    assert used == {"f", "a", "range", "c", "d"}
    defined, used, _ = names_of("for i in n:\n    x = i\n    print(x, y)\n    y = 1")
    assert (defined, used) == ({"i", "x", "y"}, {"n", "print", "y"})
    assert is_check("assert (a == 1).all()\nassert b") and not is_check("print(1)\nassert b")
    assert is_check("assert b\nprint('checked: b holds')")
    assert not is_check("def f():\n    assert b")
    assert only_imports("import a\n" * 6) and not only_imports("import a\nx = 1\n" * 4)


def test_a_description_is_the_pictures_alternative_text():
    page = copy.deepcopy(read(next(NOTEBOOKS.glob("01_*.ipynb"))))
    for output in outputs(page):
        output.metadata = nbformat.from_dict({})
    add_alt(page)
    pictures = [output for output in outputs(page) if "image/png" in output.get("data", {})]
    found = [picture.metadata["image/png"]["alt"] for picture in pictures]
    assert len(found) >= 4 and not [alt for alt in found if re.search(r"[*$<]", alt)]


@notebook_paths
def test_no_output_tells_where_it_was_made(path):
    for output in outputs(read(path)):
        text = {kind: data for kind, data in output.get("data", {}).items() if "image" not in kind}
        shown = f"{output.get('text', '')} {text}"
        assert not re.search(LOCAL_PATH, shown), shown[:500]


@notebook_paths
def test_no_rounding_is_compared(path):
    """Another processor adds in another order: some 1e-16 are 8e-16 here and 9e-16 there."""
    for cell in code_cells(read(path)):
        shown = "".join(output.get("text", "") for output in cell.outputs)
        rounding = re.search(r"(?<![.\d])\de-(0[78]|1[4-7])", shown)
        assert not rounding or "nbval-ignore-output" in cell.metadata.get("tags", []), shown


@notebook_paths
def test_the_file_is_smaller_than_a_megabyte(path):
    assert path.stat().st_size < 1_000_000
