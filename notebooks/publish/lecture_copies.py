"""The lecturer's notebooks, with notes and outputs, before ``make lab LECTURE=1`` opens them.

They are made on the spot in build/lecture and delivered to lecture/ as the students' copies are to
work/: what a lecturer wrote there is never written over.
"""

import sys
from pathlib import Path

import nbformat

from d2l_attention.system.files import write_whole
from notebooks.publish.cells import is_note
from notebooks.publish.course import notebook_of, texts
from notebooks.publish.page import lecture
from notebooks.publish.student_copies import deliver

MADE, LECTURE = Path("build/lecture"), Path("lecture")
# Among the student's cells nothing else shows which are the notes.
HEADING = "**For the lecturer.**"


def lecture_copy(text: Path, page: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The lecture, with a heading over each note."""
    copy = lecture(text, page)
    for cell in filter(is_note, copy.cells):
        cell.source = f"{HEADING}\n{cell.source}"
    return copy


if __name__ == "__main__":
    try:
        for text in texts():
            page = nbformat.read(notebook_of(text), as_version=4)
            copy = nbformat.writes(lecture_copy(text, page))
            write_whole(MADE / f"{text.stem}.ipynb", f"{copy}\n")
        sentences = deliver(MADE, LECTURE, content=Path.read_bytes)
    except OSError as error:
        sys.exit(f"Cannot fill {LECTURE}/: {error}")
    print(*sentences, sep="\n", end="\n" if sentences else "")
