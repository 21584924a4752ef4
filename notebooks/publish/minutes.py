"""``python -m notebooks.publish.minutes``: how long each chapter takes, and who says otherwise.

With ``--write``, texts, README and pages announce what the clock says; ``make notebooks`` is next.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from nbformat import NotebookNode

from d2l_attention.exercises.engine.registry import load_chapter
from notebooks.publish.cells import is_description
from notebooks.publish.clock import (
    lines_of,
    minutes,
    minutes_of_sections,
    parts_of,
    predictions_of,
    rounded,
    words_of,
)
from notebooks.publish.course import ROOT, texts
from notebooks.publish.text import read_text

README = ROOT / "README.md"
INSTRUCTORS = ROOT / "notebooks" / "publish" / "site" / "instructors.md"
PARTS = ("Core path", "Going further", "Exercises")
CHAPTER, SECTION = 5, 2  # how many minutes an announcement may differ from the clock


@dataclass
class Chapter:
    """A chapter's text and its minutes."""

    path: Path
    notebook: NotebookNode
    exercises: dict[str, int]  # by id

    @property
    def number(self) -> int:
        return int(self.path.stem[:2])

    @property
    def minutes(self) -> list[float]:
        """Of the core path, of Going further, of all exercises."""
        read = [minutes(self.notebook, part) for part in ("core", "further")]
        return [*read, float(sum(self.exercises.values()))]

    @property
    def announced(self) -> list[int]:
        core, further, exercises = self.minutes
        return [rounded(core), rounded(further), round(exercises)]


@dataclass
class Announced:
    """A number that a file announces, and the one that the clock says."""

    path: Path
    what: str
    match: re.Match[str]
    group: int  # of the match: a number, perhaps with 'minutes' behind it
    true: float
    right: int  # the true number as it is announced
    within: int = CHAPTER

    @property
    def said(self) -> int:
        return int(self.match[self.group].split()[0])

    @property
    def is_right(self) -> bool:
        return abs(self.said - self.true) <= self.within

    def __str__(self) -> str:
        line = self.match.string.count("\n", 0, self.match.start(self.group)) + 1
        return f"{self.path}:{line}: {self.what}: {self.said} should be {self.right}"


def read_chapter(path: Path) -> Chapter:
    found = load_chapter(int(path.stem[:2])).exercises
    return Chapter(path, read_text(path), {each.id: each.minutes for each in found})


def in_chapter(chapter: Chapter) -> Iterator[Announced]:
    """The numbers of minutes that a chapter's text announces.

    Errors: ``ValueError`` where the first cell or a section of Going further lacks one.
    """
    path, text = chapter.path, chapter.path.read_text("utf-8")
    for name, true, right in zip(PARTS, chapter.minutes, chapter.announced, strict=True):
        if true > 1:  # chapter 0 has no Going further, and one exercise, of a minute
            yield Announced(path, name, _find(path, text, rf"{name}: (\d+)"), 1, true, right)
    for section, true in minutes_of_sections(chapter.notebook).items():
        title, right = re.escape(section), max(1, round(true))
        match = _find(path, text, rf"^# ### {title}\n#\n# \*(\d+ minutes?)")
        yield Announced(path, section, match, 1, true, right, SECTION)
        for match in re.finditer(rf"^# - \*{title}\*, (\d+ minutes?)", text, re.MULTILINE):
            yield Announced(path, section, match, 1, true, right, SECTION)


def in_readme(chapters: list[Chapter]) -> Iterator[Announced]:
    """The rows of the table of chapters, and how long an exercise takes."""
    text = README.read_text("utf-8")
    for each in chapters:
        link = re.escape(f"](notebooks/{each.path.stem}.ipynb)")
        row = _find(README, text, rf"^\| \[.+{link} .+\| (\d+) \+ (\d+) \+ (\d+) \|")
        numbers = zip(PARTS, each.minutes, each.announced, strict=True)
        for group, (name, true, right) in enumerate(numbers, start=1):
            yield Announced(README, f"{name} of {each.number:02d}", row, group, true, right)
    exercises = [own for each in chapters[1:] for own in each.exercises.values()]
    match = _find(README, text, r"exercises, from (\d+) to (\d+)\s+minutes")
    for group, own in ((1, min(exercises)), (2, max(exercises))):
        yield Announced(README, "exercises, from ... to", match, group, own, own, 0)


