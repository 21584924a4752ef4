"""Reads a student's notebook, whatever it is; nothing in it runs here."""

import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from d2l_attention.exercises.exercise import Exercise
from d2l_attention.exercises.registry import chapter_numbers, load_chapter

LARGEST = 100_000_000  # bytes; a notebook of the course has less than a million
CHECKED = re.compile(r"""\bcheck\(\s*["'](\d+\.\d+)["']""")
REWRITTEN = re.compile(
    r"^\s*(?:def check\b|class check\b|(?:[\w.]+\.)?check\s*=[^=]|.*\bas check\b)"
    r"|setattr\(.*[\"']check[\"']",
    re.MULTILINE,
)


@dataclass
class Submission:
    """A notebook's code cells and its chapter; ``problem`` says why it cannot be run."""

    path: Path
    cells: list[NotebookNode] = field(default_factory=list)
    chapter: int | None = None
    remarks: list[str] = field(default_factory=list)
    problem: str | None = None

    @property
    def exercises(self) -> Sequence[Exercise]:
        return load_chapter(self.chapter).exercises if self.chapter is not None else ()

    def places(self) -> dict[str, int]:
        """The number of the code cell that checks an exercise, the last where there are more."""
        numbered = enumerate(self.cells, start=1)
        return {id_: n for n, cell in numbered for id_ in CHECKED.findall(cell.source)}

    def rewriting(self) -> list[int]:
        """The numbers of the code cells that give ``check`` another meaning."""
        numbered = enumerate(self.cells, start=1)
        return [number for number, cell in numbered if REWRITTEN.search(cell.source)]


def read(path: Path) -> Submission:
    """What there is to run; whatever the file is, no exception comes out."""
    submission = Submission(path, chapter=known_chapter(name_of(path)))
    try:
        take_in(upgraded(parsed(path)), submission)
    except FileNotFoundError:
        submission.problem = "there is no such file"
    except OSError as error:
        submission.problem = f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        submission.problem = "not JSON: not even text"
    except ValueError as error:
        submission.problem = str(error)
    except Exception as error:  # what else a made-up file does to the reader
        submission.problem = f"JSON, but not a notebook ({type(error).__name__})"
    if submission.chapter is None and submission.problem is None:
        submission.problem = "no exercise of the course in it"
    return submission


def parsed(path: Path) -> dict:
    """The notebook's JSON. Errors: ``OSError``; ``ValueError`` that says what it is instead."""
    size = path.stat().st_size
    if not path.is_file():
        raise ValueError("a folder without notebooks" if path.is_dir() else "not a file")
    if size == 0:
        raise ValueError("an empty file")
    if size > LARGEST:
        raise ValueError(f"too large, {size / 1e6:.0f} MB: clear its outputs")
    text = path.read_text(encoding="utf-8-sig")
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(whole, dict) or not {"cells", "worksheets"} & whole.keys():
        raise ValueError("JSON, but not a notebook")
    return whole


def upgraded(whole: dict) -> NotebookNode:
    """In today's format, without complaints about what does not matter here."""
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells without an id
        return nbformat.reads(json.dumps(whole), as_version=4)


def take_in(notebook: NotebookNode, submission: Submission) -> None:
    sources = [cell.source for cell in notebook.cells]
    if not all(isinstance(source, str) for source in sources):
        raise ValueError("JSON, but not a notebook: a cell without text")
    submission.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in submission.cells:
        cell.outputs = []
    submission.chapter = chapter_of(submission, sources) or submission.chapter
    spec = notebook.metadata.get("kernelspec") or {}
    info = notebook.metadata.get("language_info") or {}
    language = str(spec.get("language") or info.get("name") or "python")
    if language.lower() not in ("python", "ipython"):
        submission.problem = f"written for {language}, not for Python"
    elif (kernel := spec.get("name", "python3")) != "python3":
        submission.remarks.append(f"asks for the kernel {kernel!r}; run with this Python instead")


def chapter_of(submission: Submission, sources: Sequence[str]) -> int | None:
    """By the exercises that are checked, else by the title."""
    asked = Counter(id_.partition(".")[0] for id_ in submission.places())
    for number, _ in asked.most_common():
        if (chapter := known_chapter(number)) is not None:
            return chapter
    titles = [found[1] for source in sources[:1] if (found := re.match(r"# (\d+) · ", source))]
    return known_chapter(titles[0]) if titles else None


def name_of(path: Path) -> str | None:
    """The '03' of 'anna_03_scoring_functions.ipynb'."""
    found = re.search(r"(?<!\d)(\d\d)_", path.name)
    return found[1] if found else None


def known_chapter(number: str | None) -> int | None:
    return int(number) if number and int(number) in chapter_numbers() else None
