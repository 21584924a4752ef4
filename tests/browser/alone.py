"""A view by itself, from the state that a notebook saves: on an empty page, and in a deck."""

from base64 import b64encode
from pathlib import Path

import nbformat
from ipywidgets.embed import dependency_state
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from slide_report import open_deck

from notebooks.publish.slides.deck import export

# As much of a model as a view asks for, where there is no kernel: in exported slides, on the site.
FOUR_FUNCTIONS = """async (state) => {
    const handlers = {};
    window.model = {
        get: (name) => state[name],
        set: (name, value) => ((state[name] = value), handlers[`change:${name}`]?.()),
        on: (event, handler) => (handlers[event] = handler),
        save_changes: () => {},
    };
    const source = new Blob([state._esm], { type: "text/javascript" });
    const module = await import(URL.createObjectURL(source));
    module.default.render({ model, el: document.getElementById("view") });
}"""


def put_alone(page, view, script: str = "") -> None:
    """Fill the page with the view; ``script`` is there before it."""
    page.goto("about:blank")  # what an earlier page's scripts have defined is gone
    page.mouse.move(0, 0)
    page.set_content(
        f"<html lang=en><title>A view</title><style>body {{ margin: 0 }} {view._css}</style>"
        "<main id=view></main></html>"
    )
    if script:
        page.add_script_tag(content=script)
    state = {name: value for name, value in view.get_state().items() if name != "layout"}
    page.evaluate(FOUR_FUNCTIONS, state)


def open_in_a_deck(page, view, folder: Path) -> None:
    """A deck of two slides, a heading and the view, at the second."""
    data = {
        "text/plain": repr(view),
        "image/png": b64encode(view.still()).decode(),
        "application/vnd.jupyter.widget-view+json": {"model_id": view.model_id},
    }
    slide = {"slideshow": {"slide_type": "slide"}}
    cells = [
        new_markdown_cell("# A view", metadata=slide),
        new_code_cell("...", outputs=[new_output("execute_result", data=data)], metadata=slide),
    ]
    states = {"state": dependency_state([view], drop_defaults=False)}
    widgets = {"application/vnd.jupyter.widget-state+json": states}
    nbformat.write(new_notebook(cells=cells, metadata={"widgets": widgets}), folder / "small.ipynb")
    export(folder / "small.ipynb", folder / "small.html")
    open_deck(page, folder / "small.html")
    page.evaluate("Reveal.slide(1, 0)")
