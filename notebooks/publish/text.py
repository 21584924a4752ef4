"""A chapter's text as a notebook: the lecture, which has every cell, and no outputs yet."""

import hashlib
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from notebooks.publish.tasks import with_stubs

# Without versions, so that another Python's run leaves no trace in a diff.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def read_text(text: Path) -> NotebookNode:
    """The lecture that the chapter's text describes, with its exercises, without outputs."""
    notebook = jupytext.read(text, fmt="py:percent")
    notebook.cells = list(with_stubs(notebook.cells))
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen = Counter()
    for cell in notebook.cells:
        # Random ids would change in every build, numbered ones after every cell that is put in.
        content = cell.cell_type, cell.source
        seen[content] += 1
        cell.metadata = {k: v for k, v in cell.metadata.items() if k in ("slideshow", "tags")}
        cell.metadata = nbformat.from_dict(cell.metadata)
        cell.id = hashlib.sha256(repr((content, seen[content])).encode()).hexdigest()[:8]
    return notebook
