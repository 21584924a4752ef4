"""Sphinx extension: the notebooks beside this folder are pages, as they were committed.

Their texts are pages, too: of the notes for the lecturer, which no notebook has. All stay where
they are. Sphinx has no setting for documents outside its own folder, so it gets a ``Project`` that
knows them: copies would have to be kept fresh, and links are not for every system.
"""

import ast
import html
import io
import json
import os
import re
import shutil
from pathlib import Path

import jupytext
import matplotlib
import nbformat
from sphinx.project import Project

from d2l_attention.exercises.engine.examine import NOT_ATTEMPTED
from d2l_attention.views import schematic
from d2l_attention.views.palette import COLOURS
from notebooks.publish.cells import WIDGET_MIME, is_folded, is_note
from notebooks.publish.course import notebook_of, texts
from notebooks.publish.gates import answers
from notebooks.publish.slides.frames import frames_key, is_explore_output
from notebooks.publish.slides.views import REFERENCE, STATE_MIME, states_of

NOTES_OF = "notes_"
SCHEMATIC = re.compile(r'^schematic\("([^"]+)"(?:, lit="([^"]+)")?\)$', re.MULTILINE)
ANCHOR = re.compile(r"(?<=\.ipynb)#[\w-]+(?=\))")


def chapters():
    """Page name -> notebook."""
    return {text.stem: notebook_of(text) for text in texts()}


def documents():
    """Page name -> file: the chapters, and the lecturer's notes of each."""
    return chapters() | {f"{NOTES_OF}{text.stem}": text for text in texts()}


class Course(Project):
    """This folder's pages and, under their own names, the chapters beside it."""

    def discover(self, exclude_paths=(), include_paths=("**",)):
        super().discover(exclude_paths, include_paths)
        self.docnames |= documents().keys()
        return self.docnames

    def path2doc(self, filename):
        path = Path(self.srcdir, filename).resolve()
        names = {file: name for name, file in documents().items()}
        return names.get(path) or super().path2doc(filename)

    def doc2path(self, docname, absolute):
        path = documents().get(docname)
        if path is None:
            return super().doc2path(docname, absolute)
        return path if absolute else Path(os.path.relpath(path, self.srcdir))


def use_course(app):
    app.project = app.env.project = Course(app.srcdir, app.config.source_suffix)


def read(text):
    """The student's page as the site shows it: views are pictures that may come to life."""
    notebook = nbformat.reads(text, as_version=4)
    mark_gates(notebook)
    states, live = states_of(notebook), {}
    widgets = notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            # Sphinx writes anchors in lower case, JupyterLab and GitHub as the heading is.
            cell.source = ANCHOR.sub(lambda anchor: anchor[0].lower(), cell.source)
        if is_folded(cell):
            name_fold(cell)
        if cell.cell_type == "code":  # a page cannot be attempted
            cell.outputs = [out for out in cell.outputs if NOT_ATTEMPTED.message not in str(out)]
        for number, output in enumerate(cell.get("outputs", [])):
            if "image/png" not in output.get("data", {}):
                continue
            about = output.metadata.get("image/png", {})
            if drawn := SCHEMATIC.search(cell.source):
                output.data = {"text/html": inline(drawn, about.get("alt", "A figure."))}
                continue
            image = {"alt": about.get("alt", "A figure.")}
            if "width" in about:  # sharp pictures have more pixels than they take room
                image["width"] = f"{about['width']}px"
            view = output.data.pop(WIDGET_MIME, None)
            if view and (models := find_view(view["model_id"], states)):
                live |= {model: states[model] for model in models}
                image["classes"] = f"live-view model-{models[0]}"  # what views.js looks for
            if is_explore_output(output):
                image["classes"] = f"drawn-ahead frames-{frames_key(cell, number)}"
            cell.metadata.setdefault("mystnb", {})["image"] = image
    if live:
        widgets[STATE_MIME]["state"] = live
        notebook.metadata["widgets"] = widgets
    return notebook


