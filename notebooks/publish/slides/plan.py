"""How long a lecture from a deck takes: the minutes that the notes of its core slides say.

A note says them in its first words ('Two minutes, in pairs.') or, which counts more, in its last
ones ('... on the map. 1½ minutes.'). The title's note says the sum. 'Not in the plan' leaves a
slide out.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from notebooks.publish.clock import parts_of
from notebooks.publish.slides.structure import Slide, columns_of
from notebooks.publish.text import read_text

LECTURE = 36  # minutes of notes for a slot of 45: rooms ask
WORDS = {"half a": 0.5, "a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
WORDS |= {"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
NUMBER = rf"({'|'.join(WORDS)}|\d*½|\d+½?)\s+minutes?"
LAST = re.compile(rf"(?:^|[.;?!:)]\s+){NUMBER}\.?\s*$", re.IGNORECASE)
FIRST = re.compile(rf"^{NUMBER}\b", re.IGNORECASE)


@dataclass
class Plan:
    """The minutes of a deck's core slides; ``announced`` is what the title's note says."""

    minutes: float
    announced: float | None
    lectures: int
    silent: list[str]  # slides whose notes say no minutes, by heading

    def __str__(self) -> str:
        said = "no plan" if self.announced is None else f"{self.announced:g} announced"
        lines = [f"{self.minutes:g} minutes ({said}), room for {LECTURE * self.lectures}"]
        return "\n".join([*lines, *(f"    no minutes: {slide}" for slide in self.silent)])


def plan_of(text: Path) -> Plan:
    """The plan of the deck that is made of a chapter's text."""
    notebook = read_text(text)
    core = {each.cell.id for each in parts_of(notebook) if each.part == "core"}
    slides = [slide for column in columns_of(notebook) for slide in column]
    title, *rest = [slide for slide in slides if slide.cells and slide.cells[0].id in core]
    minutes, silent, heading = 0.0, [], ""
    for number, slide in enumerate(rest, start=2):
        heading = heading_of(slide) or heading
        if "Not in the plan" in notes_of(slide):
            continue
        own = minutes_of_note(notes_of(slide))
        minutes += own or 0
        if own is None:
            silent.append(f"{number} {heading}")
    about = notes_of(title)
    announced = minutes_of_note(about)
    return Plan(minutes, announced, 2 if "two lectures" in about else 1, silent)


def notes_of(slide: Slide) -> str:
    return "\n\n".join(cell.source for cell in slide.notes)


def heading_of(slide: Slide) -> str:
    found = [re.search(r"^##+ (.+)$", cell.source, re.MULTILINE) for cell in slide.cells]
    return next((match[1] for match in found if match), "")


def minutes_of_note(note: str) -> float | None:
    found = LAST.search(note) or FIRST.search(note)
    return number(found[1].lower()) if found else None


def number(text: str) -> float:
    """``'2½'``, ``'12'`` or ``'two'`` as a number."""
    if text in WORDS:
        return WORDS[text]
    return float(text.rstrip("½") or 0) + 0.5 * text.endswith("½")
