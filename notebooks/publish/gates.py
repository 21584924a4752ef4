"""Which cells answer a prediction: a page keeps them closed until the reader has made one."""

import re
from collections.abc import Sequence

from nbformat import NotebookNode

from notebooks.publish.cells import is_note, slide_type

PREDICT = "**Predict"


def answers(cells: Sequence[NotebookNode]) -> dict[int, range]:
    """The number of each cell that asks for a prediction -> those of the cells that answer it.

    They reach from the question over the first cell that answers it, one that has run or one that a
    lecturer uncovers, to the next heading or question: a slide without a heading goes on with it.
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
        heading = re.match("#+", cell.source) if cell.cell_type == "markdown" else None
        new_section = heading and len(heading[0]) < 3
        if asks(cell) or new_section or (answered and heading):
            return number
        answered = answered or bool(cell.get("outputs")) or slide_type(cell) == "fragment"
    return len(cells)
