"""Hands a chapter out with nbgrader: its notebook, with the exercises as cells that are graded.

All prose and code of the chapter stay, so that the student reads and runs one notebook. But the
chapter's own code, which may train for minutes, carries a tag by which autograding passes it
over. What is run for a grade is one cell with the chapter's imports, the answers, the tests, and
whatever cells the student adds.
"""

import ast
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from d2l_attention import __version__
from d2l_attention.exercises.engine.edits import renamed, source_of
from d2l_attention.exercises.engine.examine import examine
from d2l_attention.exercises.engine.registry import (
    PRIVATE,
    chapter_numbers,
    load_chapter,
    use_private,
)
from d2l_attention.exercises.engine.verify import verified
from d2l_attention.exercises.exercise import Exercise
from d2l_attention.system.files import write_whole

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"  # beside the package, in a checkout
POINTS = {"easy": 1, "medium": 2, "hard": 3}
STAMP = "d2l_attention"  # in the metadata: the version that an assignment was made with
KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
CHECK = re.compile(r"""\bcheck\(\s*["'](\d+\.\d+)["'],\s*(\w+)\s*\)""")
NOT_GRADED = "skip-execution"  # nbclient's own name for cells that it passes over

BEFORE_THE_EXERCISES = """\
Here the graded part begins. For your grade the next cell is run, then your answers, their tests
and any cells that you add; the chapter's code above is not. If an answer needs something from
there, copy it into your cell. To see what will be graded, restart the kernel and run from here on.
"""

TEST = """\
# Points: {points}
from d2l_attention.exercises.graded import graded as d2l_graded

d2l_graded("{id}", {name}, {points})\
"""

CONFIG = '''\
"""nbgrader's settings for assignments of d2l_attention; they are yours to change."""

import os
from pathlib import Path

from nbgrader.converters.autograde import Autograde
from nbgrader.preprocessors import Execute

# Kernels that grade use one core and no GPU, and do not write into your own progress.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
os.environ["D2L_ATTENTION_PROGRESS"] = str(Path(__file__).resolve().with_name("progress.json"))

c = get_config()  # noqa: F821
# The exercise's own stub stands before the solution, so nothing takes the solution's place.
c.ClearSolutions.code_stub = {"python": ""}
# Seconds for a cell. An endless loop in an answer's function is ended by its check, much earlier.
c.Execute.timeout = 60
# One cell of a student costs one exercise at most.
# (By their names: so only grading imports the course, and with it torch.)
grading = "d2l_attention.classroom.grading"
c.Autograde.sanitize_preprocessors = [
    f"{grading}.MendedCells",
    *Autograde.sanitize_preprocessors.default(),
    f"{grading}.EveryTestRuns",
]
c.Autograde.autograde_preprocessors = [
    f"{grading}.PatientExecute" if each is Execute else each
    for each in Autograde.autograde_preprocessors.default()
]
'''


PRIVATE_CONFIG = """\
# Exercises of your own: where the checks that grade them are.
os.environ["{name}"] = {folder!r}
"""


class CannotWrite(Exception):
    """Why there is no assignment, and what to do, in a sentence."""


def write_assignment(
    number: int, course: Path, notebooks: Path = NOTEBOOKS, private: Path | None = None
) -> tuple[Path, bool]:
    """Write chapter ``number`` into ``course/source/``; where it is, and whether settings are new.

    ``private`` is an instructor's folder with a chapter and its notebook: see ``use_private``.

    Errors: ``CannotWrite``, before anything is written.
    """
    if private is not None:
        chapters = [*private.glob("chapter_[0-9][0-9]"), *private.glob("chapter_[0-9][0-9].py")]
        if not chapters:
            raise CannotWrite(
                f"{private} has no folder such as chapter_50 with exercises, and no such file."
            )
        use_private(str(private.resolve()))
        notebooks = private
    if number not in chapter_numbers():
        first, *_, last = chapter_numbers()
        raise CannotWrite(f"There is no chapter {number:02d}: give one from {first:02d} to {last}.")
    if find_spec("nbgrader") is None:
        install = f'{sys.executable} -m pip install -c constraints.txt -e ".[nbgrader]"'
        raise CannotWrite(f"nbgrader is not installed: type `{install}` in the checkout.")
    if private is not None:
        check_the_authors_work(number)
    path = chapter_notebook(number, notebooks)
    target = course / "source" / name_of(path)
    notebook = assignment(number, path)
    try:
        config = CONFIG
        if private is not None:
            config += PRIVATE_CONFIG.format(name=PRIVATE, folder=str(private.resolve()))
        return target, put(notebook, target, course / "nbgrader_config.py", config)
    except OSError as error:
        raise CannotWrite(f"Cannot write into {course}: {error.strerror}.") from error


def check_the_authors_work(number: int) -> None:
    """What the course's tests hold of its own exercises. Errors: ``CannotWrite``."""
    try:
        for exercise in load_chapter(number).exercises:
            verified(exercise)
            verdict = examine(exercise, exercise.solution)
            if verdict.state != "solved":
                raise ValueError(f"{exercise.id}: its own solution is refused: {verdict.message}")
    except Exception as error:  # also what the chapter's own code raises
        raise CannotWrite(
            f"An exercise of chapter {number:02d} is not ready to be handed out: "
            f"{type(error).__name__}: {error}"
        ) from error


def name_of(path: Path) -> str:
    """The assignment's name, never the chapter's own: a student keeps notes in that."""
    return f"hw{path.stem}"


