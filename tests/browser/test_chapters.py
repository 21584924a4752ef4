"""Every view of every chapter in JupyterLab: drawn, and each of its controls moved.

A view that draws itself is opened from the state that the executed notebook keeps, as by a student
who comes back to it. What asks Python for its pictures or for a model is run: one kernel runs the
cells that such a view needs, of each chapter. That every cell runs, nbval has checked.
"""

import os
from pathlib import Path

import nbformat
import pytest
from conftest import Notebook, opened_pages, wait_until
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_notebook

from notebooks.publish.needed_cells import needed_cells, view_cells

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = {path.stem: nbformat.read(path, as_version=4) for path in NOTEBOOKS.glob("[0-9]*.ipynb")}
VIEWS = ":is(.d2l-attention, .d2l-watch, .d2l-inside, .d2l-player):not(.d2l-translator)"
ASK_PYTHON = ("explore(", "TranslatorView(")
RUN_ALL = "run_all.ipynb"
OUTPUTS = "outputs.ipynb"  # what all chapters print, cell by cell
IN_WORDS = "stream", "execute_result", "display_data"
PICTURES = "image/png", "application/vnd.jupyter.widget-view+json"
CUT = """async () => {
  const notebook = jupyterapp.shell.currentWidget.content, cut = [];
  for (const [number, { node }] of notebook.widgets.entries()) {
    await notebook.scrollToItem(number);
    const outputs = [...node.querySelectorAll(".jp-OutputArea-output")];
    const isCut = (box) => box.clientWidth && box.scrollWidth > box.clientWidth + 1;
    const wide = outputs.filter((output) => [output, ...output.querySelectorAll("*")].some(isCut));
    cut.push(...wide.map((output) => output.innerText));
    if (!outputs.length) cut.push("nothing is shown");
  }
  return cut;
}"""


def views_of(chapter: str, ask_python: bool) -> list[int]:
    """The numbers of the cells that show a view of one kind or of the other."""
    cells = CHAPTERS[chapter].cells

    def asks(number):
        texts = [output.get("data", {}).get("text/plain", "") for output in cells[number].outputs]
        return any(text.startswith(ASK_PYTHON) for text in texts)

    return [number for number in view_cells(cells) if asks(number) == ask_python]


STORED = [name for name in sorted(CHAPTERS) if views_of(name, False)]
LIVE = [(name, number) for name in sorted(CHAPTERS) for number in views_of(name, True)]


@pytest.fixture(scope="module")
def lab_folder(lab, tmp_path_factory):
    """Of each chapter the cells with stored views: to draw a whole chapter takes ten seconds.

    They are signed, because JupyterLab shows no view of a stranger's.
    """
    folder = tmp_path_factory.mktemp("chapters")
    notary = NotebookNotary(data_dir=str(lab.data))
    for name in STORED:
        cells = [CHAPTERS[name].cells[number] for number in views_of(name, False)]
        part = nbformat.from_dict(CHAPTERS[name] | {"cells": cells})
        nbformat.write(part, folder / f"{name}.ipynb")
        notary.sign(part)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    run_all = new_notebook(cells=[new_code_cell()], metadata={"kernelspec": kernel})
    nbformat.write(run_all, folder / RUN_ALL)
    printed = new_notebook(cells=list(printing_cells()), metadata={"kernelspec": kernel})
    nbformat.write(printed, folder / OUTPUTS)
    notary.sign(printed)
    return folder


def printing_cells():
    """Cells of fifty outputs: of more, JupyterLab shows the first fifty only."""
    cells = [cell for chapter in CHAPTERS.values() for cell in chapter.cells]
    outputs = [output for cell in cells for output in cell.get("outputs", []) if in_words(output)]
    for first in range(0, len(outputs), 50):
        yield new_code_cell(outputs=outputs[first : first + 50])


def in_words(output):
    pictures = [kind in output.get("data", {}) for kind in PICTURES]
    return output.output_type in IN_WORDS and not any(pictures)


@pytest.fixture(scope="module")
def window(lab, served, browser):
    """One for all chapters: to load JupyterLab takes seconds."""
    with opened_pages(browser) as new_page:
        yield new_page()
    lab.forget_kernels()


@pytest.fixture(scope="module")
def live(lab, served, window):
    """A notebook of one cell, with a kernel."""
    return Notebook(lab, window, f"{served}/{RUN_ALL}")


def test_every_chapter_has_a_view():
    assert set(STORED) | {name for name, _ in LIVE} == set(CHAPTERS)


@pytest.mark.parametrize("chapter", STORED)
def test_stored_views(chapter, lab, served, window):
    cells = CHAPTERS[chapter].cells
    # `compare` shows two runs.
    shown = sum(1 + ("compare(" in cells[n].source) for n in views_of(chapter, False))
    notebook = Notebook(lab, window, f"{served}/{chapter}.ipynb")
    try:
        views = window.locator(VIEWS)
        wait_until(lambda: views.count() == shown, f"{shown} views are drawn")
        for view in views.all():
            view.scroll_into_view_if_needed()
            kind = view.evaluate("view => view.className")
            if "d2l-watch" in kind:
                move_watch(view)
            elif "d2l-inside" in kind:
                move_inside(view)
            elif "d2l-player" in kind:
                move_player(view)
            else:
                move_attention_view(view)
        keep_pictures(notebook, chapter, views)
    finally:
        notebook.close()


def test_no_output_is_cut(lab, served, window):
    notebook = Notebook(lab, window, f"{served}/{OUTPUTS}")
    try:
        cut = window.evaluate(CUT)
        assert not cut, "\n\n".join(cut)
    finally:
        notebook.close()


