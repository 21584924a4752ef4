"""What builds on what, by section: the file needs.toml, read and checked.

A section is a heading of the second level in the core of a chapter, written '03 Scaled dot-product
attention'; the sections below it belong to it.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from nbformat import NotebookNode

from notebooks.publish.clock import FURTHER
from notebooks.publish.course import texts
from notebooks.publish.text import read_text

FILE = Path(__file__).with_name("needs.toml")
# Sections that every chapter has, and that need what the others need.
EVERYWHERE = ("What you need", "From the outside", "Summary", "Sources", "Exercises", FURTHER)
# Sections of chapter 0 that are about the course.
ABOUT = ("The map of the course", "How these notebooks work", "A first exercise", "Your machine")
ABOUT += ("Symbols and words",)


@cache
def needs() -> dict[str, tuple[str, ...]]:
    """For each section the sections that it needs, all with their chapters' numbers."""
    with FILE.open("rb") as file:
        chapters = tomllib.load(file)
    return {
        f"{chapter} {section}": tuple(
            name if re.match(r"\d\d ", name) else f"{chapter} {name}" for name in needed
        )
        for chapter, sections in chapters.items()
        for section, needed in sections.items()
    }


def needs_of_chapters() -> dict[str, list[str]]:
    """For each chapter the chapters that its core needs, by number."""
    found: dict[str, set[str]] = {}
    for section, needed in needs().items():
        found.setdefault(section[:2], set()).update(name[:2] for name in needed)
    return {chapter: sorted(others - {chapter}) for chapter, others in found.items()}


def direct(needed: dict[str, list[str]]) -> dict[str, list[str]]:
    """Without the chapters that a needed chapter needs itself."""
    reach: dict[str, set[str]] = {}
    for chapter in sorted(needed):
        reach[chapter] = set(needed[chapter]).union(*(reach[each] for each in needed[chapter]))
    return {
        chapter: [each for each in others if not any(each in reach[other] for other in others)]
        for chapter, others in needed.items()
    }


def headings_of(notebook: NotebookNode) -> list[tuple[int, str, int]]:
    """Each heading of a chapter: its level, its words, and the number of its cell."""
    return [
        (len(marks), words.strip(), number)
        for number, cell in enumerate(notebook.cells)
        if cell.cell_type == "markdown"
        for marks, words in re.findall(r"^(##+) (.+)$", cell.source, re.MULTILINE)
    ]


def sections_of(notebook: NotebookNode) -> dict[str, str]:
    """For each heading of the core the section that it belongs to; both without a number."""
    found, section = {}, ""
    for level, words, _ in headings_of(notebook):
        if words in (FURTHER, "Exercises"):
            break
        section = words if level == 2 else section
        found[words] = section
    return found


def all_sections() -> list[str]:
    """The sections of all chapters' cores that can need something, in the order of the course."""
    return [
        f"{text.stem[:2]} {section}"
        for text in texts()
        for section in dict.fromkeys(sections_of(read_text(text)).values())
        if section not in (*EVERYWHERE, *ABOUT)
    ]
