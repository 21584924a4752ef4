"""Sphinx extension: the trained translators work in the page, on the first one and in chapters.

A page opened from a folder may read no data, but it may load a script: so the weights stand in one.
"""

import json
from pathlib import Path

import nbformat

from d2l_attention.views import TranslatorView
from d2l_attention.views.translator.translator_view import stored_script
from notebooks.publish.site.chapters import chapters
from notebooks.publish.slides.views import states_of

WEIGHTS, VIEW = "translators.js", "front_view.js"


def write_scripts(app, exception):
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir, "_static")
        view = TranslatorView("transformer")
        state = {name: getattr(view, name) for name in view.keys if name[0] != "_"}
        state |= {name: getattr(view, name) for name in ("_esm", "_css")}
        state = {name: value for name, value in state.items() if isinstance(value, str)}
        state["small"] = True
        text = f"const frontView = {json.dumps(state, ensure_ascii=False)};\n"
        (folder / VIEW).write_text(text, "utf-8")
        (folder / WEIGHTS).write_text(stored_script(), "utf-8")


def load_scripts(app, pagename, templatename, context, doctree):
    """The weights come before what draws the views."""
    if pagename == "index" or has_translator(pagename):
        app.add_js_file(WEIGHTS, priority=150, loading_method="defer")
    if pagename == "index":
        app.add_js_file(VIEW, priority=900, loading_method="defer")
        app.add_js_file("front.js", priority=900, loading_method="defer")  # behind widgets.js


def has_translator(pagename):
    if pagename not in chapters():
        return False
    states = states_of(nbformat.read(chapters()[pagename], as_version=4))
    return any(state["state"].get("stored") for state in states.values())


def setup(app):
    app.connect("html-page-context", load_scripts)
    app.connect("build-finished", write_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
