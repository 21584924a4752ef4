"""What the hub starts for a student: their copies are brought up to date, then their server starts.

``python -m notebooks.publish.classroom.server``, in the student's home. ``work/`` gets new chapters
and new versions as with `make lab`: nothing that a student wrote is written over. What there is to
tell about it stands in ``work/what_is_new.md``, which then opens first.
"""

import os
import sys
from pathlib import Path

from d2l_attention import __version__
from d2l_attention.system.files import write_whole
from notebooks.publish.course import NOTEBOOKS
from notebooks.publish.student_copies import deliver

NEWS = "what_is_new.md"
FIRST = "00_start_here.ipynb"


def prepare(home: Path) -> str:
    """Bring ``home/work`` up to date, and name the file there that opens first."""
    work = home / "work"
    is_new = not work.exists()
    sentences = [each.replace(f"{home}{os.sep}", "") for each in deliver(NOTEBOOKS, work)]
    if is_new or not sentences:
        return FIRST
    lines = [f"# What is new in version {__version__}", "", *(f"- {each}" for each in sentences)]
    write_whole(work / NEWS, "\n".join(lines) + "\n")
    return NEWS


def main() -> None:
    first = prepare(Path.cwd())
    command = [sys.executable, "-m", "jupyterhub.singleuser"]
    command += [f"--ServerApp.default_url=/lab/tree/work/{first}", *sys.argv[1:]]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()
