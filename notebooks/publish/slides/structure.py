"""Which cell stands on which slide: read from the cells' slide types."""

from dataclasses import dataclass, field

from nbformat import NotebookNode

from notebooks.publish.cells import is_description, is_note, slide_type

NEW_COLUMN, NEW_SLIDE, SKIP = "slide", "subslide", "skip"


@dataclass
class Slide:
    """The cells that the room sees, in order, and those that only the lecturer sees."""

    cells: list[NotebookNode] = field(default_factory=list)
    notes: list[NotebookNode] = field(default_factory=list)


def columns_of(notebook: NotebookNode) -> list[list[Slide]]:
    """The slides from left to right, each with the slides below it."""
    columns: list[list[Slide]] = []
    for cell in notebook.cells:
        kind = slide_type(cell)
        if kind == SKIP:
            continue
        # A description belongs to the picture before it, wherever its own type would put it.
        starts = kind in (NEW_COLUMN, NEW_SLIDE) and not is_description(cell)
        if not columns or (starts and kind == NEW_COLUMN):
            columns.append([Slide()])
        elif starts:
            columns[-1].append(Slide())
        slide = columns[-1][-1]
        (slide.notes if is_note(cell) else slide.cells).append(cell)
    return columns