def in_map(chapters: list[Chapter]) -> Iterator[Announced]:
    """What chapter 0 says of all others."""
    path, cores = chapters[0].path, [each.minutes[0] for each in chapters[1:]]
    sentence = r"takes about (\d+)\s+minutes in most chapters, and at most (\d+)"
    match = _find(path, path.read_text("utf-8"), sentence)
    for group, true in ((1, median(cores)), (2, max(cores))):
        yield Announced(path, "the core path of most, of all", match, group, true, rounded(true))


def for_instructors(chapters: list[Chapter]) -> Iterator[Announced]:
    """The hours of all exercises, and the homework."""
    text = INSTRUCTORS.read_text("utf-8")
    exercises = {id: own for each in chapters for id, own in each.exercises.items()}
    hours = sum(exercises.values()) / 60
    match = _find(INSTRUCTORS, text, r"all exercises together take some (\d+) hours")
    yield Announced(INSTRUCTORS, "hours of exercises", match, 1, hours, round(hours), 1)
    for match in re.finditer(r"Homework: ([^|]+), (\d+ minutes)", text):
        true = sum(exercises[id] for id in re.findall(r"\d+\.\d+", match[1]))
        yield Announced(INSTRUCTORS, "the homework", match, 2, true, rounded(true))


def announced(chapters: list[Chapter]) -> list[Announced]:
    """Every number of minutes that a file of the course announces."""
    found = [each for chapter in chapters for each in in_chapter(chapter)]
    return [*found, *in_readme(chapters), *in_map(chapters), *for_instructors(chapters)]


def _find(path: Path, text: str, sentence: str) -> re.Match[str]:
    match = re.search(sentence, text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{path} lacks a sentence that the clock fills in: {sentence!r}")
    return match


def write(numbers: list[Announced]) -> None:
    """Put the right numbers into the files. Each file is as it was when it was read."""
    # From the end, so that what is before stays where it is.
    for each in sorted(numbers, key=lambda each: each.match.start(each.group), reverse=True):
        text, (start, end) = each.path.read_text("utf-8"), each.match.span(each.group)
        unit = " minute" + "s" * (each.right != 1) if "minute" in text[start:end] else ""
        text = f"{text[:start]}{each.right}{unit}{text[end:]}"
        each.path.write_text(text, "utf-8", newline="\n")


def table(chapters: list[Chapter]) -> Iterator[str]:
    """Minutes of each chapter, and what its core path is made of."""
    columns = ("core", "further", "exercises", "words", "lines", "guesses", "figures")
    yield f"{'chapter':32}" + "".join(f"{name:>10}" for name in columns)
    for chapter in chapters:
        parts = parts_of(chapter.notebook)
        core = [each.cell for each in parts if each.part == "core" and each.minutes]
        prose = [c for c in core if c.cell_type == "markdown" and not is_description(c)]
        counts = [
            sum(words_of(cell.source) for cell in prose),
            sum(lines_of(cell.source) for cell in core if cell.cell_type == "code"),
            sum(map(predictions_of, prose)),
            sum(map(is_description, core)),
        ]
        row = [*chapter.minutes, *counts]
        yield f"{chapter.path.stem:32}" + "".join(f"{value:10.0f}" for value in row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the right numbers into the files")
    arguments = parser.parse_args()
    chapters = [read_chapter(path) for path in texts()]
    print(*table(chapters), sep="\n")
    numbers = announced(chapters)
    if arguments.write:
        write(numbers)
    elif wrong := [each for each in numbers if not each.is_right]:
        sys.exit("\n".join(["", *map(str, wrong), "--write puts the right numbers there."]))


if __name__ == "__main__":
    main()
