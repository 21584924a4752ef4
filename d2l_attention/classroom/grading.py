"""Grading with nbgrader in which one cell of a student costs one exercise at most.

``nbgrader_config.py`` of a course puts these steps into nbgrader's own chain. Without them a pasted
cell, or one that ends the kernel, costs the whole notebook.
"""

import ast
import copy
import math
import re
import symtable
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager
from jupyter_core.utils import run_sync
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import Execute, NbGraderPreprocessor

from d2l_attention import __version__
from d2l_attention.classroom.assignment import KERNEL, NOT_GRADED, STAMP, graded
from d2l_attention.classroom.report import FAILED, TEST, ending_of, version_of
from d2l_attention.exercises.engine.registry import PRIVATE, chapter_numbers

REMARKS = "**Before grading.**"
ENDED = "This cell ended Python. The cells after it were run in a new one."
ENDLESS = "This cell could not be stopped, so Python was ended. The cells after it got a new one."
NO_CHECKS = (
    "The checks of chapter {chapter} are not found, so nothing is graded. If they are your own, "
    "set {name} to their folder, as nbgrader_config.py does; it has to be there."
)
CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # as nbformat has it
ALL_NAMES = re.compile(r"^from .* import \*", re.MULTILINE)
NO_POINTS = "not solved yet, see above"
# What the kernel does first, without a name in the student's notebook: a file beside it is found
# last, not first, so that a student's `torch.py` takes nobody's place and `helpers.py` is found;
# and no `!git` or `%pip` of a student's Colab is run here.
FIRST = [
    f"--IPKernelApp.exec_lines={line}"
    for line in (
        '__import__("sys").path.sort(key=lambda each: not each)',
        "get_ipython().system = get_ipython().getoutput = "
        'lambda line, **_: print(f"Not run for a grade: {line}") or []',
    )
]


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
        for name in points:
            if (test := TEST.fullmatch(name)) and int(test[1]) not in chapter_numbers():
                raise NbGraderException(NO_CHECKS.format(chapter=int(test[1]), name=PRIVATE))
        remarks = mend(nb, known, points)
        handed_out = version_of(nb)
        plain_metadata(nb)
        if handed_out not in (None, __version__):
            remarks.append(
                f"The notebook is of version {handed_out} of the course, graded with {__version__}."
            )
        if remarks:
            text = "\n".join([REMARKS, "", *(f"- {remark}" for remark in remarks)])
            nb.cells.insert(0, new_markdown_cell(text))
            for remark in remarks:
                self.log.warning("Student %s: %s", about["student"], remark)
        if (nb.nbformat, nb.nbformat_minor) < (4, 5):  # there cells have no ids
            for cell in nb.cells:
                cell.pop("id", None)
        return nb, resources


def plain_metadata(nb: NotebookNode) -> None:
    """Leave nothing of what Colab, VS Code or others write: nbgrader's pages may stumble over it.

    What nbgrader needs stays, and is mended next; the kernel is the assignment's own.
    """
    told = nb.metadata.get(STAMP)
    nb.metadata = NotebookNode(kernelspec=NotebookNode(KERNEL))
    if told is not None:
        nb.metadata[STAMP] = told
    for cell in nb.cells:
        if cell.cell_type == "code":  # nbgrader clears them too, but later: odd ones end it before
            cell.outputs, cell.execution_count = [], None
        cell.source = cell.source.encode(
            "utf-8", "replace"
        ).decode()  # half a sign cannot be written
        if not CELL_ID.fullmatch(str(cell.get("id", "a"))):
            cell.id = new_markdown_cell().id
        kept = {key: cell.metadata[key] for key in ("nbgrader", "tags") if key in cell.metadata}
        if not isinstance(kept.get("tags", []), list):
            del kept["tags"]
        cell.metadata = NotebookNode(kept)


