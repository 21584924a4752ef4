"""One deck from a plan: the sections of several chapters that one lecture takes.

A plan is a small TOML file:

    title = "Attention in 90 minutes"
    minutes = 90

    [[part]]
    chapter = "03"
    headings = ["How large is a dot product?", "Why the variance is $d$"]

A heading brings its own slides, up to the next heading of any level. Where a section builds on one
of another chapter that no part before it has, the chapter's 'What you need' comes first, as a
bridge. ``lectures/`` has the plans that come with the course.
"""

import codecs
import copy
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from notebooks.publish.course import notebook_of, texts
from notebooks.publish.needs import headings_of, needs, sections_of
from notebooks.publish.slides.deck import deck, read
from notebooks.publish.slides.errors import SlidesError
from notebooks.publish.slides.frames import frames_of
from notebooks.publish.slides.plan import heading_of, minutes_of_note, notes_of
from notebooks.publish.slides.structure import NEW_COLUMN, columns_of
from notebooks.publish.slides.views import STATE_MIME, states_of

SHIPPED = Path(__file__).with_name("lectures")
BRIDGE = "What you need"
UTF_16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE  # how PowerShell's older version writes
SPEAKING = 36 / 45  # of an hour's minutes; the rest is the room's questions
# What a plan says under each name: its type, and how it is written.
FORM = {
    "title": (str, 'title = "Scores and masks" above the parts'),
    "minutes": (int | float, "minutes = 45 above the parts"),
    "part": (list, "[[part]], in double brackets, and below it a chapter and its headings"),
    "chapter": (str | int, 'chapter = "03" below [[part]]'),
    "headings": (list, 'headings = ["Why the variance is $d$"] below the chapter'),
}


@dataclass
class Excerpt:
    """What a lecture takes of one chapter."""

    chapter: str
    headings: list[str]


@dataclass
class Lecture:
    """A plan that was read, with what there is to say of it."""

    name: str
    title: str
    minutes: float
    parts: list[Excerpt]
    remarks: list[str] = field(default_factory=list)


def read_plan(path: str | Path) -> Lecture:
    """The plan in a file, or the one of this name that comes with the course.

    Errors: ``SlidesError`` that says what is missing or unknown.
    """
    path = Path(path)
    if not path.suffix:
        path = SHIPPED / f"{path}.toml"
    try:
        content = path.read_bytes()
        encoding = "utf-16" if content.startswith(UTF_16) else "utf-8-sig"
        plan = tomllib.loads(content.decode(encoding))
    except FileNotFoundError:
        there = ", ".join(sorted(shipped.stem for shipped in SHIPPED.glob("*.toml")))
        raise SlidesError(f"there is no plan {path}; the course has {there}") from None
    except (OSError, UnicodeError) as error:
        raise SlidesError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SlidesError(
            f'{path} cannot be read: {error}. Texts stand in quotes, and so does chapter = "03"'
        ) from error
    title, minutes = said(plan, "title", path), said(plan, "minutes", path)
    parts = [
        Excerpt(f"{said(part, 'chapter', path)}".zfill(2), said(part, "headings", path))
        for part in said(plan, "part", path)
    ]
    return Lecture(path.stem, title, minutes, parts)


def said(table: dict[str, Any], name: str, path: Path) -> Any:
    """What a plan says under a name. Errors: ``SlidesError`` that says what to write."""
    kind, example = FORM[name]
    found = table.get(name)
    items, within = found if isinstance(found, list) else [], dict if name == "part" else str
    filled = found not in ("", []) and all(isinstance(each, within) for each in items)
    if filled and isinstance(found, kind):
        return found
    raise SlidesError(f"{path} has no {name} that can be read: write {example}")


def chapters_of(plan: Lecture) -> dict[str, Path]:
    """The notebooks that a plan takes from, by number."""
    by_number = {text.stem[:2]: notebook_of(text) for text in texts()}
    for part in plan.parts:
        if part.chapter not in by_number:
            raise SlidesError(
                f"{plan.name}: there is no chapter {part.chapter!r}; there are {min(by_number)} to "
                f"{max(by_number)}"
            )
    return {part.chapter: by_number[part.chapter] for part in plan.parts}


