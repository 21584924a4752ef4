"""What the kinds of cells are called in a chapter's text, and how they are told apart."""

from nbformat import NotebookNode

FIGURE = "*Figure:"
NOTES = "notes"
FOLDED = "hide-input"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


def slide_type(cell: NotebookNode) -> str:
    return (cell.metadata.get("slideshow") or {}).get("slide_type", "-")


def is_note(cell: NotebookNode) -> bool:
    """Whether the cell is for the lecturer's eyes only."""
    return slide_type(cell) == NOTES


def is_description(cell: NotebookNode) -> bool:
    """Whether the cell puts the picture above it into words, for those who cannot see it."""
    return cell.cell_type == "markdown" and cell.source.startswith(FIGURE)


def is_folded(cell: NotebookNode) -> bool:
    """Whether the cell's code is shown only on request: it draws, checks or imports."""
    return FOLDED in cell.metadata.get("tags", [])
