"""``python -m notebooks.publish.minutes``: how long each chapter takes, and who says otherwise.

With ``--write``, texts, README and pages announce what the clock says; ``make notebooks`` is next.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from d2l_attention.exercises.engine.registry import load_chapter
from notebooks.publish.clock import minutes, minutes_of_sections, rounded
from notebooks.publish.course import ROOT, texts
from notebooks.publish.text import read_text

README = ROOT / "README.md"
INSTRUCTORS = ROOT / "notebooks" / "publish" / "site" / "instructors.md"
PARTS = ("Core path", "Going further", "Exercises")


class Number(NamedTuple):
    true: float  # as the clock says it
    right: int  # as it is announced
    within: int  # how much an announcement may differ from the clock


def in_fives(true: float) -> Number:
    return Number(true, rounded(true), 5)


def up_to(core: Number) -> Number:
    """The other end of a core path's range: fresh readers take half as long again as the clock."""
    return Number(1.5 * core.true, rounded(1.5 * core.right), 8)


def in_ones(true: float, within: int) -> Number:
    return Number(true, max(1, round(true)), within)


@dataclass
class Chapter:
    """A text, the minutes of each exercise, of each section of Going further, and of ``PARTS``."""

    path: Path
    exercises: dict[str, int]  # by id
    sections: dict[str, float]  # by heading
    parts: list[Number]


def read_chapter(path: Path) -> Chapter:
    exercises = load_chapter(int(path.stem[:2])).exercises
    own, notebook = {each.id: each.minutes for each in exercises}, read_text(path)
    sections = minutes_of_sections(notebook)
    further = sum(max(1, round(true)) for true in sections.values())  # as a reader adds them up
    parts = [in_fives(minutes(notebook)), in_fives(further), in_ones(sum(own.values()), 5)]
    return Chapter(path, own, sections, parts)


@dataclass
class Announced:
    """A number in a file's text, perhaps with 'minutes' behind it, and what it should be."""

    path: Path
    text: str
    span: tuple[int, int]
    number: Number

    @property
    def said(self) -> int:
        return int(self.text[slice(*self.span)].split()[0])

    @property
    def is_right(self) -> bool:
        return abs(self.said - self.number.true) <= self.number.within

    def __str__(self) -> str:
        line = self.text.count("\n", 0, self.span[0]) + 1
        return f"{self.path}:{line}: {self.said} should be {self.number.right}"


def found(path: Path, sentence: str, *numbers: Number, needed: bool = True) -> Iterator[Announced]:
    """Each place where a file has this sentence, a pattern with a group for each number.

    Errors: ``ValueError`` where it is ``needed`` and is not there.
    """
    text = path.read_text("utf-8")
    matches = list(re.finditer(sentence, text, re.MULTILINE))
    if needed and not matches:
        raise ValueError(f"{path} lacks a sentence that the clock fills in: {sentence!r}")
    for match in matches:
        for group, number in enumerate(numbers, start=1):
            yield Announced(path, text, match.span(group), number)


def in_chapter(chapter: Chapter) -> Iterator[Announced]:
    path, (core, *others) = chapter.path, chapter.parts
    yield from found(path, r"Core path: (\d+) to (\d+) minutes", core, up_to(core))
    for name, number in zip(PARTS[1:], others, strict=True):
        if number.true > 1:  # chapter 0 has no Going further, and one exercise, of a minute
            yield from found(path, rf"{name}: (\d+)", number)
    for section, true in chapter.sections.items():
        title, number = re.escape(section), in_ones(true, 2)
        yield from found(path, rf"^# ### {title}\n#\n# \*(\d+ minutes?)", number)
        yield from found(path, rf"^# - \*{title}\*, (\d+ minutes?)", number, needed=False)


def announced(chapters: list[Chapter]) -> Iterator[Announced]:
    """Every number of minutes that a file of the course announces."""
    for each in chapters:
        yield from in_chapter(each)
        link = re.escape(f"](notebooks/{each.path.stem}.ipynb)")
        row = rf"^\| \[.+{link} .+\| (\d+) to (\d+), (\d+), (\d+) \|"
        core, *rest = each.parts
        yield from found(README, row, core, up_to(core), *rest)
    map_of_all, others = chapters[0].path, chapters[1:]
    own = [minutes for each in others for minutes in each.exercises.values()]
    range_ = in_ones(min(own), 0), in_ones(max(own), 0)
    yield from found(README, r"exercises, from (\d+) to (\d+)\s+minutes", *range_)
    cores = [each.parts[0].true for each in others]
    ends = in_fives(min(cores)), up_to(in_fives(max(cores)))
    yield from found(map_of_all, r"core path\*\* takes (\d+) to (\d+)\s+minutes", *ends)
    yield from for_instructors({id: own for each in chapters for id, own in each.exercises.items()})


def for_instructors(exercises: dict[str, int]) -> Iterator[Announced]:
    """The hours of all exercises, and the homework."""
    hours = in_ones(sum(exercises.values()) / 60, 1)
    yield from found(INSTRUCTORS, r"all exercises together take some (\d+) hours", hours)
    text = INSTRUCTORS.read_text("utf-8")
    for match in re.finditer(r"Homework: ([^|]+), (\d+ minutes)", text):
        true = sum(exercises[id] for id in re.findall(r"\d+\.\d+", match[1]))
        yield Announced(INSTRUCTORS, text, match.span(2), in_fives(true))


def write(numbers: list[Announced]) -> None:
    """Put the right numbers into the files. Each file is as it was when it was read."""
    # From the end, so that what is before stays where it is.
    for each in sorted(numbers, key=lambda each: each.span, reverse=True):
        text, (start, end), right = each.path.read_text("utf-8"), each.span, each.number.right
        unit = " minute" + "s" * (right != 1) if "minute" in text[start:end] else ""
        each.path.write_text(f"{text[:start]}{right}{unit}{text[end:]}", "utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the right numbers into the files")
    arguments = parser.parse_args()
    chapters = [read_chapter(path) for path in texts()]
    print(f"{'chapter':32}" + "".join(f"{name:>15}" for name in PARTS))
    for chapter in chapters:
        row = "".join(f"{number.true:15.0f}" for number in chapter.parts)
        print(f"{chapter.path.stem:32}{row}")
    numbers = list(announced(chapters))
    if arguments.write:
        write(numbers)
    elif wrong := [each for each in numbers if not each.is_right]:
        sys.exit("\n".join(["", *map(str, wrong), "--write puts the right numbers there."]))


if __name__ == "__main__":
    main()