def chapter_notebook(number: int, notebooks: Path) -> Path:
    found = sorted(notebooks.glob(f"{number:02d}_*.ipynb"))
    found = [path for path in found if re.fullmatch(r"\w+", path.stem)]  # no ...-Copy1
    if len(found) != 1:
        raise CannotWrite(
            f"The chapters' notebooks are not part of the installed package, and {notebooks} has "
            f"{len(found)} named {number:02d}_*.ipynb: give the folder `notebooks` of a checkout "
            "with --notebooks."
        )
    return found[0]


def assignment(number: int, path: Path) -> NotebookNode:
    """The chapter's notebook with an answer and a test for each exercise, without outputs."""
    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception as error:  # nbformat has no common ancestor for what it raises
        raise CannotWrite(f"{path} is no notebook: make it anew with `make notebooks`.") from error
    left = {exercise.id: exercise for exercise in load_chapter(number).exercises}
    checked = {found[1] for cell in cells if (found := CHECK.search(cell.source))}
    if unknown := {i for i in checked - left.keys() if int(i.partition(".")[0]) == number}:
        raise CannotWrite(
            f"{path} checks {', '.join(sorted(unknown))}, which no file of the chapter declares."
        )
    imports = imports_cell(cells)
    known = imported(imports.source)
    written: list[NotebookNode] = []
    start = 0
    for cell in cells:
        found = CHECK.search(cell.source) if cell.cell_type == "code" else None
        if found and (exercise := left.pop(found[1], None)):
            start = start or len(written) - 1  # in front of the task, which is the cell before
            written.append(answer_cell(cell.source, exercise, found[2], known))
            written.append(check_cell(exercise, found[2]))
        else:
            written.append(not_graded(cell))
    if left:
        raise CannotWrite(
            f"{path} has no cell that checks {', '.join(left)}: write one that ends in "
            f'check("{next(iter(left))}", your_answer), or, for a chapter of the course, bring it '
            "up to date with `make notebooks`."
        )
    written[start:start] = [new_markdown_cell(BEFORE_THE_EXERCISES, id="graded"), imports]
    return nbformat.v4.new_notebook(
        cells=written, metadata={"kernelspec": KERNEL, STAMP: {"version": __version__}}
    )


def not_graded(cell: NotebookNode) -> NotebookNode:
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
        cell.metadata.tags = [*cell.metadata.get("tags", []), NOT_GRADED]
    return cell


def imports_cell(cells: list[NotebookNode]) -> NotebookNode:
    """All that the chapter imports, so that an answer finds it without the chapter's code."""
    lines = dict.fromkeys(
        ast.get_source_segment(cell.source, statement)
        for cell in cells
        if cell.cell_type == "code"
        for statement in parsed(cell.source)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    )
    source = "\n".join(["# What this chapter imports", *lines])
    return new_code_cell(source, id="imports", metadata=graded("imports", locked=True))


def parsed(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:  # a magic, such as %timeit
        return []


def import_free(source: str) -> str:
    """The code without its imports, as Python writes it."""
    tree = ast.parse(source)
    tree.body = [each for each in tree.body if not isinstance(each, ast.Import | ast.ImportFrom)]
    return ast.unparse(tree)


def imported(source: str) -> set[str]:
    statements = [node for node in parsed(source) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {alias.asname or alias.name for node in statements for alias in node.names}


def answer_cell(source: str, exercise: Exercise, name: str, known: set[str]) -> NotebookNode:
    """The exercise's cell without its check: the stub, then the solution between markers."""
    lines = source.splitlines()
    for statement in reversed(parsed(source)):
        place = slice(statement.lineno - 1, statement.end_lineno)
        if isinstance(statement, ast.Expr) and CHECK.search("\n".join(lines[place])):
            lines[place] = []
        elif getattr(statement, "name", None) == name:
            lines[place] = source_of(exercise.stub).splitlines()
    stub = "\n".join(lines).strip()
    gap = "\n\n\n" if callable(exercise.stub) else "\n"
    solution = solution_source(exercise, name, known | imported(stub))
    source = f"{stub}{gap}### BEGIN SOLUTION\n{solution}\n### END SOLUTION"
    key = f"answer-{exercise.id.replace('.', '-')}"
    return new_code_cell(source, id=key, metadata=graded(key, solution=True))


def solution_source(exercise: Exercise, name: str, known: set[str]) -> str:
    """The solution under the student's ``name``, with the imports of what is not ``known``."""
    solution = exercise.solution
    if not callable(solution):
        return f"{name} = {solution!r}"
    code = renamed(source_of(solution), solution, name).rstrip()
    home = sys.modules[solution.__module__]
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    imports = [import_of(other, home) for other in sorted((used & vars(home).keys()) - known)]
    return "\n".join(imports + ["\n"] * bool(imports) + [code])


def import_of(name: str, home: ModuleType) -> str:
    value = getattr(home, name)
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    return f"from {home.__name__} import {name}"


def check_cell(exercise: Exercise, name: str) -> NotebookNode:
    key, points = f"test-{exercise.id.replace('.', '-')}", POINTS[exercise.difficulty]
    source = TEST.format(points=points, id=exercise.id, name=name)
    metadata = graded(key, grade=True, locked=True, points=points)
    return new_code_cell(source, id=key, metadata=metadata)


def graded(key: str, **what: bool | float | str) -> dict:
    """What nbgrader wants to know of a cell."""
    plain = {"grade": False, "locked": False, "solution": False, "task": False}
    return {"nbgrader": plain | {"grade_id": key, "schema_version": 3} | what}


def put(notebook: NotebookNode, target: Path, config: Path, settings: str) -> bool:
    """Write the assignment, whole or not at all, and settings where there are none.

    An assignment that is there gets the new notebook; whatever else is in its folder stays.
    """
    target.mkdir(parents=True, exist_ok=True)
    write_whole(target / f"{target.name}.ipynb", nbformat.writes(notebook) + "\n")
    if new := not config.exists():
        write_whole(config, settings)
    return new
