"""One chapter's deck: reveal.js, MathJax, slides and views in a single file."""

import html
import json
import re
from importlib import metadata
from pathlib import Path

import jinja2
import nbformat
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from d2l_attention.system.files import write_whole
from d2l_attention.views import palette
from notebooks.publish.cells import is_description
from notebooks.publish.course import text_of
from notebooks.publish.page import lecture
from notebooks.publish.slides.errors import SlidesError
from notebooks.publish.slides.frames import (
    MIME,
    frames_key,
    frames_of,
    is_explore_output,
)
from notebooks.publish.slides.render import cell_html, markdown
from notebooks.publish.slides.structure import Slide, columns_of
from notebooks.publish.slides.views import alive

HERE = Path(__file__).parent
# Where the wheels keep what a deck is made of.
LIBRARIES = {
    "reveal_css": ("sphinx-revealjs", "sphinx_revealjs/_static/revealjs/dist/reveal.css"),
    "reveal_js": ("sphinx-revealjs", "sphinx_revealjs/_static/revealjs/dist/reveal.js"),
    "notes_js": ("sphinx-revealjs", "sphinx_revealjs/_static/revealjs/plugin/notes/notes.js"),
    "mathjax_js": ("sphinx-mathjax-offline", "sphinx-mathjax-offline/static/mathjax/tex-svg.js"),
}
OWN = ("deck.css", "deck.js", "frames.js", "roles.js", "widgets.js")


def export(path: Path, out: Path) -> tuple[int, int]:
    """Write the deck of the notebook at ``path`` to ``out``; gives its slides and bytes.

    The file is written whole or not at all.

    Errors: ``SlidesError`` where the notebook is missing, damaged, or fails when it is run.
    """
    notebook = read(path)
    frames = frames_of(notebook, path.parent, out.parent / ".frames" / f"{path.stem}.json")
    try:
        text, slides = deck(notebook, path.stem, frames)
    except SlidesError:
        raise
    except Exception as error:  # a file that keeps to the format can still be odd in many ways
        what = f"{type(error).__name__}: {error}"
        raise SlidesError(f"{path} has a cell that no slide can be made of: {what}") from error
    if not slides:
        raise SlidesError(f"{path} has no cell that is for slides: no deck is written")
    write_whole(out, text)
    return slides, out.stat().st_size


def read(path: Path) -> NotebookNode:
    """The notebook, with the notes for the lecturer that only its text has."""
    try:
        notebook = nbformat.v4.upgrade(nbformat.read(path, as_version=4))  # older ones have no ids
        nbformat.validate(notebook)
        text = text_of(path)
        return lecture(text, notebook) if text.exists() else notebook
    except FileNotFoundError:
        raise SlidesError(f"there is no notebook {path}") from None
    except Exception as error:  # nbformat has no common ancestor for what it raises
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SlidesError(f"{path} is no notebook that can be read: {reason}") from error


def deck(notebook: NotebookNode, name: str, frames: dict[str, dict]) -> tuple[str, int]:
    """The deck's HTML and its number of slides. ``frames``: those of ``explore``, by output."""
    shown, states = alive(notebook)
    for cell in notebook.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            if (key := frames_key(cell, number)) in frames and is_explore_output(output):
                output.data[MIME] = key
    chapter = next(filter(None, map(_heading, notebook.cells[:1])), name)
    section, columns = "", []
    for column in columns_of(notebook):
        slides, heading = [], ""
        for slide in column:
            section = next(filter(None, map(_heading, slide.cells)), section)
            part = slide.cells[0].metadata.get("chapter", "")  # in a lecture from several
            where = f"{part} · {section}" if part else section
            body = "\n".join(_cells(slide, shown))
            if 'class="cell' not in body:  # nothing is left of it
                continue
            own = [found for cell in slide.cells if (found := _heading(cell, deepest=4))]
            if heading and not own:
                body = f'<div class="again">{markdown(f"**{heading}**")}</div>\n{body}'
            heading = own[-1] if own else heading
            slides.append(
                {
                    "cell": slide.cells[0].id,
                    "body": body,
                    "notes": "\n".join(markdown(cell.source) for cell in slide.notes),
                    "section": "" if section == chapter else where,
                }
            )
        if slides:
            columns.append(slides)
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=False)
    text = environment.get_template("deck.html.j2").render(
        columns=columns,
        chapter=chapter,
        plain=lambda text: html.escape(text, quote=False),
        states=for_script(json.dumps(states)),
        translators=for_script(_translators(states)),
        frames=for_script(json.dumps(frames)),
        palette_css=palette.css(),
        highlight_css=HtmlFormatter(style="default").get_style_defs(".highlight"),
        **{key: _library(*where) for key, where in LIBRARIES.items()},
        **{file.replace(".", "_"): (HERE / file).read_text("utf-8") for file in OWN},
    )
    return text, sum(map(len, columns))


def _translators(states: dict[str, dict]) -> str:
    """A script with the stored translators that these widgets ask for, or nothing."""
    names = {state["state"].get("stored") for state in states.values()} - {None, ""}
    if not names:
        return ""
    from d2l_attention.views.translator.translator_view import stored_script

    return stored_script(sorted(names))


def _cells(slide: Slide, shown: set[str]) -> list[str]:
    """The cells' HTML; a picture is told by which element it is described."""
    parts = []
    for i, cell in enumerate(slide.cells):
        after = slide.cells[i + 1 : i + 2]
        described = [other for other in (cell, *after) if is_description(other)]
        parts.append(cell_html(cell, f"words-{described[0].id}" if described else None, shown))
    return parts


def _heading(cell: NotebookNode, deepest: int = 2) -> str:
    """The first heading in the cell that is not below ``deepest``."""
    found = re.search(rf"^#{{1,{deepest}}} (.+)$", cell.source, re.MULTILINE)
    return found[1].strip().replace("`", "") if found and cell.cell_type == "markdown" else ""


def for_script(json_text: str) -> str:
    """JSON that may stand in a script element, whatever it says: no '<' is left in it."""
    return json_text.replace("<", "\\u003c")


def _library(package: str, file: str) -> str:
    try:
        text = Path(metadata.distribution(package).locate_file(file)).read_text("utf-8")
    except (metadata.PackageNotFoundError, FileNotFoundError):
        raise SlidesError(f"slides need the package {package}: make slides installs it") from None
    # The address of a source map would be asked for; '</script' would end the script.
    text = re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.MULTILINE)
    return text.replace("</script", "<\\/script")
