"""Bring the notebooks up to date with their text: what ``make notebooks`` runs.

The text in notebooks/src is what is written and reviewed; notebooks/NN_name.ipynb is made from
src/NN_name.py by running it: the student's page, without the lecturer's notes. It is written when
every cell has run without an error, and never in part. Without arguments: the notebooks that differ
from their text or were never run; where only prose, slide types or tags differ, nothing is run and
the outputs stay.
"""

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbformat import NotebookNode

from d2l_attention.system.files import write_whole
from notebooks.publish.course import NOTEBOOKS, chosen, notebook_of
from notebooks.publish.kernel import run_cells
from notebooks.publish.page import add_alt, students_page
from notebooks.publish.pictures import shrink
from notebooks.publish.text import METADATA


def read_stored(path: Path) -> NotebookNode | None:
    """The notebook as it is, unless it is not there or damaged: then it is to be made anew."""
    try:
        stored = nbformat.read(path, as_version=4)
        nbformat.validate(stored)
    except Exception:  # nbformat has no common ancestor for what it raises
        return None
    return stored


def is_current(notebook: NotebookNode, path: Path) -> bool:
    """Whether the file at ``path`` has the cells of ``notebook``, and all of them were run."""
    stored = read_stored(path)
    if stored is None:
        return False
    was_run = all(cell.execution_count for cell in stored.cells if cell.cell_type == "code")
    return was_run and cells_of(stored) == cells_of(notebook)


def keep_outputs(notebook: NotebookNode, path: Path) -> bool:
    """Give ``notebook`` the outputs of the file at ``path``, if that ran the same code."""
    stored = read_stored(path)
    if stored is None:
        return False
    if code_of(stored) != code_of(notebook):
        return False
    old, new = (
        [cell for cell in book.cells if cell.cell_type == "code"] for book in (stored, notebook)
    )
    if not all(cell.execution_count for cell in old):
        return False
    for kept, cell in zip(old, new, strict=True):
        cell.outputs, cell.execution_count = kept.outputs, kept.execution_count
    if "widgets" in stored.metadata:
        notebook.metadata.widgets = stored.metadata.widgets
    return True


def code_of(notebook: NotebookNode) -> list[str]:
    """What decides the outputs."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def cells_of(notebook: NotebookNode) -> list[tuple]:
    return [(cell.id, cell.cell_type, cell.source, cell.metadata) for cell in notebook.cells]


def write(notebook: NotebookNode, path: Path) -> None:
    add_alt(notebook)
    shrink(notebook)
    write_whole(path, nbformat.writes(notebook) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", metavar="NN", help="these chapters")
    parser.add_argument("--force", action="store_true", help="also what is up to date")
    arguments = parser.parse_args()
    failed, current = [], 0
    for text in chosen(arguments.numbers):
        path, notebook = notebook_of(text), students_page(text)
        if not arguments.force and is_current(notebook, path):
            current += 1
            continue
        if not arguments.force and keep_outputs(notebook, path):
            write(notebook, path)
            print(f"{text.stem}: the same code, so the outputs stay", flush=True)
            continue
        start = time.monotonic()
        try:
            run_cells(notebook, NOTEBOOKS)
        except (CellExecutionError, CellTimeoutError) as error:
            failed.append(text.stem)
            print(f"{text.stem}: stays as it was, because a cell failed.\n{error}", flush=True)
        except BaseException as error:  # nbclient turns Ctrl-C into many kinds of exception
            sys.exit(f"{text.stem}: stays as it was, not run to its end ({type(error).__name__}).")
        else:
            notebook.metadata.update(METADATA)  # the kernel has put its version there
            write(notebook, path)
            print(f"{text.stem}: {time.monotonic() - start:.1f} s", flush=True)
    if current:
        print(f"{current} up to date already.")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
