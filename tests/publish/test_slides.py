"""The slide exporter: what becomes of a notebook's cells, without a browser."""

import json
import os
import re
import time
from html.parser import HTMLParser

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from d2l_attention.views.frames import MIME, VARIABLE
from notebooks.publish.slides import frames as exporter
from notebooks.publish.slides.__main__ import is_current
from notebooks.publish.slides.deck import deck, export
from notebooks.publish.slides.errors import SlidesError
from notebooks.publish.slides.render import markdown
from notebooks.publish.slides.structure import columns_of

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
VOID = {"meta", "link", "img", "input", "br", "hr"}


def text(source, slide_type="-"):
    return new_markdown_cell(source, metadata={"slideshow": {"slide_type": slide_type}})


def code(source, *outputs, slide_type="-", tags=()):
    metadata = {"slideshow": {"slide_type": slide_type}, "tags": list(tags)}
    return new_code_cell(source, outputs=list(outputs), metadata=metadata)


def printed(words):
    return new_output("stream", name="stdout", text=words)


def picture(**data):
    return new_output("display_data", data={"image/png": PIXEL, "text/plain": "a figure"} | data)


def notebook(*cells, states=None):
    made = new_notebook(cells=list(cells))
    if states:
        mime = "application/vnd.jupyter.widget-state+json"
        made.metadata["widgets"] = {mime: {"state": states}}
    return made


class Page(HTMLParser):
    """A page's scripts, the elements of its slides, and those that are open in the end."""

    def __init__(self, html):
        super().__init__()
        self.scripts, self.open, self.slides = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in VOID:
            self.open.append((tag, attributes))
        if tag == "section" and "slide" in attributes.get("class", "").split():
            self.slides.append(attributes["data-cell"])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag = self.open[-1][0] if self.open else ""
        if tag == "script":
            self.scripts.append((self.open[-1][1], data))


def body(html):
    return html[html.index('<div class="slides">') : html.index('<script type="application/json"')]


def made(*cells, **more):
    return deck(notebook(*cells, **more), "04_name", {})[0]


def test_columns_go_down_and_notes_and_skipped_cells_are_no_slides():
    cells = [
        text("# Title", "slide"),
        text("more"),
        text("a secret", "skip"),
        text("below", "subslide"),
        text("Ask them.", "notes"),
        text("then", "fragment"),
        text("# Next", "slide"),
    ]
    columns = columns_of(notebook(*cells))
    sources = [[[cell.source for cell in slide.cells] for slide in column] for column in columns]
    assert sources == [[["# Title", "more"], ["below", "then"]], [["# Next"]]]
    assert [len(slide.notes) for slide in columns[0]] == [0, 1]
    html = made(*cells)
    assert Page(html).slides == [cells[0].id, cells[3].id, cells[6].id]
    assert "a secret" not in html
    assert re.search(r'<aside class="notes"><p>Ask them\.</p>\s*</aside>', html)
    assert re.findall(r'<div class="cell fragment" data-cell="(\w+)"', html) == [cells[5].id]


def test_a_folded_cell_shows_what_it_prints_and_not_its_code():
    html = made(
        text("# T", "slide"),
        code("both = 1", printed("both came\n")),
        code("unseen = 2", printed("only this\n"), tags=["hide-input"]),
    )
    words = re.sub(r"<[^>]+>", "", body(html))
    assert all(part in words for part in ("both = 1", "both came", "only this"))
    assert "unseen" not in words


def test_a_slide_without_a_heading_repeats_the_last_one_of_its_column():
    slides = made(
        text("# T", "slide"),
        text("## One", "slide"),
        text("### Deep $x$\n\nwords", "subslide"),
        text("more words", "subslide"),
        text("### New", "subslide"),
        text("alone", "slide"),
    )
    html = body(slides)
    assert re.findall(r'<div class="again"><p><strong>(.+?)</strong>', html) == ["Deep $x$"]
    assert html.index("Deep $x$</strong>") < html.index("more words") < html.index("alone")


