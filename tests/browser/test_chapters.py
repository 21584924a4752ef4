"""Every view of every chapter as a student has it: drawn, and each of its controls moved.

Only the cells that the views need are run: that every cell runs, nbval has checked.
"""

import json
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Notebook, opened_pages, wait_until
from latency import key_to_image, key_to_paint, summary

from notebooks.publish.needed_cells import needed_cells, view_cells

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.name for path in NOTEBOOKS.glob("[0-9]*.ipynb"))
VIEWS = ".d2l-attention, .d2l-watch, .d2l-inside, .widget-vbox:has(> .widget-image)"


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory):
    """The chapters. Those that train do so for a few steps alone, and claim nothing of it: what
    their cells claim, nbval has checked; here it is about the views."""
    folder = tmp_path_factory.mktemp("chapters")
    for chapter in CHAPTERS:
        shutil.copy(NOTEBOOKS / chapter, folder)
        notebook = json.loads((folder / chapter).read_text("utf-8"))
        if not trains(notebook):
            continue
        for cell in notebook["cells"]:
            code = re.sub(r"\bsteps=\d+", "steps=10", "".join(cell["source"]))
            code = code.replace("train(two)", "train(two, steps=10)")
            # A loop on the page: five batches of each epoch, and means over as many.
            code = code.replace("    for batch in batches:", "    for batch in list(batches)[:5]:")
            code = code.replace(".view(10, 50)", ".view(10, -1)")
            cell["source"] = re.sub(r"^( *)assert ", r"\1_ = ", code, flags=re.MULTILINE)
        (folder / chapter).write_text(json.dumps(notebook), "utf-8")
    return folder


def trains(notebook: dict) -> bool:
    text = "".join(line for cell in notebook["cells"] for line in cell["source"])
    return "d2l_attention.training" in text or "real_models.repeats" in text


@pytest.fixture(scope="module")
def opened(lab, served, browser):
    """Opens a chapter in the window of the chapter before, in a new one where that failed."""
    with opened_pages(browser) as new_page:
        clean = []

        @contextmanager
        def opened(name):
            page = clean.pop() if clean else new_page()
            try:
                notebook = Notebook(lab, page, f"{served}/{name}")
                yield notebook
                notebook.close()
                clean.append(page)
            finally:
                lab.forget_kernels()

        yield opened


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter(chapter, opened, record_property):
    with opened(chapter) as notebook:
        move_all_views(notebook, chapter, record_property)


def move_all_views(notebook, chapter, record_property):
    cells = notebook.cells()
    with_views = view_cells(cells)
    notebook.run(needed_cells(cells, with_views))
    assert notebook.errors() == []
    hardly_trained = trains({"cells": cells})
    views = notebook.page.locator(VIEWS)
    # `compare` shows two runs.
    shown = sum(2 if "compare(" in "".join(cells[n]["source"]) else 1 for n in with_views)
    assert shown, "every chapter has a view"
    wait_until(lambda: views.count() == shown, f"{shown} views are drawn")
    for index, view in enumerate(views.all()):
        view.scroll_into_view_if_needed()
        if view.evaluate("view => view.matches('.d2l-watch')"):
            latency = move_watch(view)
        elif view.evaluate("view => view.matches('.d2l-translator')"):
            latency = cut_translator(view)
        elif view.evaluate("view => view.matches('.d2l-inside')"):
            latency = move_inside(view)
        elif view.locator("canvas").count():
            latency = move_attention_view(view, hardly_trained)
        else:
            latency = move_explore(view)
        record_property("latency", f"{chapter[:2]}, view {index + 1}: {latency}")
    for theme in ("Light", "Dark") if "SCREENSHOTS" in os.environ else ():
        notebook.use_theme(theme)
        for index, view in enumerate(views.all()):
            view.scroll_into_view_if_needed()
            notebook.screenshot(f"{chapter[:2]}-view-{index + 1}-{theme}")


def move_attention_view(view, hardly_trained: bool) -> str:
    """Frames by keyboard, lines and heat map by mouse: each must change what is seen.

    Two blocks of a model that has hardly trained look alike: there the words count, too.
    """
    canvas, slider = view.locator("canvas"), view.get_by_role("slider")
    # A view may open on its last frame.
    at_end = slider.evaluate("slider => slider.value === slider.max")
    key, seen = "ArrowLeft" if at_end else "ArrowRight", set()
    for act in (
        lambda: None,
        lambda: (slider.focus(), view.page.keyboard.press(key)),
        lambda: view.get_by_role("button", name="Show lines").click(),
    ):
        act()
        words = view.inner_text() if hardly_trained else ""
        seen.add((canvas.evaluate("canvas => canvas.toDataURL()"), words))
    assert len(seen) == 3
    view.get_by_role("button", name="Show heat map").click()
    return key_to_paint(view, slider)


def cut_translator(view) -> str:
    """A look is forbidden and allowed again."""
    view.locator("canvas.map").focus()
    page = view.page
    for cuts in (1, 0):
        page.keyboard.press("c")
        assert view.locator(".cut").count() == cuts
    return "a column cut, and allowed again"


def move_inside(view) -> str:
    """Into the first part or head and back, by keyboard: what is open is said each time."""
    first = view.locator('.stop, .thumbnail[tabindex="0"]').first
    first.focus()
    seen = view.locator(":scope > div:not(.unseen)")  # what a screen reader is told is not seen
    outside, times = seen.all_inner_texts(), []
    for key in ("Enter", "Escape") * 5:
        times.append(view.evaluate(KEY_DOWN, key))
        assert (seen.all_inner_texts() == outside) == (key == "Escape")
    return summary(times)


# From the key to the next picture; a button's own answer to Enter is a click.
KEY_DOWN = """(view, key) => new Promise((done) => {
    const start = performance.now();
    const target = document.activeElement;
    if (key === "Enter") target.click();
    else target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    requestAnimationFrame(() => done(performance.now() - start));
})"""


def move_watch(view) -> str:
    """Through the run by keyboard: each step marks another line or says other values."""
    slider, seen, times = view.get_by_role("slider").first, [], []
    steps = int(slider.get_attribute("max")) + 1
    slider.press("Home")
    for _ in range(steps):
        seen.append(view.inner_text() + view.locator(".line.now").inner_text())
        times.append(view.evaluate(ARROW_RIGHT))
    assert all(before != after for before, after in zip(seen, seen[1:], strict=False))
    return summary(times)


# From the key to the next picture; the slider's own answer to a key is to change its value.
ARROW_RIGHT = """(view) => new Promise((done) => {
    const slider = view.querySelector("input[type=range]");
    const start = performance.now();
    slider.value = Number(slider.value) + 1;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    requestAnimationFrame(() => done(performance.now() - start));
})"""


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


def move_explore(view) -> str:
    """Every slider by keyboard and by mouse, every button and box: each gives a new picture."""
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
    for track, handle in zip(view.locator(".noUi-base").all(), handles.all(), strict=True):
        box, knob = track.bounding_box(), handle.bounding_box()
        left_half = knob["x"] + knob["width"] / 2 < box["x"] + box["width"] / 2
        place = {"x": (0.8 if left_half else 0.2) * box["width"], "y": box["height"] / 2}
        changes(lambda track=track, place=place: track.click(position=place, force=True))
    assert view.locator("[role=alert]").count() == 0
    return key_to_image(page, handles.first, moves=10)
