"""Which cell stands on which slide: read from the cells' slide types."""

from dataclasses import dataclass, field

from nbformat import NotebookNode

NEW_COLUMN, NEW_SLIDE, NOTES, SKIP = "slide", "subslide", "notes", "skip"
FIGURE = "*Figure:"
FOR_THE_LECTURER = "**For the lecturer.**"


@dataclass
class Slide:
    """The cells that the room sees, in order, and those that only the lecturer sees."""

    cells: list[NotebookNode] = field(default_factory=list)
    notes: list[NotebookNode] = field(default_factory=list)


def slide_type(cell: NotebookNode) -> str:
    return (cell.metadata.get("slideshow") or {}).get("slide_type", "-")


def is_description(cell: NotebookNode) -> bool:
    """Whether the cell puts the picture above it into words, for those who cannot see it."""
    return cell.cell_type == "markdown" and cell.source.startswith(FIGURE)


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
        (slide.notes if kind == NOTES else slide.cells).append(cell)
    return columns