def inline(drawn, alt):
    """A schematic as SVG: its colours are the theme's, and its parts say their role."""
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": drawn[0]}):
        schematic(drawn[1], lit=drawn[2] or "").savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue().partition("<svg ")[2]
    for colour, (light, _) in COLOURS.items():
        svg = svg.replace(light.lower(), f"var(--{colour})")
    prefix = re.sub(r"\W+", "-", f"{drawn[1]} {drawn[2] or ''}".strip())
    roles = r"<(\w+)(?=[^>]*var\(--role-(query|key|value|weight)\))"
    svg = re.sub(roles, r'<\1 data-role="\2"', with_ids_of_its_own(svg, prefix))
    return f'<svg class="schematic" role="img" aria-label="{html.escape(alt)}" {svg}'


def with_ids_of_its_own(svg: str, prefix: str) -> str:
    """Ids and what refers to them: the letters of two drawings on a page have the same names."""
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)


def mark_gates(notebook):
    """Marks for gates.js, before and after the cells that answer a prediction."""
    for question, cells in reversed(answers(notebook.cells).items()):
        cell = notebook.cells[question]
        cell.source += f'\n\n<div class="gate-starts" data-cell="{cell.id}"></div>'
        end = nbformat.v4.new_markdown_cell('<div class="gate-ends"></div>')
        notebook.cells.insert(cells.stop, end)


def name_fold(cell):
    """A folded cell is called by what it does, its first line; imports, and checks that print
    nothing, are not on the page at all."""
    statements = ast.parse(cell.source).body
    checks = any(isinstance(node, ast.Assert) for node in statements)
    imports = all(isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) for node in statements)
    if not cell.outputs and (checks or imports):
        cell.metadata.tags = [*cell.metadata.tags, "remove-cell"]
    elif first := re.match(r"# (.+)", cell.source):
        cell.metadata["mystnb"] = {"code_prompt_show": first[1], "code_prompt_hide": first[1]}


def read_notes(text):
    """The lecturer's notes of a chapter's text, each under the heading that it belongs to."""
    cells = jupytext.reads(text, fmt="py:percent").cells
    title = re.search(r"^# (.+)$", cells[0].source, re.MULTILINE)[1]
    parts, heading = [f"# For the lecturer: {title}"], None
    for cell in cells:
        if found := re.match(r"##+ .+", cell.source):
            heading = found[0]
        if is_note(cell):
            if heading:
                parts.append(f"## {heading.lstrip('# ')}")
                heading = None
            parts.append(cell.source)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("\n\n".join(parts))])


def find_view(model, state):
    """The first widget, in this one, that the browser can draw alone, and its children.

    It draws itself, or stands for widgets beside each other that all do.
    """
    if "_esm" in state[model]["state"]:
        return [model]
    children = [name.removeprefix(REFERENCE) for name in state[model]["state"].get("children", [])]
    if children and all("_esm" in state[child]["state"] for child in children):
        return [model, *children]
    return next(filter(None, (find_view(child, state) for child in children)), [])


def link_chapter(app, pagename, templatename, context, doctree):
    """What chapter-links.html shows: the notebook file and, where there is a deck, the slides."""
    if pagename in chapters():
        decks = [Path(deck).stem for deck in app.config.course_decks]
        context["notebook_file"] = f"notebooks/{pagename}.ipynb"
        context["slides_file"] = f"slides/{pagename}.html" if pagename in decks else None
        if pagename in frames_files(app):
            address = f"_static/frames/{pagename}.js"
            context["metatags"] += f'<meta name="frames" content="{address}">'


def frames_files(app):
    """Page name -> file: the pictures that Python has drawn ahead."""
    return {Path(file).stem: Path(file) for file in app.config.course_frames}


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
    folder = Path(app.outdir, "_static", "frames")
    folder.mkdir(exist_ok=True)
    for name, file in frames_files(app).items():
        frames = json.dumps(json.loads(file.read_text("utf-8"))["frames"])
        # A script, because a page that was opened from a folder may read no other file.
        (folder / f"{name}.js").write_text(f"openFrames({frames});\n", "utf-8")


def setup(app):
    app.add_config_value("course_decks", [], "html", list)
    app.add_config_value("course_frames", [], "html", list)
    app.connect("builder-inited", use_course)
    app.connect("html-page-context", link_chapter)
    app.connect("build-finished", copy_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
