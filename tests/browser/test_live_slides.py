"""A lecture in JupyterLab itself: the slides of jupyterlab-slideshow, with views that answer."""

import nbformat
import pytest
from nbformat import v4

TALK = [
    (v4.new_markdown_cell, "# First slide\n\nWho looks at whom?", "slide"),
    (
        v4.new_code_cell,
        "import torch\nfrom d2l_attention.views import AttentionView, explore\n"
        "tokens = 'the animal did'.split()\n"
        "AttentionView(torch.rand(2, 4, 3, 3), tokens, tokens)",
        "subslide",
    ),
    (
        v4.new_code_cell,
        "def draw(fig, temperature=1.0):\n"
        "    fig.subplots().bar(range(5), (torch.arange(5.0) / temperature).softmax(0))\n"
        "explore(draw, temperature=(0.1, 2.0, 0.1), alt='five weights')",
        "slide",
    ),
]


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("talk")
    cells = []
    for make, source, slide_type in TALK:
        cells.append(make(source))
        cells[-1].metadata["slideshow"] = {"slide_type": slide_type}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "talk.ipynb"
    )
    return folder


def test_slides_with_views_that_answer(open_notebook):
    notebook = open_notebook("talk.ipynb")
    page = notebook.page
    notebook.run()
    assert notebook.errors() == []
    for _ in TALK[1:]:
        notebook.command("notebook:move-cursor-up")
    heading = page.get_by_role("heading", name="First slide")
    view, image = page.locator(".d2l-attention"), page.locator(".widget-image")

    notebook.command("deck:start")
    view.wait_for(state="hidden")
    assert heading.is_visible() and not image.is_visible()
    notebook.screenshot("live-slide")

    page.keyboard.press("ArrowDown")
    view.wait_for()
    heading.wait_for(state="hidden")
    view.get_by_role("button", name="head 3").click()
    pressed = view.locator("[aria-pressed=true]", has_text="head 3")
    assert pressed.count() == 1
    notebook.screenshot("live-view")

    notebook.command("deck:forward")
    image.wait_for()
    before = image.evaluate("image => image.src")
    page.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    follows = "before => document.querySelector('.widget-image').src !== before"
    page.wait_for_function(follows, arg=before)
    notebook.screenshot("live-explore")

    notebook.command("deck:stop")
    view.wait_for()
    heading.wait_for()
