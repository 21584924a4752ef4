"""The lecturer's notebooks, with notes and outputs, before ``make lab LECTURE=1`` opens them.

They are made on the spot in build/lecture and delivered to lecture/ as the students' copies are to
work/: what a lecturer wrote there is never written over.
"""

import sys
from pathlib import Path

import nbformat

from d2l_attention.data.files import write_whole
from notebooks.publish.page import lecture
from notebooks.publish.student_copies import deliver

NOTEBOOKS, MADE, LECTURE = Path("notebooks"), Path("build/lecture"), Path("lecture")


def make_lectures(notebooks: Path, made: Path) -> None:
    """Write each chapter with its notes and outputs into the folder ``made``."""
    for text in sorted(notebooks.glob("src/[0-9]*.py")):
        name = f"{text.stem}.ipynb"
        page = nbformat.read(notebooks / name, as_version=4)
        write_whole(made / name, nbformat.writes(lecture(text, page)) + "\n")


if __name__ == "__main__":
    try:
        make_lectures(NOTEBOOKS, MADE)
        sentences = deliver(MADE, LECTURE, content=Path.read_bytes)
    except OSError as error:
        sys.exit(f"Cannot fill {LECTURE}/: {error}")
    print(*sentences, sep="\n", end="\n" if sentences else "")
