"""Sphinx extension: the trained translators work in the page, on the first one and in chapters.

A page opened from a folder may read no data, but it may load a script: so the weights stand in one.
"""

import json
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from d2l_attention.views import TranslatorView, palette
from d2l_attention.views.translator.translator_view import MODEL_FILES, stored_script
from d2l_attention.views.view import joined
from notebooks.publish.course import texts
from notebooks.publish.site.chapters import chapters
from notebooks.publish.slides.views import states_of

WEIGHTS, VIEW = "translators.js", "front_view.js"
PARTS = {"The mechanism": "00", "Models": "05", "Further": "09"}  # and the first chapter of each


class CourseMap(SphinxDirective):
    """Every chapter, a click away, in the parts that the course has."""

    def run(self):
        columns = []
        for text in texts():
            number, title = text.read_text("utf-8").split("# # ", 1)[1].split("\n")[0].split(" · ")
            part = next((name for name, first in PARTS.items() if first == text.stem[:2]), None)
            if part:
                columns.append((part, []))
            link = f'<a href="{text.stem}.html"><b>{number}</b> {title}</a>'
            columns[-1][1].append(f"<li>{link}</li>")
        lists = [f"<div><h2>{name}</h2><ol>{''.join(links)}</ol></div>" for name, links in columns]
        html = f'<nav class="course-map" aria-label="Chapters">{"".join(lists)}</nav>'
        return [nodes.raw("", html, format="html")]


def write_scripts(app, exception):
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir, "_static")
        view = TranslatorView("transformer")
        state = {name: getattr(view, name) for name in view.keys if name[0] != "_"}
        state |= {name: getattr(view, name) for name in ("_esm", "_css")}
        state = {name: value for name, value in state.items() if isinstance(value, str)}
        code = joined("kit.js", *(f"translator/{name}" for name in (*MODEL_FILES, "cuts.js")))
        code += Path(__file__).with_suffix(".js").read_text("utf-8")
        whole = f"const wholeView = {json.dumps(state, ensure_ascii=False)};"
        (folder / VIEW).write_text(f"{whole}\n(() => {{\n{code}\n}})();\n", "utf-8")
        (folder / WEIGHTS).write_text(stored_script(), "utf-8")
        (folder / "palette.css").write_text(palette.css(), "utf-8")


def load_scripts(app, pagename, templatename, context, doctree):
    """The weights come before what draws the views."""
    if pagename == "index" or has_translator(pagename):
        app.add_js_file(WEIGHTS, priority=150, loading_method="defer")
    if pagename == "index":
        app.add_js_file(VIEW, priority=900, loading_method="defer")  # behind widgets.js


def has_translator(pagename):
    if pagename not in chapters():
        return False
    states = states_of(nbformat.read(chapters()[pagename], as_version=4))
    return any(state["state"].get("stored") for state in states.values())


def setup(app):
    app.add_directive("course-map", CourseMap)
    app.connect("html-page-context", load_scripts)
    app.connect("build-finished", write_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