SET_SOURCE = """(code) =>
    jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel.setSource(code)"""


@pytest.mark.parametrize(("chapter", "number"), LIVE)
def test_live_views(chapter, number, live):
    cells = CHAPTERS[chapter].cells
    code = "\n".join(cells[needed].source for needed in needed_cells(cells, [number]))
    live.page.evaluate(SET_SOURCE, code)
    live.run()
    assert live.errors() == []
    view = live.page.locator(".widget-vbox:has(> .widget-image), .d2l-translator")
    view.scroll_into_view_if_needed()
    (cut_translator if "TranslatorView(" in cells[number].source else move_explore)(view)
    keep_pictures(live, chapter, view)


def keep_pictures(notebook, chapter, views) -> None:
    for theme in ("Light", "Dark") if "SCREENSHOTS" in os.environ else ():
        notebook.use_theme(theme)
        for index, view in enumerate(views.all()):
            view.scroll_into_view_if_needed()
            notebook.screenshot(f"{chapter[:2]}-view-{index + 1}-{theme}")


def move_attention_view(view) -> None:
    """Frames by keyboard, lines and heat map by mouse: each must change what is seen."""
    canvas, slider = view.locator("canvas"), view.get_by_role("slider")
    # A view may open on its last frame.
    at_end = slider.evaluate("slider => slider.value === slider.max")
    pictures = [canvas.evaluate("canvas => canvas.toDataURL()")]
    for act in (
        lambda: slider.press("ArrowLeft" if at_end else "ArrowRight"),
        lambda: view.get_by_role("button", name="Show lines").click(),
    ):
        act()
        pictures.append(canvas.evaluate("canvas => canvas.toDataURL()"))
    assert len(set(pictures)) == 3


def cut_translator(view) -> None:
    """A look is forbidden and allowed again."""
    view.locator("canvas.map").focus()
    for cuts in (1, 0):
        view.page.keyboard.press("c")
        assert view.locator(".cut").count() == cuts


def move_inside(view) -> None:
    """Into the first part or head and back, by keyboard: what is open is said each time."""
    view.locator('.stop, .thumbnail[tabindex="0"]').first.focus()
    seen = view.locator(":scope > div:not(.unseen)")  # what a screen reader is told is not seen
    outside = seen.all_inner_texts()
    for key in ("Enter", "Escape"):
        view.page.keyboard.press(key)
        assert (seen.all_inner_texts() == outside) == (key == "Escape")


def move_player(view) -> None:
    """To the end by button and back by a key: each step has a drawing and words of its own."""
    words, following = view.locator(".now"), view.get_by_role("button", name="next")

    def seen():
        texts = view.locator(":scope > svg text").all_text_contents()
        return *words.all_text_contents(), *sorted(texts)  # what has flown is drawn last

    steps = [seen()]
    while following.is_enabled():
        following.click()
        steps.append(seen())
    assert len(set(steps)) == view.locator(".dot").count() > 1
    view.locator(":scope > svg").press("Home")
    assert words.all_text_contents() == [*steps[0][:2]]


def move_watch(view) -> None:
    """Through the run: each step marks another line or says other values."""
    seen = view.evaluate(EACH_STEP)
    assert len(seen) > 1
    assert all(before != after for before, after in zip(seen, seen[1:], strict=False))


EACH_STEP = """(view) => {
    const slider = view.querySelector("input[type=range]"), seen = [];
    for (slider.value = 0; ; slider.value = Number(slider.value) + 1) {
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        seen.push(view.innerText + view.querySelector(".line.now").innerText);
        if (slider.value === slider.max) return seen;
    }
}"""


# A quick picture, and the sharp one once the hand rests, which may be that of the control before:
# two pictures, or a quick one, say that this control was answered.
COUNT_PICTURES = """(image) => {
    window.answers = 0;
    window.counting?.disconnect();
    window.counting = new MutationObserver((changes) => (window.answers += changes.length));
    window.counting.observe(image, { attributeFilter: ["src"] });
}"""
ANSWERED = """(image) => window.answers > 1 || (
    window.answers && image.complete && image.naturalWidth <= parseFloat(image.style.width)
)"""


def move_explore(view) -> None:
    """Every slider by keyboard, one by mouse, every button and box: each gives a new picture."""
    page, image = view.page, view.locator(".widget-image")

    def changes(act) -> None:
        image.evaluate(COUNT_PICTURES)
        act()
        page.wait_for_function(ANSWERED, arg=image.element_handle())

    for box in view.locator("input[type=checkbox]").all():
        changes(box.click)
    for button in view.locator(".widget-toggle-button:not(.mod-active)").all():
        button.focus()
        changes(lambda: page.keyboard.press("Space"))
    handles = view.locator(".noUi-handle")
    for handle in handles.all():
        handle.focus()
        # At the upper end of its range the slider can only go down.
        at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
        changes(lambda at_end=at_end: page.keyboard.press("ArrowLeft" if at_end else "ArrowRight"))
    if not handles.count():  # boxes alone
        return
    track = view.locator(".noUi-base").first
    box, knob = track.bounding_box(), handles.first.bounding_box()
    left_half = knob["x"] + knob["width"] / 2 < box["x"] + box["width"] / 2
    place = {"x": (0.8 if left_half else 0.2) * box["width"], "y": box["height"] / 2}
    changes(lambda: track.click(position=place, force=True))
    assert view.locator("[role=alert]").count() == 0
