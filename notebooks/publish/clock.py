"""How long a student needs for a chapter, counted from its text.

Words at 100 a minute, code at four lines a minute, two minutes a prediction, one a figure: so ten
chapters came out as their readers said. A small guide, which a dozen words describe, is a glance. A
folded cell's code takes no time, nor do the lecturer's notes. The text of an exercise counts where
it stands; to solve it takes the exercise's own minutes.
"""

import re
from dataclasses import dataclass
from itertools import accumulate

from nbformat import NotebookNode

from notebooks.publish.cells import is_description, is_folded, is_note

WORDS_A_MINUTE, LINES_A_MINUTE = 100, 4
A_PREDICTION, A_FIGURE, A_GLANCE = 2, 1, 0.2
WORDS_OF_A_GUIDE = 12
FURTHER, EXERCISES = "Going further", "Exercises"
NOT_READ = ("Symbols and words", "Sources")
CHECK = re.compile(r"^check\(\"\d+\.\d+\"", re.MULTILINE)


@dataclass
class TimedCell:
    """A cell with the part of the chapter that it belongs to: core, further, or neither."""

    cell: NotebookNode
    part: str
    heading: str  # of the section, which is of the second or third level
    minutes: float


def parts_of(notebook: NotebookNode) -> list[TimedCell]:
    """Each cell with its part and its minutes, from the headings above it."""
    parts, part, within, heading = [], "core", "core", ""
    for cell in notebook.cells:
        prose = cell.source if cell.cell_type == "markdown" else ""
        for heading in re.findall(r"^###? (.+?) *$", prose, re.MULTILINE):
            within = "further" if heading == FURTHER else within
            part = "neither" if heading in NOT_READ else within
        solved = heading == EXERCISES and cell.cell_type == "code"
        parts.append(TimedCell(cell, part, heading, 0.0 if solved else minutes_of(cell)))
    return parts


def minutes_of(cell: NotebookNode) -> float:
    """The minutes that a student needs for one cell."""
    if is_note(cell):
        return 0.0
    if is_description(cell):
        return A_FIGURE if words_of(cell.source) > WORDS_OF_A_GUIDE else A_GLANCE
    if cell.cell_type == "markdown":
        return words_of(cell.source) / WORDS_A_MINUTE + A_PREDICTION * predictions_of(cell)
    solved = CHECK.search(cell.source)
    return 0.0 if is_folded(cell) or solved else lines_of(cell.source) / LINES_A_MINUTE


def predictions_of(cell: NotebookNode) -> int:
    return cell.source.count("**Predict")


def words_of(text: str) -> int:
    """Words of prose; a formula counts as one."""
    text = re.sub(r"\$\$.+?\$\$|\$[^$]+\$", " formula ", text, flags=re.DOTALL)
    return len(re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text))


def lines_of(code: str) -> int:
    """Lines that are read: neither empty nor a bracket only."""
    return sum(bool(re.search(r"\w", line)) for line in code.splitlines())


def minutes(notebook: NotebookNode) -> float:
    """The minutes of the core path."""
    return sum(each.minutes for each in parts_of(notebook) if each.part == "core")


def minutes_of_sections(notebook: NotebookNode) -> dict[str, float]:
    """The minutes of each section of Going further, by its heading; exercises are no section."""
    sections: dict[str, float] = {}
    for each in parts_of(notebook):
        if each.part == "further" and each.heading not in (FURTHER, EXERCISES):
            sections[each.heading] = sections.get(each.heading, 0.0) + each.minutes
    return sections


def rounded(value: float) -> int:
    """To five minutes, as it is announced."""
    return 5 * round(value / 5)


def minutes_left(notebook: NotebookNode) -> dict[str, str]:
    """What sections of the core path say below their heading, by the id of the heading's cell.

    A range, as at the chapter's top, wherever another quarter of the core is read. Exercises say
    nothing, because they take longer than their text.
    """
    core = [each for each in parts_of(notebook) if each.part == "core"]
    spent = [0.0, *accumulate(each.minutes for each in core)]
    said, last = {}, spent[-1]
    for each, before in zip(core, spent, strict=False):
        left = spent[-1] - before
        begins = each.cell.cell_type == "markdown" and each.cell.source.startswith("## ")
        if begins and each.heading != EXERCISES and last - left >= spent[-1] / 4:
            least = max(5, rounded(left))
            most = max(least + 5, rounded(1.5 * left))
            said[each.cell.id] = f"About {least} to {most} minutes left."
            last = left
    return said