@pytest.mark.parametrize("rest", [" Builds on chapter 3.", "\n\nBuilds on chapter 3."])
def test_the_minutes_of_a_student_alone_are_not_the_lectures(rest):
    start = "# T\n\nYou will see.\n\nCore path: 45 minutes. Exercises: 6. A stop\nis at 2."
    words = body(made(text(start + rest, "slide")))
    assert "Core path" not in words and "stop" not in words
    assert "You will see." in words and "Builds on chapter 3." in words


def test_a_slide_of_which_nothing_is_left_is_dropped():
    hidden = code("x = 1", slide_type="slide", tags=["hide-input"])
    page = Page(made(text("# T", "slide"), hidden, text("end", "slide")))
    assert len(page.slides) == 2


def test_stderr_prompts_and_widget_names_are_not_shown():
    error = new_output("stream", name="stderr", text="a warning")
    result = new_output("execute_result", data={"text/plain": "4 < 5"}, execution_count=7)
    words = body(made(text("# T", "slide"), code("2 + 2", error, result)))
    assert "a warning" not in words and "[7]" not in words
    assert "4 &lt; 5" in words


def test_letters_shrink_only_for_long_lines_and_never_below_17_px():
    sizes = [
        int(re.search(r"--letters: (\d+)px", body(made(text("#", "slide"), code("x" * n))))[1])
        for n in (10, 85, 100, 400)
    ]
    assert sizes == [22, 22, 18, 17]


def test_a_description_becomes_the_pictures_and_no_step_of_its_own():
    figure, words = code("plot()", picture()), text("*Figure: a *blue* line.*", "fragment")
    html = made(text("# T", "slide"), figure, words)
    described = re.search(r'<img class="figure"[^>]*aria-describedby="([^"]+)"', html)[1]
    assert f'<div class="unseen" id="{described}">' in html
    assert "fragment" not in body(html)


def test_a_sharp_picture_says_how_wide_it_is():
    figure = code("plot()", picture())
    assert "data-width" not in body(made(text("# T", "slide"), figure))
    figure.outputs[0].metadata = {"image/png": {"width": 720, "height": 320}}
    assert '<img class="figure" data-width="720"' in body(made(text("# T", "slide"), figure))


def test_a_slide_says_where_it_is_and_leads_to_no_server_of_somebodys_own():
    html = made(text("# One & only", "slide"), text("## `Two`", "slide"), text("more", "subslide"))
    where = re.findall(r'<div class="place">(.+?)</div>', html)
    assert where == ["One &amp; only", *["One &amp; only · Two"] * 2]
    assert "<title>One &amp; only</title>" in html
    # Which port JupyterLab has and which folder it serves is not known, and it drops '#cell-id='.
    assert "localhost" not in body(html)


def test_mathematics_is_left_for_mathjax_and_code_is_not_mathematics():
    assert "$a < b$" in markdown("$a < b$").replace("&lt;", "<")
    assert "<em>" not in markdown("$x_1 y_2$ and $z_3$")
    html = body(made(text("# T", "slide"), code("print('$5')", printed("$5 and $6\n"))))
    assert re.search(r'<div class="output plain"[^>]*><pre>\$5 and \$6</pre>', html)


def test_every_element_is_closed():
    page = Page(made(text("# T $x^2$ [a link](https://d2l.ai)", "slide"), code("p", picture())))
    assert page.open == []  # no script has ended early


def widget_states(title):
    """An attention view in a box with a button, and an ``explore`` view that only Python draws."""

    def model(name, **state):
        return {"model_name": name, "model_module": "m", "model_module_version": "1"} | {
            "state": state
        }

    return {
        "box": model("VBoxModel", children=["IPY_MODEL_view", "IPY_MODEL_button"]),
        "view": model("AnyModel", _esm="export default {}", title=title, frame=0),
        "button": model("ButtonModel", description="press"),
        "slider": model("IntSliderModel", value=0, min=0, max=3),
        "link": model(
            "LinkModel", source=["IPY_MODEL_view", "frame"], target=["IPY_MODEL_view", "head"]
        ),
        "python": model("VBoxModel", children=["IPY_MODEL_slider"]),
    }


def view(model, name):
    mime = "application/vnd.jupyter.widget-view+json"
    data = {mime: {"model_id": model}, "image/png": PIXEL, "text/plain": name}
    return new_output("execute_result", data=data)