def notebook_of_plan(plan: Lecture, chapters: dict[str, NotebookNode]) -> NotebookNode:
    """The cells that the plan takes, in its order; the plan's remarks are filled in."""
    cells: list[NotebookNode] = []
    program, minute = [], 0.0
    told: set[str] = set()  # sections that the room has seen
    for part in plan.parts:
        chapter = chapters[part.chapter]
        sections = sections_of(chapter)
        unknown = [heading for heading in part.headings if heading not in sections]
        if unknown:
            raise SlidesError(
                f"{plan.name}: chapter {part.chapter} has no heading {unknown[0]!r} in its "
                f"core, and a plan takes headings of the core only: {', '.join(sections)}"
            )
        own = {f"{part.chapter} {sections[heading]}" for heading in part.headings}
        headings = part.headings
        if missing := sorted(missing_needs(own, told)):
            plan.remarks += [f"{section} needs {needed}" for section, needed in missing]
            if any(needed[:2] != part.chapter for _, needed in missing) and BRIDGE in sections:
                headings = [BRIDGE, *[each for each in headings if each != BRIDGE]]
                plan.remarks.append(f"    so '{BRIDGE}' of chapter {part.chapter} is put in")
        told |= own
        taken = cells_under(chapter, part.chapter, headings)
        program.append(f"- minute {minute:.0f}: {headings_title(chapter)}")
        minute += spoken_minutes(taken) / SPEAKING
        cells += taken
    states = {}
    for chapter in chapters.values():
        states |= states_of(chapter)
    whole = new_notebook(cells=[title_cell(plan, program), *cells])
    whole.metadata["widgets"] = {STATE_MIME: {"state": states}}
    return whole


def missing_needs(sections: set[str], told: set[str]) -> Iterator[tuple[str, str]]:
    """What these sections need, and neither they nor the ones told before give."""
    for section in sections:
        for needed in needs().get(section, ()):
            if needed not in told | sections:
                yield section, needed


def cells_under(chapter: NotebookNode, number: str, headings: list[str]) -> list[NotebookNode]:
    """The cells of each heading, up to the next one; the first begins a column of slides."""
    title = headings_title(chapter)
    starts = headings_of(chapter)
    ends = [*(cell for _, _, cell in starts[1:]), len(chapter.cells)]
    places = {words: (cell, end) for (_, words, cell), end in zip(starts, ends, strict=True)}
    taken = []
    for heading in headings:
        start, end = places[heading]
        for cell in chapter.cells[start : max(end, start + 1)]:
            cell = copy.deepcopy(cell)
            cell.metadata["chapter"] = title
            cell.id = f"{number}-{cell.id}"
            taken.append(cell)
    taken[0].metadata["slideshow"] = {"slide_type": NEW_COLUMN}
    return taken


def headings_title(chapter: NotebookNode) -> str:
    return chapter.cells[0].source.partition("\n")[0].lstrip("# ")


def title_cell(plan: Lecture, program: list[str]) -> NotebookNode:
    text = "\n".join([f"# {plan.title}", "", f"{plan.minutes:g} minutes", "", *program])
    cell = new_markdown_cell(text, id="title")
    cell.metadata["slideshow"] = {"slide_type": NEW_COLUMN}
    return cell


def spoken_minutes(cells: list[NotebookNode]) -> float:
    """What the notes of the slides say, in sum; a slide whose note says nothing counts as one."""
    return sum(minutes_of_headings(cells).values())


def minutes_of_headings(cells: list[NotebookNode]) -> dict[str, float]:
    """The same for each heading, by chapter and words."""
    found, heading = Counter(), ""
    for column in columns_of(new_notebook(cells=cells)):
        for slide in column:
            if words := heading_of(slide):
                heading = f"{slide.cells[0].id[:2]} {words}"
            found[heading] += minutes_of_note(notes_of(slide)) or 1
    return found


def export_plan(plan: Lecture, out: Path) -> tuple[str, int]:
    """The deck's HTML and its slides. ``out``: where frames of earlier decks are kept."""
    chapters, frames = {}, {}
    for number, path in chapters_of(plan).items():
        chapters[number] = read(path)
        memory = out / ".frames" / f"{path.stem}.json"
        own = frames_of(chapters[number], path.parent, memory)
        frames |= {f"{number}-{key}": frame for key, frame in own.items()}
    notebook = notebook_of_plan(plan, chapters)
    spoken, room = minutes_of_headings(notebook.cells[1:]), SPEAKING * plan.minutes
    plan.remarks[:0] = [
        f"{sum(spoken.values()):g} minutes of notes, room for {room:g}",
        *(f"    {minutes:g}: {heading}" for heading, minutes in spoken.items()),
    ]
    used = {
        f"{cell.id}-{i}" for cell in notebook.cells for i in range(len(cell.get("outputs", [])))
    }
    return deck(notebook, plan.name, {key: frames[key] for key in frames.keys() & used})
