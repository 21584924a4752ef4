"""Three versions of a notebook become one: the course's new one with the student's work in it.

Each cell of the version that the student began with (``base``) is looked up in the student's copy
(``mine``) and in the new version (``new``); nbdime, which knows notebooks, finds it there. Each
side's changes are taken. Where both changed the same lines, or one changed what the other took
out, the student's side stays, and what the course has there is told.
"""

import copy
import difflib
import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbdime.diffing.notebooks import compare_cell_approximate, compare_cell_by_ids
from nbdime.diffing.snakes import compute_snakes_multilevel
from nbformat import NotebookNode

MINOR = 5  # the first of nbformat 4 in which a cell has an id, and each must have one
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def read(path: Path) -> NotebookNode:
    """A notebook in nbformat 4, whatever wrote it. Raises ValueError that names a damaged file."""
    try:
        content = json.loads(path.read_bytes())  # of bytes, it knows UTF-16 and a BOM
        # No ids are made up here: by random ones no cell would be found again.
        notebook = nbformat.convert(nbformat.reader.reads(json.dumps(content)), 4)
        notebook.nbformat_minor = int(notebook.get("nbformat_minor") or 0)
        for cell in notebook.cells:
            complete(cell)
    except OSError:
        raise
    except Exception as error:  # nbformat has many of them, and a damaged file finds each
        raise ValueError(f"{path} cannot be read as a notebook: {error}") from error
    return notebook


def complete(cell: NotebookNode) -> None:
    """Give a cell what other programs leave out. Raises an error where it has no text."""
    kind, source = text_of(cell)
    if not isinstance(kind, str) or not isinstance(source, str):
        raise ValueError("a cell has no text")
    if kind == "code":
        cell.setdefault("outputs", [])
        cell.setdefault("execution_count", None)


def text_of(cell: NotebookNode) -> tuple[str, str]:
    """What makes a cell the same as another: its kind and its text, not what it printed."""
    return cell["cell_type"], cell["source"]


def merged(
    base: NotebookNode, mine: NotebookNode, new: NotebookNode
) -> tuple[NotebookNode, list[str]]:
    """The student's copy with what is new in the course, and what of the new is not in it.

    The result is of nbformat 4.5 and each of its cells has an id. What is not in it is one line
    for each place: under which heading, and which cell.
    """
    in_mine, in_new = found(base.cells, mine.cells), found(base.cells, new.cells)
    put_in_by_me, put_in_by_course = put_in(in_mine, mine.cells), put_in(in_new, new.cells)
    in_course = set(map(text_of, new.cells))
    own = [cell for _, run in put_in_by_me.values() for cell in run]
    own = [cell for cell in own if text_of(cell) not in in_course]
    cells: list[NotebookNode] = []
    left_out: list[str] = []
    stays: list[tuple[int, NotebookNode]] = []  # what the course took out, and the student keeps
    for at, before in enumerate(base.cells):
        cells += together(put_in_by_me.get(at), put_in_by_course.get(at))
        my, its = in_mine.get(at), in_new.get(at)
        if my is not None and its is not None:
            cell, complete = merged_cell(before, mine.cells[my], new.cells[its])
            cells.append(cell)
            if not complete:
                left_out.append(heading(new.cells, its, f"cell {its + 1}, which you changed, too"))
        elif my is not None and not has_the_same_text(mine.cells[my], before):
            cells.append(mine.cells[my])
            stays.append((at, mine.cells[my]))
        elif its is not None and not has_the_same_text(new.cells[its], before):
            left_out.append(heading(new.cells, its, f"cell {its + 1}, which you took out or moved"))
        elif my is None and its is None:  # the student may have moved it
            stays += [(at, cell) for cell in own if share_a_line(before, cell)][:1]
    cells += together(put_in_by_me.get(len(base.cells)), put_in_by_course.get(len(base.cells)))
    for at, kept in stays:
        place = next(number for number, cell in enumerate(cells, 1) if cell is kept)
        what = f"taken out, but changed or moved by you: it is cell {place} of yours"
        left_out.append(heading(base.cells, at, what))
    whole = copy.deepcopy(mine)
    whole.metadata = merged_fields(base.metadata, mine.metadata, new.metadata)
    whole.cells = copy.deepcopy(cells)
    return with_ids(whole), left_out


def found(base: list[NotebookNode], other: list[NotebookNode]) -> dict[int, int]:
    """Which cell of the other notebook is which of the base; behind the last comes the end."""
    # The last one is asked first: what has the same id or text leaves less to be guessed.
    same = [
        share_a_line,
        compare_cell_approximate,
        lambda one, other: one.source == other.source,  # code that was turned to Markdown
        has_the_same_text,
        compare_cell_by_ids,
    ]
    runs = compute_snakes_multilevel(base, other, same)
    pairs = {i + step: j + step for i, j, length in runs for step in range(length)}
    return pairs | {len(base): len(other)}