def test_views_that_draw_themselves_live_and_their_texts_cannot_end_the_script():
    cruel = "</script><script>alert(1)</script><!--"
    html = made(
        text("# T", "slide"),
        code("view", view("box", "AttentionView(...)")),
        code("explore(f)", view("python", "Something(...)")),
        states=widget_states(cruel),
    )
    scripts = [data for attributes, data in Page(html).scripts if attributes.get("id") == "states"]
    states = json.loads("".join(scripts))
    assert sorted(states) == ["box", "button", "link", "view"]
    assert states["view"]["state"]["title"] == cruel
    assert '<div class="view" data-model="box">' in html
    assert body(html).count("Move it in the notebook.") == 1


def test_a_view_with_frames_takes_them_along():
    cell = code("explore(f)", view("python", "explore(x=1): words"))
    drawn = {f"{cell.id}-0": {"controls": [], "frames": [[0]], "tiles": ["</script>"]}}
    book = notebook(text("# T", "slide"), cell, states=widget_states("t"))
    html, slides = deck(book, "01_name", drawn)
    scripts = [data for attributes, data in Page(html).scripts if attributes.get("id") == "frames"]
    assert json.loads("".join(scripts)) == drawn
    assert f'<div class="frames" data-frames="{cell.id}-0">' in html
    assert "Move it in the notebook." not in html
    assert slides == 1


def test_export_writes_a_whole_file_and_leaves_nothing_else(tmp_path):
    path, out = tmp_path / "05_name.ipynb", tmp_path / "out" / "05_name.html"
    nbformat.write(notebook(text("# T", "slide"), text("x", "subslide")), path)
    slides, size = export(path, out)
    assert slides == 2
    assert size == out.stat().st_size < 8e6
    assert [file.name for file in out.parent.iterdir()] == [out.name]


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"cells": 1}', "\xff"])
def test_a_missing_or_damaged_notebook_is_named_and_leaves_the_old_deck(tmp_path, content):
    path, out = tmp_path / "05_name.ipynb", tmp_path / "05_name.html"
    out.write_text("the old deck", "utf-8")
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    with pytest.raises(SlidesError, match="05_name.ipynb"):
        export(path, out)
    assert out.read_text("utf-8") == "the old deck"
    assert not list(tmp_path.glob(".*"))


ODD = {
    "no source": {"cell_type": "markdown", "metadata": {}, "id": "a"},
    "a stream without text": {
        "cell_type": "code",
        "metadata": {},
        "id": "a",
        "source": "x",
        "execution_count": 1,
        "outputs": [{"output_type": "stream", "name": "stdout"}],
    },
    "nothing for the room": text("x", "skip"),
}


@pytest.mark.parametrize("cell", ODD.values(), ids=ODD)
def test_an_odd_cell_is_an_error_that_names_the_notebook(tmp_path, cell):
    path, out = tmp_path / "05_name.ipynb", tmp_path / "05_name.html"
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(book), "utf-8")
    with pytest.raises(SlidesError, match="05_name.ipynb"):
        export(path, out)
    assert not out.exists()


def test_a_notebook_of_an_older_jupyter_has_no_ids_and_a_deck_all_the_same(tmp_path):
    path, out = tmp_path / "05_name.ipynb", tmp_path / "05_name.html"
    cell = {"cell_type": "markdown", "metadata": {"slideshow": None}, "source": "# T"}
    lone = {"cell_type": "markdown", "metadata": {}, "source": "half a letter: \ud83d"}
    book = {"cells": [cell, lone], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    path.write_text(json.dumps(book), "utf-8")
    assert export(path, out)[0] == 1


def test_a_deck_is_current_until_its_notebook_changes(tmp_path):
    book, out = tmp_path / "00_name.ipynb", tmp_path / "00_name.html"
    book.write_text("{}", "utf-8")
    assert not is_current(out, book)
    out.write_text("deck", "utf-8")
    assert is_current(out, book)
    later = time.time() + 60
    os.utime(book, (later, later))
    assert not is_current(out, book)


def test_the_page_and_the_exporter_agree_on_the_name_of_frames():
    assert (exporter.MIME, exporter.VARIABLE) == (MIME, VARIABLE)
