"""A table for the terminal and for the notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows of text under names of columns: aligned in a terminal, a table in a notebook."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __repr__(self) -> str:
        rows = [self.columns, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, *lines, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            inside = "".join(
                f'<{tag} style="text-align: left">{escape(cell)}</{tag}>' for cell in cells
            )
            return f"<tr>{inside}</tr>"

        body = "".join(line(row, "td") for row in self.rows)
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return (
            f'<table class="table"><caption>{escape(self.title)}</caption><thead>'
            f"{line(self.columns, 'th')}"
            f"</thead><tbody>{body}</tbody></table>{note}"
        )


def show(given: Any) -> str:
    """A value for the eye: 1,048,576 and 0.25."""
    if isinstance(given, float):
        return f"{given:,.6g}" if given < 1e6 else f"{given:,.0f}"
    return f"{given:,}" if isinstance(given, int) else str(given)
