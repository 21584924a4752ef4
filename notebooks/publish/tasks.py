"""What a chapter's page has from its exercises: the heading of a task, and the cell with its stub.

The text has the task in prose, under the line ``**3.4** · complete a function``. The rest is
declared in the exercise's file, and nowhere else.
"""

import ast
import re
from collections.abc import Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from d2l_attention.exercises.engine.edits import source_of
from d2l_attention.exercises.engine.registry import find
from d2l_attention.exercises.exercise import Exercise

TASK = re.compile(r"^\*\*(\d+\.\d+)\*\* · ", re.MULTILINE)


def with_stubs(cells: list[NotebookNode]) -> Iterator[NotebookNode]:
    """The cells of a text, each task with its whole heading and, below it, a cell with the stub.

    Where the cell below a task only imports, the stub is put under the imports.

    Errors: ``UnknownExercise`` for a task without an exercise.
    """
    for cell, below in zip(cells, [*cells[1:], None], strict=True):
        yield cell
        task = TASK.search(cell.source) if cell.cell_type == "markdown" else None
        if task is None:
            continue
        exercise = find(task[1])
        cell.source = cell.source.replace(task[0], heading(exercise), 1)
        if below and below.cell_type == "code" and only_imports(below.source):
            gap = "\n\n\n" if callable(exercise.stub) else "\n\n"
            below.source += gap + stub(exercise)
        else:
            yield new_code_cell(stub(exercise), metadata=cell.metadata)


def heading(exercise: Exercise) -> str:
    minutes = f"{exercise.minutes} minute{'s' * (exercise.minutes > 1)}"
    return f"**{exercise.id}** {exercise.title} · *{exercise.difficulty}, {minutes}* · "


def stub(exercise: Exercise) -> str:
    """What the student completes, and the line that checks it."""
    if callable(exercise.stub):
        name = exercise.stub.__name__
        return f'{source_of(exercise.stub).rstrip()}\n\n\ncheck("{exercise.id}", {name})'
    return f'answer = {exercise.stub!r}\n\ncheck("{exercise.id}", answer)'


def only_imports(source: str) -> bool:
    imports = ast.Import | ast.ImportFrom
    return all(isinstance(statement, imports) for statement in ast.parse(source).body)