def has_the_same_text(one: NotebookNode, other: NotebookNode) -> bool:
    return text_of(one) == text_of(other)


def share_a_line(one: NotebookNode, other: NotebookNode) -> bool:
    """Whether one can be what became of the other: a stub's answer, or code turned to Markdown."""
    return not telling(one).isdisjoint(telling(other))


def telling(cell: NotebookNode) -> set[str]:
    """The lines by which a cell is known; '...', 'return x' and imports stand everywhere."""
    lines = {line.strip() for line in cell.source.split("\n")}
    return {line for line in lines if len(line) > 9 and not line.startswith(("import ", "from "))}


def put_in(pairs: dict[int, int], other: list[NotebookNode]) -> dict[int, tuple[int, list]]:
    """What stands in ``other`` before each cell of the base, and behind which one of the base."""
    runs, behind, start = {}, -1, 0
    for at, place in sorted(pairs.items()):
        runs[at] = behind, other[start:place]
        behind, start = at, place + 1
    return runs


def together(
    mine: tuple[int, list[NotebookNode]] | None, new: tuple[int, list[NotebookNode]] | None
) -> list[NotebookNode]:
    """What both put in before one cell, once where it is the same."""
    my_behind, my_cells = mine or (0, [])
    its_behind, its_cells = new or (0, [])
    known = [text_of(cell) for cell in my_cells]
    its_cells = [cell for cell in its_cells if text_of(cell) not in known]
    # What replaces cells begins earlier than what follows the last of them.
    return its_cells + my_cells if its_behind < my_behind else my_cells + its_cells


def merged_cell(
    base: NotebookNode, mine: NotebookNode, new: NotebookNode
) -> tuple[NotebookNode, bool]:
    """One cell with the changes of both, and whether those of the course are in it."""
    cell = merged_fields(base, mine, new)
    cell.metadata = merged_fields(base.metadata, mine.metadata, new.metadata)
    lines = merged_lines(*(each.source.split("\n") for each in (base, mine, new)))
    for key in ["attachments"] if cell.cell_type == "code" else ["outputs", "execution_count"]:
        cell.pop(key, None)  # one of them turned it into another kind
    complete(cell)
    if "id" in new:
        cell.id = new.id  # by which the next version knows it
    # Half of two changes is code that neither of them wrote: the student's text stays as it is.
    cell.source = mine.source if lines is None else "\n".join(lines)
    return cell, lines is not None


def merged_fields(base: NotebookNode, mine: NotebookNode, new: NotebookNode) -> NotebookNode:
    """Of each entry the student's, where the student changed it, and else the course's."""
    nothing = object()
    chosen = {}
    for key in dict.fromkeys([*mine, *new]):
        before, my, its = (each.get(key, nothing) for each in (base, mine, new))
        chosen[key] = its if my == before else my
    return NotebookNode({key: value for key, value in chosen.items() if value is not nothing})


def merged_lines(base: list[str], mine: list[str], new: list[str]) -> list[str] | None:
    """The lines with the changes of both; None where both changed the same lines."""
    in_mine, in_new = same_lines(base, mine), same_lines(base, new)
    lines: list[str] = []
    start, my_start, its_start = 0, 0, 0
    for at in sorted(in_mine.keys() & in_new.keys()):
        before, my, its = base[start:at], mine[my_start : in_mine[at]], new[its_start : in_new[at]]
        if my not in (before, its) and its != before:
            return None
        lines += its if my == before else my
        lines += base[at : at + 1]
        start, my_start, its_start = at + 1, in_mine[at] + 1, in_new[at] + 1
    return lines


def same_lines(base: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Which line of the other is which of the base; behind the last comes the end."""
    blocks = difflib.SequenceMatcher(None, base, other, autojunk=False).get_matching_blocks()
    pairs = {i + step: j + step for i, j, length in blocks for step in range(length)}
    return pairs | {len(base): len(other)}


def with_ids(notebook: NotebookNode) -> NotebookNode:
    """The notebook in nbformat 4.5, where each cell has an id and no two have the same."""
    known: set[str] = set()
    for cell in notebook.cells:
        while not ID.fullmatch(str(cell.get("id", ""))) or cell.id in known:
            cell.id = secrets.token_hex(4)
        known.add(cell.id)
    notebook.nbformat_minor = max(notebook.nbformat_minor, MINOR)
    return notebook


def heading(cells: list[NotebookNode], at: int, what: str) -> str:
    """Where a cell is: under the last heading before it."""
    for cell in reversed(cells[: at + 1]):
        first = cell.source.partition("\n")[0]
        if cell.cell_type == "markdown" and first.startswith("#"):
            return f"== {first.lstrip('# ')}: {what}"
    return f"== {what}"
