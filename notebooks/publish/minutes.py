"""How long a chapter takes: ``python -m notebooks.publish.minutes`` prints it for each.

Words at 150 a minute, code at six lines a minute, a minute for each figure and each prediction.
Folded cells and the lecturer's notes take no time; the exercises say their own, wherever they are.
"""

import re
from dataclasses import dataclass
from itertools import accumulate

from nbformat import NotebookNode

from notebooks.publish.cells import is_description, is_folded, is_note
from notebooks.publish.course import texts
from notebooks.publish.text import read_text

WORDS_A_MINUTE, LINES_A_MINUTE = 150, 6
FURTHER = "Going further"
NOT_READ = ("Exercises", "Symbols and words", "Sources")
EXERCISE = re.compile(r"^\*\*\d+\.\d+\*\* |^check\(\"\d+\.\d+\"", re.MULTILINE)


@dataclass
class Part:
    """A cell with the part of the chapter that it belongs to: core, further, or neither."""

    cell: NotebookNode
    part: str


def parts_of(notebook: NotebookNode) -> list[Part]:
    """Each cell with its part, from the headings above it."""
    parts, part, within = [], "core", "core"
    for cell in notebook.cells:
        found = re.match(r"(##+) (.+)", cell.source) if cell.cell_type == "markdown" else None
        if found and found[2].strip() == FURTHER:
            within = "further"
        if found:
            part = "neither" if found[2].strip() in NOT_READ else within
        parts.append(Part(cell, part))
    return parts


def minutes_of(cell: NotebookNode) -> float:
    """The minutes that a student needs for one cell."""
    if is_note(cell) or is_folded(cell) or EXERCISE.search(cell.source):
        return 0.0
    if is_description(cell):
        return 1.0
    if cell.cell_type == "markdown":
        predictions = cell.source.count("**Predict")
        return words_of(cell.source) / WORDS_A_MINUTE + predictions
    return lines_of(cell.source) / LINES_A_MINUTE


def words_of(text: str) -> int:
    """Words of prose; a formula counts as one."""
    text = re.sub(r"\$\$.+?\$\$|\$[^$]+\$", " formula ", text, flags=re.DOTALL)
    return len(re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text))


def lines_of(code: str) -> int:
    """Lines that are read: neither empty nor a bracket only."""
    return sum(bool(re.search(r"\w", line)) for line in code.splitlines())


def minutes(notebook: NotebookNode, part: str = "core") -> float:
    return sum(minutes_of(each.cell) for each in parts_of(notebook) if each.part == part)


def rounded(value: float) -> int:
    """To five minutes, as it is announced."""
    return 5 * round(value / 5)


def minutes_left(notebook: NotebookNode) -> dict[str, str]:
    """What sections of the core path say below their heading, by the id of the heading's cell.

    In steps of five minutes; a section that begins in the same five minutes says nothing.
    """
    core = [each.cell for each in parts_of(notebook) if each.part == "core"]
    spent = [0.0, *accumulate(map(minutes_of, core))]
    said, last = {}, None
    for cell, before in zip(core, spent, strict=False):
        left = max(5, rounded(spent[-1] - before))
        if cell.cell_type == "markdown" and cell.source.startswith("## ") and left != last:
            said[cell.id] = f"About {left} minutes left."
            last = left
    return said


def main() -> None:
    print(f"{'chapter':36} {'core':>5} {'further':>8} {'words':>6} {'lines':>6} {'guesses':>8}")
    for text in texts():
        notebook = read_text(text)
        core = [each.cell for each in parts_of(notebook) if each.part == "core"]
        read = [cell for cell in core if minutes_of(cell) > 0]
        prose = [c for c in read if c.cell_type == "markdown" and not is_description(c)]
        code = [cell for cell in read if cell.cell_type == "code"]
        print(
            f"{text.stem:36} {minutes(notebook):5.0f} {minutes(notebook, 'further'):8.0f}"
            f" {sum(words_of(cell.source) for cell in prose):6}"
            f" {sum(lines_of(cell.source) for cell in code):6}"
            f" {sum(cell.source.count('**Predict') for cell in prose):8}"
        )


if __name__ == "__main__":
    main()
