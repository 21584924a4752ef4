"""Grading with nbgrader in which one cell of a student costs one exercise at most.

``nbgrader_config.py`` of a course puts these steps into nbgrader's own chain. Without them a pasted
cell, or one that ends the kernel, costs the whole notebook.
"""

from typing import Any

from jupyter_core.utils import run_sync
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import Execute, NbGraderPreprocessor

from d2l_attention import __version__

STAMP = "d2l_attention"  # in a notebook's metadata: the version that it was handed out with
REMARKS = "**Before grading.**"
ENDED = "This cell ended Python. The cells after it were run in a new one."


class MendedCells(NbGraderPreprocessor):
    """Puts a submission into the shape of the assignment, before nbgrader looks at its metadata.

    What nbgrader handed out keeps its place. A copy of such a cell, or a cell with another name,
    becomes the student's own, and is run. A test that is missing comes back, and so do the imports.
    All is told in a cell of its own at the beginning, which the student reads in the feedback.
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as gradebook:
            source = gradebook.find_notebook(about["notebook"], about["assignment"])
            points = {cell.name: cell.max_score for cell in source.grade_cells}
            known = {cell.name: (cell.cell_type, cell.source) for cell in source.source_cells}
        remarks = mend(nb, known, points)
        handed_out = nb.metadata.get(STAMP, {}).get("version")
        if handed_out not in (None, __version__):
            remarks.append(
                f"The notebook is of version {handed_out} of the course, graded with {__version__}."
            )
        if remarks:
            text = "\n".join([REMARKS, "", *(f"- {remark}" for remark in remarks)])
            nb.cells.insert(0, new_markdown_cell(text))
            for remark in remarks:
                self.log.warning("Student %s: %s", about["student"], remark)
        return nb, resources


def mend(
    nb: NotebookNode, known: dict[str, tuple[str, str]], points: dict[str, float]
) -> list[str]:
    """Mend ``nb`` in place; what was done, a sentence each.

    ``known``: kind and text of the cells that were handed out, by name, in their order.
    """
    remarks, places = [], {}
    for cell in nb.cells:
        told = cell.metadata.pop("nbgrader", None)
        name = told.get("grade_id") if isinstance(told, dict) else None
        if told is None or told == {}:
            continue
        if name not in known or known[name][0] != cell.cell_type:
            remarks.append(f"A cell named {name!r} is not one of the assignment: it is your own.")
        elif name in places:
            remarks.append(
                f"There are several cells {name!r}: the first counts, the others are own."
            )
        else:
            places[name] = cell
            cell.metadata["nbgrader"] = metadata_of(name, known[name][0], points)
    for name, (kind, text) in known.items():
        if name in places or name.startswith("answer-"):
            continue
        missing = NotebookNode(cell_type=kind, metadata={}, source=text)
        missing.update(outputs=[], execution_count=None)
        missing.metadata = NotebookNode(nbgrader=metadata_of(name, kind, points))
        nb.cells.insert(place_of_test(nb.cells, name, places), missing)
        places[name] = missing
        remarks.append(f"The cell {name!r} was missing: it was put back.")
    if "imports" in places and places["imports"] in nb.cells:
        nb.cells.remove(places["imports"])
        nb.cells.insert(0, places["imports"])
    return list(dict.fromkeys(remarks))


def metadata_of(name: str, kind: str, points: dict[str, float]) -> NotebookNode:
    """What nbgrader wants to know of a cell of ours, whatever a student's tool made of it."""
    plain = {"grade": False, "locked": False, "solution": False, "task": False}
    told = {"grade_id": name, "schema_version": 3, "cell_type": kind} | plain
    if name.startswith("answer-"):
        return NotebookNode(told | {"solution": True})
    told["locked"] = True
    if name in points:
        told |= {"grade": True, "points": points[name]}
    return NotebookNode(told)


def place_of_test(cells: list[NotebookNode], name: str, places: dict[str, NotebookNode]) -> int:
    """Behind the answer to this test; without one (the imports have none), at the end."""
    answer = places.get(name.replace("test-", "answer-"))
    return len(cells) if answer is None else cells.index(answer) + 1


class EveryTestRuns(NbGraderPreprocessor):
    """Takes tags off graded cells: nbgrader gives full points for a test that is passed over."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: Any, index: int
    ) -> tuple[NotebookNode, Any]:
        if "nbgrader" in cell.metadata:
            cell.metadata.pop("tags", None)
        return cell, resources


class PatientExecute(Execute):
    """Runs a notebook to its end, also where a cell ends the kernel: the rest gets a new one."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: Any, index: int
    ) -> tuple[NotebookNode, Any]:
        try:
            return super().preprocess_cell(cell, resources, index)
        except DeadKernelError:
            self.log.warning("A cell ended the kernel: the cells after it get a new one.")
        cell.outputs = [new_output("error", ename="Ended", evalue=ENDED, traceback=[ENDED])]
        run_sync(self.km.shutdown_kernel)(now=True)
        self.kc.stop_channels()
        self.km = None
        self.create_kernel_manager()
        self.start_new_kernel()
        self.start_new_kernel_client()
        for place, first in enumerate(self.nb.cells[:index]):
            if first.metadata.get("nbgrader", {}).get("grade_id") == "imports":
                super().preprocess_cell(first, resources, place)
        return cell, resources