def mend(
    nb: NotebookNode, known: dict[str, tuple[str, str]], points: dict[str, float]
) -> list[str]:
    """Mend ``nb`` in place; what was done, a sentence each.

    ``known``: kind and text of the cells that were handed out, by name, in their order.
    """
    remarks: list[str] = []
    named: dict[str, list[tuple[int, NotebookNode]]] = {}
    for number, cell in enumerate(nb.cells):
        told = cell.metadata.pop("nbgrader", None)
        name = str(told.get("grade_id")) if isinstance(told, dict) else None
        if told is None or told == {}:
            continue
        if name not in known or known[name][0] != cell.cell_type:
            remarks.append(f"A cell named {name!r} is not one of the assignment: it is your own.")
        else:
            named.setdefault(name, []).append((number, cell))
    places = {name: that_counts(name, named) for name in named}
    for name, cell in places.items():
        cell.metadata["nbgrader"] = metadata_of(name, known[name][0], points)
        if len(named[name]) > 1:
            which = "the last one before its test" if cell is not named[name][0][1] else "the first"
            remarks.append(f"There are several cells {name!r}: {which} counts, the others are own.")
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
        _, handed_out = known["imports"]
        if (changed := places["imports"].source).strip() != handed_out.strip():
            nb.cells.insert(1, new_code_cell(changed))
            remarks.append(
                "The cell 'imports' was changed: your text of it stands in a cell below."
            )
    return list(dict.fromkeys(remarks))


def that_counts(name: str, named: dict[str, list[tuple[int, NotebookNode]]]) -> NotebookNode:
    """Of several answers the last before its test, whose names Python has then; else the first."""
    (_, first), *_ = named[name]
    if not name.startswith("answer-"):
        return first
    end, _ = named.get(name.replace("answer-", "test-"), [(math.inf, None)])[0]
    return next((cell for number, cell in reversed(named[name]) if number < end), first)


def metadata_of(name: str, kind: str, points: dict[str, float]) -> NotebookNode:
    """What nbgrader wants to know of a cell of ours, whatever a student's tool made of it."""
    if name.startswith("answer-"):
        what = {"solution": True}
    else:
        what = {"locked": True}
        what |= {"grade": True, "points": points[name]} if name in points else {}
    return NotebookNode(graded(name, cell_type=kind, **what)["nbgrader"])


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


class QuietExecute(Execute):
    """Execute, in a kernel that is careful with what surrounds the notebook: see ``FIRST``."""

    def create_kernel_manager(self) -> Any:
        if FIRST[0] not in self.extra_arguments:
            self.extra_arguments = [*self.extra_arguments, *FIRST]
        return super().create_kernel_manager()


class PatientExecute(QuietExecute):
    """Runs a notebook to its end, and gives every test the points that its answer is worth.

    A cell that ends Python, or that no interrupt ends, is left out: a new kernel runs the cells
    before it again and goes on behind it. A test that says nothing then, for whatever reason, is
    tried once more in a kernel of its own, with those cells alone that its answer needs.
    """

    def preprocess(
        self, nb: NotebookNode, resources: Any = None, km: Any = None
    ) -> tuple[NotebookNode, Any]:
        self.left_out: set[int] = set()  # places of cells that are not run again
        return super().preprocess(nb, resources, km)

    def preprocess_cell(
        self, cell: NotebookNode, resources: Any, index: int
    ) -> tuple[NotebookNode, Any]:
        if trouble := self.trouble_with(cell, resources, index):
            self.log.warning(trouble)
            cell.outputs = [new_output("error", ename="Ended", evalue=trouble, traceback=[trouble])]
            self.left_out.add(index)
            self.begin_again(resources, index)
        if is_test(cell):
            if ending_of(cell).state == FAILED:
                self.try_alone(cell, resources, index)
            write_points(cell)
        return cell, resources

    def trouble_with(self, cell: NotebookNode, resources: Any, index: int) -> str:
        """Run a cell. What to say where Python is gone then: '' where it is not."""
        self.asked_to_end = False
        try:
            super().preprocess_cell(cell, resources, index)
        except DeadKernelError:
            return ENDED
        except CellTimeoutError:
            return ENDLESS
        # A kernel that is asked to end does so a moment later, in the midst of the next cell.
        return ENDED if self.asked_to_end else ""

    def on_cell_executed(self, **about: Any) -> None:
        super().on_cell_executed(**about)
        reply = about["execute_reply"]["content"]
        self.asked_to_end = any(each["source"] == "ask_exit" for each in reply.get("payload", []))
        if reply.get("ename") == "CellTimeoutError":
            self.left_out.add(about["cell_index"])  # it ran for a minute: once is enough

    def begin_again(self, resources: Any, index: int) -> None:
        """A new kernel, in which the student's cells before this one have run."""
        self.new_kernel()
        for place in range(index):
            cell = self.nb.cells[place]
            if place in self.left_out or not is_students(cell):
                continue
            trouble = self.trouble_with(copy.deepcopy(cell), resources, place)
            self.nb.cells[place] = cell  # with the outputs of its first run
            if trouble:
                # Something ends Python late, and nobody knows what: the rest is tried alone.
                self.left_out.update(range(index))
                return self.new_kernel()

    def new_kernel(self) -> None:
        run_sync(self.km.shutdown_kernel)(now=True)
        self.kc.stop_channels()
        self.km = self.create_kernel_manager()
        self.start_new_kernel()
        self.start_new_kernel_client()

    def try_alone(self, test: NotebookNode, resources: Any, index: int) -> None:
        """Run a test behind the cells that it needs and no others; keep what it says, if anything.

        The notebook may have changed what Python's own names mean, or ended Python.
        """
        before = [cell for cell in self.nb.cells[:index] if is_students(cell)]
        answer = name_of(test).replace("test-", "answer-")
        handed_out = [cell for cell in before if name_of(cell) in ("imports", answer)]
        used, own = used_and_defined(test.source)
        ways = [needed(before, used - own), handed_out]
        for cells in ways[: 1 if ways[0] == ways[1] else 2]:
            if not any(used_and_defined(cell.source)[1] & (used - own) for cell in cells):
                continue  # there is no answer that could be right
            alone = new_notebook(
                cells=copy.deepcopy([*cells, test]), metadata=copy.deepcopy(self.nb.metadata)
            )
            try:
                QuietExecute(parent=self.parent, timeout=self.timeout).preprocess(alone, resources)
            except (DeadKernelError, CellTimeoutError):
                continue
            if ending_of(alone.cells[-1]).state != FAILED:
                test.outputs = alone.cells[-1].outputs
                return


