"""What a new version of a chapter changes beside a student's copy, and how to take it over.

``work/`` holds the student's copy and, beside it, a new version that the course has delivered;
``work/.delivered/`` holds the version that the copy was made from. nbdime, which knows notebooks,
compares and merges them cell by cell. What a student wrote is never written over.
"""

import argparse
import difflib
import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import nbdime
import nbformat
from nbdime.diffing.notebooks import diff_cells, set_notebook_diff_targets
from nbformat import NotebookNode

from d2l_attention.data.files import write_whole
from notebooks.publish.student_copies import DELIVERED_COPIES, offered

# Of lines that both changed, the student's stay.
STUDENT_FIRST = SimpleNamespace(
    merge_strategy="use-local",
    input_strategy="use-local",
    output_strategy="use-local",
    ignore_transients=True,
    log_level="ERROR",
)


def read(path: Path) -> NotebookNode:
    """A notebook of the current format. Raises ValueError that names a damaged file."""
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat has many of them, and a damaged file finds each
        raise ValueError(f"{path} cannot be read as a notebook: {error}") from error


def told(base: NotebookNode, new: NotebookNode) -> list[str]:
    """What is new, cell by cell, as lines of text: '-' was there, '+' is there now."""
    set_notebook_diff_targets(outputs=False, metadata=False, identifier=False, details=False)
    lines, old, now = [], base.cells, new.cells
    for change in diff_cells(old, now):
        at = change["key"]
        if change["op"] == "addrange":
            for cell in change["valuelist"]:
                lines += heading(old, at, "new cell"), *marked("+", cell.source)
        elif change["op"] == "removerange":
            for cell in old[at : at + change["length"]]:
                lines += heading(old, at, "cell taken out"), *marked("-", cell.source)
        else:
            before = old[at].source
            after = nbdime.patch(old[at], change["diff"]).source
            lines += heading(old, at, "changed"), *changed_lines(before, after)
    return lines


def heading(cells: list[NotebookNode], at: int, what: str) -> str:
    """Where a cell is: under the last heading before it."""
    for cell in reversed(cells[: at + 1]):
        first = cell.source.partition("\n")[0]
        if cell.cell_type == "markdown" and first.startswith("#"):
            return f"\n== {first.lstrip('# ')}: {what}"
    return f"\n== {what}"


def marked(mark: str, text: str) -> list[str]:
    return [f"{mark} {line}".rstrip() for line in text.splitlines()]


def changed_lines(before: str, after: str) -> list[str]:
    compared = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line.rstrip() for line in compared if line[0] in "+-"]


def merged(base: NotebookNode, mine: NotebookNode, new: NotebookNode) -> NotebookNode:
    """The student's copy with what is new in the course."""
    set_notebook_diff_targets(metadata=False, details=False)
    whole, _ = nbdime.merge_notebooks(base, mine, new, STUDENT_FIRST)
    return whole


def otherwise(base: NotebookNode, whole: NotebookNode, new: NotebookNode) -> list[int]:
    """The cells of ``new``, by number, that the course changed and that ``whole`` lacks."""
    known = {cell.source for cell in (*base.cells, *whole.cells)}
    return [i for i, cell in enumerate(new.cells) if cell.source not in known]


def find(number: str, work: Path) -> tuple[Path, Path, Path]:
    """The version that the copy was made from, the copy, and the newest one beside it.

    Raises FileNotFoundError where there is no such chapter, or nothing new.
    """
    names = [path.name for path in sorted(work.glob(f"{number}_*.ipynb")) if "." not in path.stem]
    if len(names) != 1:
        raise FileNotFoundError(f"no copy of a chapter {number} in {work}: call make lab first")
    (name,) = names
    base, mine = work / DELIVERED_COPIES / name, work / name
    news = offered(mine)
    if not news:
        raise FileNotFoundError(f"nothing new beside {mine}")
    if not base.exists():
        raise FileNotFoundError(
            f"{base} is missing, so nothing tells what you changed and what the course did. "
            f"Compare the two by eye: nbdiff-web {mine} {news[-1]}"
        )
    return base, mine, news[-1]


def take_over(base: Path, mine: Path, new: Path) -> str:
    """Put the student's work into the new version, keep the copy as it was, and say so."""
    before, mine_before, newest = read(base), read(mine), read(new)
    whole = merged(before, mine_before, newest)
    different = otherwise(before, whole, newest)
    kept = next(
        place
        for number in itertools.count(1)
        if not (place := mine.with_suffix(f".before{number if number > 1 else ''}.ipynb")).exists()
    )
    write_whole(kept, mine.read_bytes())
    write_whole(mine, nbformat.writes(whole) + "\n")
    write_whole(base, new.read_bytes())
    sentences = [f"{mine} is now the new version with your work. Your copy as it was: {kept}."]
    if not different:
        new.unlink()
        return sentences[0]
    sentences.append(f"You and the course changed the same places. Compare them with {new}:")
    sentences += [heading(newest.cells, at, f"cell {at + 1}").strip() for at in different]
    return "\n".join(sentences)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m notebooks changes", description=__doc__)
    parser.add_argument("number", metavar="NN", help="the chapter, as in 03")
    parser.add_argument("--merge", action="store_true", help="put your work into it")
    options = parser.parse_args()
    try:
        base, mine, new = find(options.number, Path("work"))
        if options.merge:
            print(take_over(base, mine, new))
        else:
            lines = told(read(base), read(new))
            print(f"New in {new}:", *lines or ["nothing that is read: outputs only"], sep="\n")
            print(f"\nPut your work into it: python -m notebooks changes {options.number} --merge")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
