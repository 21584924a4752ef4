"""What the student sees: rich in a notebook, plain text everywhere else.

Everything that may hold a student's own words is escaped. Colours are JupyterLab's, so that
light and dark themes both read well; elsewhere the fallbacks behind them hold.
"""

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from d2l_attention.exercises.engine.examine import Verdict
from d2l_attention.exercises.engine.registry import Chapter
from d2l_attention.exercises.exercise import Exercise

EDGE = {
    "solved": "var(--jp-success-color1, #388e3c)",
    "not yet": "var(--jp-warn-color1, #f57c00)",
    "not attempted": "var(--jp-border-color1, #9e9e9e)",
    "trouble": "var(--jp-error-color1, #d32f2f)",
}
# What a class report reads besides the message. It is in the output and nobody sees it.
TOLD = "application/vnd.d2l-attention.verdict+json"
MARK = {"solved": "✓", "attempted": "…", "left": "·"}


@dataclass(frozen=True)
class Result:
    """What ``check`` returns: ``solved``, the ``message``, and a display of both."""

    title: str
    verdict: Verdict
    printed: str = ""
    note: str | None = None

    @property
    def solved(self) -> bool:
        return self.verdict.state == "solved"

    @property
    def message(self) -> str:
        return self.verdict.message

    def points(self, most: int) -> float:
        """What the answer is worth in an assignment, in quarters of a point.

        Errors: ``AssertionError`` where it is worth nothing.
        """
        got = worth(self.verdict.share, most)
        if not got:
            raise AssertionError("not solved yet, see above")
        return got

    def _repr_mimebundle_(self, **wanted: Any) -> dict[str, Any]:
        if not (self.verdict.mistake or 0 < self.verdict.share < 1):
            return {}
        return {TOLD: {"mistake": self.verdict.mistake, "share": self.verdict.share}}

    def __repr__(self) -> str:
        lines = [self.title, self.message]
        if self.printed:
            lines += ["Your code printed:", self.printed]
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        blocks = [f"<b>{rich(self.title)}</b>", rich(self.message)]
        if self.printed:
            blocks.append(f"Your code printed:<pre>{html.escape(self.printed)}</pre>")
        if self.note:
            blocks.append(f"<i>{rich(self.note)}</i>")
        inside = "".join(f'<div style="margin: 0.3em 0">{block}</div>' for block in blocks)
        edge = EDGE[self.verdict.state]
        return f'<div style="border-left: 4px solid {edge}; padding-left: 0.8em">{inside}</div>'


def worth(share: float, points: int) -> float:
    """That share of the points, in quarters of a point, never rounded up."""
    return math.floor(4 * points * share) / 4


class Page:
    """A title and a text in Markdown, which notebooks typeset."""

    def __init__(self, title: str, text: str):
        self.title, self.text = title, text

    def __repr__(self) -> str:
        return f"{self.title}\n{self.text}"

    def _repr_markdown_(self) -> str:
        return f"**{self.title}**\n\n{self.text}"


class ProgressTable:
    """Per chapter: what is solved, tried and left; and where to go on."""

    def __init__(self, chapters: Sequence[Chapter], states: Mapping[str, str], note: str | None):
        self.note = " ".join(filter(None, [where_to_go_on(chapters, states), note]))
        self.rows = [chapter_row(chapter, states) for chapter in chapters]

    def __repr__(self) -> str:
        lines = [
            f"{title:<32} {solved:2} solved  {attempted:2} attempted  {left:2} left   {marks}"
            for title, solved, attempted, left, marks in self.rows
        ]
        return "\n".join([*lines, self.note])

    def _repr_html_(self) -> str:
        head = row_of("th", ("Chapter", "Solved", "Attempted", "Left", "Exercises"))
        body = "".join(row_of("td", row) for row in self.rows)
        note = f"<p>{rich(self.note)}</p>"
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{note}"


def where_to_go_on(chapters: Sequence[Chapter], states: Mapping[str, str]) -> str:
    """The first exercise after the last solved one that is not solved itself, in a sentence."""
    exercises = [(exercise, chapter) for chapter in chapters for exercise in chapter.exercises]
    solved = [states.get(exercise.id) == "solved" for exercise, _ in exercises]
    if not exercises:
        return "No exercise can be found."
    if all(solved):
        return "All exercises are solved."
    last = max((i for i, done in enumerate(solved) if done), default=-1)
    later = solved.index(False, last + 1) if not all(solved[last + 1 :]) else solved.index(False)
    exercise, chapter = exercises[later]
    return f"Go on with exercise {exercise.id}, '{exercise.title}', in chapter {chapter.number}."


def chapter_row(chapter: Chapter, states: Mapping[str, str]) -> tuple[str, int, int, int, str]:
    found = [states.get(exercise.id, "left") for exercise in chapter.exercises]
    marks = "  ".join(
        f"{exercise.id} {MARK[state]}"
        for exercise, state in zip(chapter.exercises, found, strict=True)
    )
    counts = (found.count(state) for state in ("solved", "attempted", "left"))
    return (f"{chapter.number} · {chapter.title}", *counts, marks)


def row_of(tag: str, cells: Sequence[object]) -> str:
    inside = "".join(
        f'<{tag} style="text-align: left">{html.escape(str(cell))}</{tag}>' for cell in cells
    )
    return f"<tr>{inside}</tr>"


CODE_OR_EMPHASIS = re.compile(r"`([^`]+)`|(?<![\w*])\*(\w[^*`]*\w|\w)\*(?![\w*])")


def rich(text: str) -> str:
    """Plain text as HTML: `code` between backticks, *emphasis* between asterisks."""
    escaped = html.escape(text).replace("\n", "<br>")
    return CODE_OR_EMPHASIS.sub(
        lambda found: f"<code>{found[1]}</code>" if found[1] else f"<em>{found[2]}</em>", escaped
    )


def heading(exercise: Exercise) -> str:
    minutes = "1 minute" if exercise.minutes == 1 else f"{exercise.minutes} minutes"
    return f"{exercise.id} · {exercise.title} ({exercise.difficulty}, {minutes})"
