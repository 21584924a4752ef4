"""A cell as HTML: what of it the room sees."""

import html
import re

import nbconvert.filters
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from notebooks.publish.cells import WIDGET_MIME, is_description, is_folded, slide_type
from notebooks.publish.gates import asks
from notebooks.publish.slides.frames import MIME as FRAMES_MIME

MOVE_IT = '<p class="aside">Move it in the notebook.</p>'
QUESTION = re.compile(r"(<p><strong>Predict.*?)</p>", re.DOTALL)
GUESS = '<input class="guess" aria-label="The prediction" placeholder="prediction" size="10">'
# What fits beside each other at 1 px of font size, and the sizes that a hall can read.
LINE_WIDTH, LETTER_WIDTH = 1132, 0.603
SMALLEST, LARGEST = 17, 22
# How long a student takes alone; a lecture has a plan of its own, in its first note.
STUDY_TIME = re.compile(r"^Core path: .+?(?=Builds on|\n\n|\Z)", re.MULTILINE | re.DOTALL)


def markdown(text: str) -> str:
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    # Wide tables and lists of images are the author's to mend: the tests measure them.
    page = MarkdownWithMath(renderer=renderer).render(text)
    return re.sub(r'href="(\d\d_\w+)\.ipynb', r'href="\1.html', page)  # to the chapter's deck


def cell_html(cell: NotebookNode, described_by: str | None, alive: set[str]) -> str:
    """The cell's part of a slide; empty where there is nothing for the room to see.

    ``described_by`` is the id of the element that describes the cell's picture, ``alive`` are
    the widget models that need no kernel.
    """
    if is_description(cell):
        text = markdown(cell.source.strip().strip("*"))
        return f'<div class="unseen" id="{described_by}">{text}</div>'
    if cell.cell_type == "markdown":
        content = markdown(STUDY_TIME.sub("", cell.source))
        if asks(cell):  # the room's prediction is written beside the question: deck.js keeps it
            content = re.sub(
                r"(<p><strong>Predict.*?)</p>", rf"\1 {GUESS}</p>", content, flags=re.DOTALL
            )
    elif cell.cell_type == "code":
        content = _code(cell, described_by, alive)
    else:
        content = ""
    if not content.strip():
        return ""
    kind = "cell fragment" if slide_type(cell) == "fragment" else "cell"
    return f'<div class="{kind}" data-cell="{html.escape(cell.id)}">{content}</div>'


def _code(cell: NotebookNode, described_by: str | None, alive: set[str]) -> str:
    parts = []
    if not is_folded(cell) and cell.source.strip():
        highlight = nbconvert.filters.Highlight2HTML(pygments_lexer="ipython3")
        parts.append(_sized(highlight(cell.source), cell.source, "source"))
    parts += [_output(output, described_by, alive) for output in cell.outputs]
    return "\n".join(parts)


def _output(output: NotebookNode, described_by: str | None, alive: set[str]) -> str:
    if output.output_type == "stream":
        return _text(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    if output.output_type not in ("display_data", "execute_result"):
        return ""
    picture = _picture(output, described_by) if "image/png" in data else ""
    if FRAMES_MIME in data:
        return f'<div class="frames" data-frames="{data[FRAMES_MIME]}">{picture}</div>'
    if WIDGET_MIME in data:
        model = data[WIDGET_MIME]["model_id"]
        if model in alive:
            return f'<div class="view" data-model="{html.escape(model)}">{picture}</div>'
        return picture + MOVE_IT
    if "text/html" in data:
        return f'<div class="output plain">{data["text/html"]}</div>'
    if "text/markdown" in data:
        text = data["text/markdown"]
        return _sized(markdown(text), re.sub(r"^```.*$", "", text, flags=re.MULTILINE), "source")
    return picture or _text(data.get("text/plain", ""))


def _picture(output: NotebookNode, described_by: str | None) -> str:
    data = output.data["image/png"].replace("\n", "")
    said = output.get("metadata", {}).get("image/png", {})
    alt = html.escape(said.get("alt", "A figure."))
    # A sharp picture has more pixels than it is wide; deck.js makes it as large as there is room.
    width = f' data-width="{said["width"]}"' if "width" in said else ""
    described = f' aria-describedby="{described_by}"' if described_by else ""
    source = f"data:image/png;base64,{data}"
    return f'<img class="figure"{width} alt="{alt}"{described} src="{source}">'


def _text(text: str) -> str:
    text = nbconvert.filters.strip_ansi(text).rstrip()
    if not text:
        return ""
    return _sized(f"<pre>{html.escape(text)}</pre>", text, "output plain")


def _sized(content: str, text: str, kind: str) -> str:
    """Letters as large as the longest line allows: the only thing that makes letters smaller."""
    longest = max((len(line) for line in text.splitlines()), default=1) or 1
    size = max(SMALLEST, min(LARGEST, int(LINE_WIDTH / (LETTER_WIDTH * longest))))
    return f'<div class="{kind}" style="--letters: {size}px">{content}</div>'
