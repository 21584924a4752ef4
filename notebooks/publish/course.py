"""Where the course is: its folder, the texts of its chapters, the notebooks that they make."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
TEXTS = NOTEBOOKS / "src"


def is_chapter(notebook: Path) -> bool:
    """Whether a notebook has the name of a chapter: no copy of one has, and no Untitled."""
    return re.fullmatch(r"\d\d_\w+\.ipynb", notebook.name) is not None


def texts() -> list[Path]:
    """The chapters' texts, in the order of the chapters."""
    return sorted(TEXTS.glob("[0-9][0-9]_*.py"))


def notebook_of(text: Path) -> Path:
    """The notebook that students open, made of this text."""
    return text.parents[1] / f"{text.stem}.ipynb"


def text_of(notebook: Path) -> Path:
    """The text that this notebook is made of."""
    return notebook.parent / "src" / f"{notebook.stem}.py"


def chosen(numbers: list[str]) -> list[Path]:
    """The texts of the chapters with these numbers, as a command line gives them; all for none.

    Ends the program where a chapter does not exist.
    """
    by_number = {text.stem[:2]: text for text in texts()}
    for number in numbers:
        if number not in by_number:
            sys.exit(f"No chapter {number} in {TEXTS}: give its number, for example 03.")
    return [by_number[number] for number in numbers or by_number]
