"""Sphinx extension: what builds on what, as a picture of chapters and a table of sections."""

import itertools

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from notebooks.publish.course import texts
from notebooks.publish.needs import direct, needs, needs_of_chapters

WIDE, HIGH, ACROSS, DOWN = 96, 34, 40, 22  # a box, and the room between two


class NeedsMap(SphinxDirective):
    def run(self):
        picture = nodes.raw("", picture_of(needs_of_chapters()), format="html")
        return [picture, *self.parse_text_to_nodes("\n".join(table()))]


def picture_of(needed):
    """Boxes from left to right, each right of all that it needs; an arrow for each direct need."""
    arrows = direct(needed)
    columns = {}
    for chapter in sorted(needed):
        columns[chapter] = 1 + max((columns[each] for each in arrows[chapter]), default=-1)
    # A row stays free until the last arrow that leaves a box in it has arrived.
    rows, taken = {}, set()
    for chapter in sorted(needed):
        ends = [columns[each] for each, others in arrows.items() if chapter in others]
        span = range(columns[chapter], max(ends, default=columns[chapter] + 1))
        rows[chapter] = next(
            row for row in itertools.count() if not any((row, column) in taken for column in span)
        )
        taken |= {(rows[chapter], column) for column in span}
    places = {
        chapter: (columns[chapter] * (WIDE + ACROSS) + 4, rows[chapter] * (HIGH + DOWN) + 4)
        for chapter in needed
    }
    width = (1 + max(columns.values())) * (WIDE + ACROSS)
    height = (1 + max(rows.values())) * (HIGH + DOWN)
    words = [
        f"chapter {int(chapter)} needs {' and '.join(str(int(each)) for each in others)}"
        for chapter, others in arrows.items()
        if others
    ]
    parts = [
        f'<svg class="needs-map" role="group" viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px; width: 100%" aria-label="{"; ".join(words)}">',
        '<defs><marker id="needs-tip" markerWidth="8" markerHeight="8" refX="7" refY="4" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker></defs>',
    ]
    for chapter, others in arrows.items():
        x, y = places[chapter]
        for each in others:
            left, top = places[each]
            start, end = (left + WIDE, top + HIGH / 2), (x - 2, y + HIGH / 2)
            bend, middle = x - ACROSS, x - ACROSS / 2  # straight on, past the boxes between
            parts.append(
                f'<path d="M{start[0]},{start[1]} H{bend} C{middle},{start[1]} {middle},{end[1]} '
                f'{end[0]},{end[1]}" fill="none" stroke="currentColor" opacity="0.6" '
                'marker-end="url(#needs-tip)"/>'
            )
    stems = {text.stem[:2]: text.stem for text in texts()}
    for chapter, (x, y) in places.items():
        parts.append(
            f'<a href="{stems[chapter]}.html"><rect x="{x}" y="{y}" width="{WIDE}" '
            f'height="{HIGH}" rx="4" fill="none" stroke="currentColor"/>'
            f'<text x="{x + WIDE / 2}" y="{y + 22}" text-anchor="middle" fill="currentColor" '
            f'font-size="14">Chapter {int(chapter)}</text></a>'
        )
    return "\n".join([*parts, "</svg>"])


def table():
    """The sections that need something of other chapters, as a table in Markdown."""
    stems = {text.stem[:2]: text.stem for text in texts()}

    def link(section):
        return f"[{section[:2]}](../../{stems[section[:2]]}.ipynb) *{section[3:]}*"

    lines = ["| section | needs of other chapters |", "|---|---|"]
    for section, needed in needs().items():
        others = [link(each) for each in needed if each[:2] != section[:2]]
        lines += [f"| {link(section)} | {'; '.join(others)} |"] if others else []
    return lines


def setup(app):
    app.add_directive("needs-map", NeedsMap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
