"""Which cells answer a prediction: a page keeps them closed until the reader has made one."""

import re
from collections.abc import Sequence

from nbformat import NotebookNode

from notebooks.publish.cells import is_description, is_note, slide_type
from notebooks.publish.slides.structure import NEW_COLUMN, NEW_SLIDE

PREDICT = "**Predict"


def answers(cells: Sequence[NotebookNode]) -> dict[int, range]:
    """The number of each cell that asks for a prediction -> those of the cells that answer it.

    They reach from the question over the first cell that answers it, one that has run or one that a
    lecturer uncovers, to the end of that slide.
    """
    return {
        number: range(number + 1, end)
        for number, cell in enumerate(cells)
        if asks(cell) and (end := _end_of_answer(cells, number + 1)) > number + 1
    }


def asks(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and not is_note(cell) and PREDICT in cell.source


def _end_of_answer(cells: Sequence[NotebookNode], start: int) -> int:
    answered = False
    for number, cell in enumerate(cells[start:], start):
        new_slide = slide_type(cell) in (NEW_COLUMN, NEW_SLIDE) and not is_description(cell)
        heading = re.match("#+", cell.source) if cell.cell_type == "markdown" else None
        new_section = heading and len(heading[0]) < 3
        if asks(cell) or new_section or (answered and (new_slide or heading)):
            return number
        answered = answered or bool(cell.get("outputs")) or slide_type(cell) == "fragment"
    return len(cells)
