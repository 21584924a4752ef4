"""The pictures of ``explore`` views, which only Python can draw: from a run of their notebook."""

import copy
import hashlib
import json
from pathlib import Path

from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

from d2l_attention.system.files import write_whole
from notebooks.publish.course import ROOT
from notebooks.publish.kernel import run_cells
from notebooks.publish.needed_cells import needed_cells
from notebooks.publish.slides.errors import SlidesError

VIEWS = ROOT / "d2l_attention" / "views"
DRAWN_BY = ("explore_view.py", "frames.py")
# As in d2l_attention.views.frames, which is not imported: that would cost seconds a call.
MIME = "application/vnd.d2l-attention.frames+json"
VARIABLE = "D2L_ATTENTION_FRAMES"


def frames_of(notebook: NotebookNode, folder: Path, memory: Path) -> dict[str, dict]:
    """The frames of each ``explore`` view, by ``frames_key``.

    They are drawn in a fresh kernel, in ``folder``, and kept in the file ``memory``: a chapter's
    text may change without a minute of drawing.

    Errors: ``SlidesError`` where a cell fails.
    """
    views = [number for number, cell in enumerate(notebook.cells) if is_explore(cell)]
    if not views:
        return {}
    needed = copy.deepcopy(notebook)
    needed.cells = [needed.cells[number] for number in needed_cells(needed.cells, views)]
    key = _fingerprint(needed)
    try:
        kept = json.loads(memory.read_text("utf-8"))
    except (OSError, ValueError):
        kept = {}
    if not isinstance(kept, dict) or kept.get("key") != key:
        kept = {"key": key, "frames": _drawn(needed, folder)}
        write_whole(memory, json.dumps(kept))
    return kept["frames"]


def is_explore(cell: NotebookNode) -> bool:
    return any(map(is_explore_output, cell.get("outputs", [])))


def is_explore_output(output: NotebookNode) -> bool:
    return output.get("data", {}).get("text/plain", "").startswith("explore(")


def frames_key(cell: NotebookNode, number: int) -> str:
    """Which output of which cell: a cell may show several views."""
    return f"{cell.id}-{number}"


def _drawn(notebook: NotebookNode, folder: Path) -> dict[str, dict]:
    try:
        run_cells(notebook, folder, **{VARIABLE: "1"})
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        words = strip_ansi(str(error))
        raise SlidesError(f"the views have no frames, because a cell fails: {words}") from error
    return {
        frames_key(cell, number): output.data[MIME]
        for cell in notebook.cells
        for number, output in enumerate(cell.get("outputs", []))
        if MIME in output.get("data", {})
    }


def _fingerprint(notebook: NotebookNode) -> str:
    """Changes with the code, with the pictures that it was seen to make, and with how it is drawn.

    Not with the rest of the package: where a change of it changes a picture, ``make notebooks``
    puts the new one into the notebook.
    """
    digest = hashlib.sha256()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            digest.update(f"{cell.source}\n".encode())
        if is_explore(cell):
            pictures = [output.get("data", {}).get("image/png", "") for output in cell.outputs]
            digest.update(f"{cell.id} {pictures}\n".encode())
    for name in DRAWN_BY:
        digest.update((VIEWS / name).read_bytes())
    return digest.hexdigest()
