"""The two notebooks that a chapter's text makes: the lecture, and the student's page.

The lecture has every cell. The student's page has what a student reads: no notes for the lecturer,
cells that only draw or check folded, figures in words folded, and the way on at its end.
"""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from notebooks.publish.cells import FIGURE, is_description, is_folded, is_note
from notebooks.publish.clock import minutes_left
from notebooks.publish.course import texts
from notebooks.publish.text import read_text

MAP = "00_start_here.ipynb"
SYMBOLS = f"<small>[Symbols and words]({MAP}#Symbols-and-words) of the course.</small>"
IN_WORDS, END_OF_WORDS = "<details><summary>The figure in words</summary>", "</details>"


def students_page(text: Path) -> NotebookNode:
    """The notebook that a student opens, made of the chapter's text, without outputs."""
    page = read_text(text)
    left = minutes_left(page)
    page.cells = [cell for cell in page.cells if not is_note(cell)]
    for cell in page.cells:
        if is_folded(cell):
            cell.metadata["jupyter"] = {"source_hidden": True}
        elif is_description(cell):
            cell.source = _folded_words(cell.source)
        elif cell.id in left:
            heading, _, rest = cell.source.partition("\n")
            cell.source = f"{heading}\n\n<small>{left[cell.id]}</small>\n{rest}".rstrip()
    if text.stem != Path(MAP).stem:
        page.cells[0].source += f"\n\n{SYMBOLS}"
    page.cells.append(_the_way_on(text))
    return page


def lecture(text: Path, page: NotebookNode) -> NotebookNode:
    """The lecture with the outputs of its executed student's page."""
    notebook = read_text(text)
    executed = {cell.id: cell for cell in page.cells if cell.cell_type == "code"}
    for cell in notebook.cells:
        if cell.id in executed:
            cell.outputs = executed[cell.id].outputs
            cell.execution_count = executed[cell.id].execution_count
    if "widgets" in page.metadata:
        notebook.metadata.widgets = page.metadata.widgets
    return notebook


def add_alt(page: NotebookNode) -> None:
    """Give each picture of an executed page the words below it as its alternative text."""
    for cell, following in zip(page.cells, page.cells[1:], strict=False):
        if cell.cell_type != "code" or not following.source.startswith(IN_WORDS):
            continue
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                about = output.metadata.setdefault("image/png", {})
                about.setdefault("alt", _plain(following.source))


def _plain(source: str) -> str:
    """The figure in words without marks, on one line."""
    words = source.removeprefix(IN_WORDS).partition(END_OF_WORDS)[0]
    return " ".join(re.sub(r"[*$`\\]", "", words).split())


def _folded_words(description: str) -> str:
    """``*Figure: ...*`` as one line that opens on a click."""
    words, _, rest = description.partition("\n\n")
    words = words.removeprefix(FIGURE).strip().removesuffix("*")
    return f"{IN_WORDS}\n\n{words[:1].upper()}{words[1:]}\n\n{END_OF_WORDS}\n\n{rest}".strip()


def _the_way_on(text: Path) -> NotebookNode:
    """The last cell: a link to the next chapter, and one to the map of the course."""
    following = [path for path in texts() if path.name > text.name][:1]
    links = [f"**Next:** [{_title(path)}]({path.stem}.ipynb)" for path in following]
    if text.stem != Path(MAP).stem:
        links.append(f"[Back to the map]({MAP})")
    cell = nbformat.v4.new_markdown_cell(" · ".join(links), id="the-way-on")
    cell.metadata["slideshow"] = {"slide_type": "skip"}
    return cell


def _title(text: Path) -> str:
    return re.search(r"^# # (.+)$", text.read_text("utf-8"), re.MULTILINE)[1]
