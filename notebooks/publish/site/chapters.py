"""Sphinx extension: the notebooks beside this folder are pages, as they were committed.

They stay where they are: Sphinx, which wants its documents below one folder, is told of them.
"""

import os
import re
import shutil
from pathlib import Path

import nbformat
from sphinx.project import Project

from notebooks.publish.slides.structure import FIGURE, FOR_THE_LECTURER
from notebooks.publish.slides.views import REFERENCE, STATE_MIME, WIDGET_MIME, states_of

FOLDER = Path(__file__).resolve().parents[2]
FOLDED = """::::{admonition} For the lecturer
:class: lecturer
:collapsible: closed
"""


def chapters():
    """Page name -> notebook."""
    return {path.stem: path for path in sorted(FOLDER.glob("[0-9]*.ipynb"))}


class Course(Project):
    """This folder's pages and, under their own names, the chapters beside it."""

    def discover(self, exclude_paths=(), include_paths=("**",)):
        super().discover(exclude_paths, include_paths)
        self.docnames |= chapters().keys()
        return self.docnames

    def path2doc(self, filename):
        path = Path(self.srcdir, filename).resolve()
        return path.stem if path in chapters().values() else super().path2doc(filename)

    def doc2path(self, docname, absolute):
        path = chapters().get(docname)
        if path is None:
            return super().doc2path(docname, absolute)
        return path if absolute else Path(os.path.relpath(path, self.srcdir))


def use_course(app):
    app.project = app.env.project = Course(app.srcdir, app.config.source_suffix)


def read(text):
    """The notebook as the site shows it: notes folded, views as pictures that may come to life."""
    notebook = nbformat.reads(text, as_version=4)
    states, live = states_of(notebook), {}
    widgets = notebook.metadata.pop("widgets", None)
    for cell, following in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        if cell.source.startswith(FOR_THE_LECTURER):
            note = cell.source.removeprefix(FOR_THE_LECTURER).strip()
            cell.source = f"{FOLDED}\n{note}\n::::"
        for output in cell.get("outputs", []):
            if "image/png" not in output.get("data", {}):
                continue
            alt = output.metadata.get("image/png", {}).get("alt")
            image = {"alt": alt or describe(following.source)}
            view = output.data.pop(WIDGET_MIME, None)
            if view and (model := find_view(view["model_id"], states)):
                live[model] = states[model]
                image["classes"] = f"live-view model-{model}"  # what views.js looks for
            cell.metadata["mystnb"] = {"image": image}
    if live:
        widgets[STATE_MIME]["state"] = live
        notebook.metadata["widgets"] = widgets
    return notebook


def find_view(model, state):
    """The widget itself, or the first one inside it, that the browser can draw alone."""
    traits = state[model]["state"]
    if "_esm" in traits:
        return model
    children = (
        find_view(name.removeprefix(REFERENCE), state) for name in traits.get("children", [])
    )
    return next(filter(None, children), None)


def describe(caption):
    """A figure's description in the cell below it, as plain text."""
    text = caption.split("\n\n")[0].removeprefix(FIGURE)
    return re.sub(r"[*$`\\]", "", " ".join(text.split()))


def link_chapter(app, pagename, templatename, context, doctree):
    """What chapter-links.html shows: the notebook file and, where there is a deck, the slides."""
    if pagename in chapters():
        decks = [Path(deck).stem for deck in app.config.course_decks]
        context["notebook_file"] = f"notebooks/{pagename}.ipynb"
        context["slides_file"] = f"slides/{pagename}.html" if pagename in decks else None


def copy_files(app, exception):
    if exception is not None:
        return
    for name, paths in {
        "notebooks": chapters().values(),
        "slides": app.config.course_decks,
    }.items():
        folder = Path(app.outdir, name)
        folder.mkdir(exist_ok=True)
        for path in paths:
            shutil.copy2(path, folder)


def setup(app):
    app.add_config_value("course_decks", [], "html", list)
    app.connect("builder-inited", use_course)
    app.connect("html-page-context", link_chapter)
    app.connect("build-finished", copy_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