def name_of(cell: NotebookNode) -> str:
    """What nbgrader calls it; '' for a cell of the student's own."""
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def is_test(cell: NotebookNode) -> bool:
    """Whether it is a test of ours: an instructor may add others, and grade by hand."""
    return bool(TEST.fullmatch(name_of(cell))) and "d2l_attention.exercises" in cell.source


def is_students(cell: NotebookNode) -> bool:
    """Whether it is code that is run and is no test."""
    passed_over = NOT_GRADED in cell.metadata.get("tags", [])
    return cell.cell_type == "code" and not passed_over and not is_test(cell)


def needed(cells: list[NotebookNode], wanted: set[str]) -> list[NotebookNode]:
    """The cells that define these names, those that define what they use in turn, all imports."""
    found = []
    for cell in reversed(cells):
        used, defined = used_and_defined(cell.source)
        if wanted & defined or name_of(cell) == "imports" or ALL_NAMES.search(cell.source):
            wanted = wanted | used
            found.append(cell)
    return found[::-1]


def used_and_defined(source: str) -> tuple[set[str], set[str]]:
    """The names of some code, magics or not; nothing where it is no Python."""
    try:
        code = TransformerManager().transform_cell(source)
        names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        table = symtable.symtable(code, "a cell", "exec").get_symbols()
    except (SyntaxError, ValueError):
        return set(), set()
    return names, {each.get_name() for each in table if each.is_assigned() or each.is_imported()}


def write_points(test: NotebookNode) -> None:
    """Say a test's points as nbgrader reads them, from the verdict that a report reads, too.

    A kernel that a student has set to show all values, none, or fewer digits says other points.
    """
    ending = ending_of(test)
    points = ending.points(test.metadata["nbgrader"]["points"])
    # A verdict says what is wrong: no page needs the way to our `AssertionError` behind it.
    spoils = ("execute_result",) if ending.state == FAILED else ("execute_result", "error")
    test.outputs = [output for output in test.outputs if output.output_type not in spoils]
    for output in test.outputs:
        if output.output_type == "stream":
            output.name = "stdout"  # a warning costs nothing
    if points:
        result = new_output("execute_result", {"text/plain": repr(points)}, execution_count=None)
        test.outputs.append(result)
    elif not any(output.output_type == "error" for output in test.outputs):
        test.outputs.append(
            new_output("error", ename="NoPoints", evalue=NO_POINTS, traceback=[NO_POINTS])
        )
