"""The three views in a real JupyterLab: what the hand does, and what the eye then sees."""

import json
from textwrap import dedent

import pytest
from conftest import Notebook, opened_pages
from latency import key_to_image, key_to_paint, summary

from d2l_attention.views import AttentionView

IMAGE_TOKEN = "<img src=x onerror=alert(1)>"
CELLS = {
    "attention": f"""
        import torch
        from d2l_attention.views import AttentionView, explore
        torch.manual_seed(0)
        tokens = "the animal did not cross the street because".split() + [{IMAGE_TOKEN!r}]
        weights = (2 * torch.randn(12, 8, 9, 9)).softmax(-1)
        AttentionView(weights, tokens, tokens, compare=torch.eye(9), title="Nine tokens")
    """,
    "explore": """
        def draw(fig, temperature=1.0, kernel="softmax", grid=False):
            ax = fig.subplots()
            ax.bar(range(5), (torch.arange(5.0) / temperature).softmax(0))
            ax.set(title=f"{kernel} at {temperature:.1f}", xlabel="key", ylabel="weight")
            ax.grid(grid)
            if temperature > 1.45:
                raise ValueError("too hot for <b>keys</b>")
        explore(draw, temperature=(0.1, 2.0, 0.1), kernel=["softmax", "hardmax"], grid=False,
                alt="five weights")
    """,
    "sizes": """
        from IPython.display import display
        for n in (2, 60):
            names = [f"token{i}" for i in range(n)]
            view = AttentionView((3 * torch.randn(8, n, n)).softmax(-1), names, names)
            view.head = -1
            display(view)
    """,
}


def notebook_text(sources: dict[str, str], outputs: list[dict]) -> str:
    cells = [
        {
            "cell_type": "code",
            "id": name,
            "metadata": {},
            "source": dedent(code).strip(),
            "outputs": outputs,
            "execution_count": None,
        }
        for name, code in sources.items()
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    (folder / "views.ipynb").write_text(notebook_text(CELLS, []), "utf-8")
    data, metadata = small_view()._repr_mimebundle_()
    output = {"output_type": "display_data", "data": data, "metadata": metadata}
    (folder / "shipped.ipynb").write_text(
        notebook_text({"shipped": "AttentionView"}, [output]), "utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def notebook(lab, served, browser):
    """Open and run for all tests: each moves a view that no other minds."""
    with opened_pages(browser) as new_page:
        notebook = Notebook(lab, new_page(), f"{served}/views.ipynb")
        notebook.run()
        assert notebook.errors() == []
        yield notebook
    lab.forget_kernels()


def picture(view) -> str:
    """What the canvas shows, as text that can be compared."""
    return view.locator("canvas").evaluate("canvas => canvas.toDataURL()")


# Before the others: its end stops every kernel.
def test_a_clone_that_is_not_trusted_shows_pictures(open_notebook):
    """As shipped: outputs are there, JupyterLab runs nothing that it has not been told to."""
    page = open_notebook("shipped.ipynb").page
    picture = page.locator(".jp-RenderedImage img")
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 100
    assert page.locator(".d2l-attention").count() == 0


def test_attention_view_answers_hand_and_eye(notebook, record_property):
    page = notebook.page
    page.on("dialog", lambda dialog: pytest.fail(f"a token ran as code: {dialog.message}"))
    view = page.locator(".d2l-attention").first
    view.scroll_into_view_if_needed()
    readout, plot = view.locator(".readout"), view.locator(".plot")
    assert view.locator("svg text", has_text="<img src=x onerro").count() == 2
    assert view.locator("img").count() == 0

    plot.focus()
    for key in ["ArrowRight"] * 9:
        page.keyboard.press(key)
    assert readout.inner_text().startswith(f'query "the", key "{IMAGE_TOKEN}": 0.')
    for key in ["ArrowDown"] + ["ArrowLeft"] * 7:
        page.keyboard.press(key)
    assert readout.inner_text().startswith('query "animal", key "animal": 0.')
    assert readout.inner_text().endswith("reference: 1")

    seen = {picture(view)}
    for name in ["head 2", "all heads", "Show lines", "head 8", "Show heat map"]:
        view.get_by_role("button", name=name).click()
        seen.add(picture(view))
    assert len(seen) == 6

    slider = view.get_by_role("slider")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert picture(view) not in seen
    assert view.get_by_text("frame 2 (2 of 12)").is_visible()

    view.get_by_role("button", name="Play").click()
    # A slow machine may look when several frames have passed, or all: then 'Play' is back.
    page.wait_for_function("slider => slider.value > 1", arg=slider.element_handle())
    view.evaluate(PAUSE)

    label = view.locator("svg text", has_text="animal").first.bounding_box()
    page.mouse.move(label["x"] + label["width"] + 20, label["y"] + label["height"] / 2)
    assert readout.inner_text().startswith('query "animal", key "the": 0.')
    view.get_by_role("button", name="head 1").click()
    record_property("latency", f"AttentionView, frame of 9 x 9: {key_to_paint(view, slider)}")


def test_explore_follows_its_controls(notebook, record_property):
    page = notebook.page
    image = page.locator(".widget-image")
    image.scroll_into_view_if_needed()
    message = page.locator("[role=alert]")
    handle = page.locator(".noUi-handle").first
    assert page.locator(".widget-label", has_text="temperature").is_visible()

    def moved(action) -> None:
        before = image.get_attribute("src")
        action()
        page.wait_for_function(
            "before => document.querySelector('.widget-image').src !== before", arg=before
        )

    handle.focus()
    moved(lambda: page.keyboard.press("ArrowRight"))
    moved(lambda: page.get_by_label("grid").click())
    moved(lambda: page.get_by_role("button", name="hardmax").click())

    handle.focus()
    page.keyboard.press("End")
    message.wait_for()
    assert message.inner_text() == "ValueError: too hot for <b>keys</b>"
    moved(lambda: page.keyboard.press("Home"))
    message.wait_for(state="detached")
    record_property("latency", f"explore, slider: {key_to_image(page, handle)}")


def test_pictures_for_the_eye(notebook, record_property):
    """Both themes, few and many tokens: to be looked at, see ``Notebook.screenshot``."""
    views = notebook.page.locator(".d2l-attention")
    views.nth(2).wait_for()
    for theme in ["Light", "Dark"]:
        notebook.use_theme(theme)
        ground = views.first.evaluate("view => getComputedStyle(view).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (theme == "Light")
        for name, view in zip(["nine", "two", "sixty"], views.all()[:3], strict=True):
            for mode in ["lines", "heat map"]:
                view.scroll_into_view_if_needed()
                view.get_by_role("button", name=f"Show {mode}").click()
                notebook.screenshot(f"{name}-{mode}-{theme}", view)
        notebook.screenshot(f"explore-{theme}", notebook.page.locator(".widget-vbox").first)
    times = views.nth(2).evaluate(CLICK_HEADS)
    record_property("latency", f"AttentionView, head of 60 x 60: {summary(times)}")


PAUSE = """view => [...view.querySelectorAll("button")]
    .find((button) => button.textContent === "Pause")?.click()"""

# From the click on a head to the picture of it; all heads at first, then each in turn.
CLICK_HEADS = """view => [...view.querySelectorAll(".heads button")].map((button) => {
    const start = performance.now();
    button.click();
    view.querySelector("canvas").getContext("2d").getImageData(0, 0, 1, 1);
    return performance.now() - start;
})"""


def small_view() -> AttentionView:
    return AttentionView([[[0.25, 0.75]], [[1.0, 0.0]]], ["q"], ["a", "b"], heads=["left", "right"])


def test_without_a_kernel(new_page):
    """The saved state and a model of four functions are enough, as in exported slides."""
    state = {name: value for name, value in small_view().get_state().items() if name != "layout"}
    page = new_page()
    page.set_content("<div id=view></div>")
    page.evaluate(FOUR_FUNCTIONS, state)
    page.locator(".plot").focus()
    assert page.locator(".readout").inner_text() == 'query "q", key "a": 0.25'
    page.keyboard.press("ArrowRight")
    assert page.locator(".readout").inner_text() == 'query "q", key "b": 0.75'
    page.get_by_role("button", name="right").click()
    page.locator(".plot").focus()
    assert page.locator(".readout").inner_text() == 'query "q", key "a": 1'

    other = {"shape": [1, 1, 1, 1], "weights_text": "0.5", "key_labels": ["c"]}
    page.evaluate("other => Object.entries(other).forEach((pair) => model.set(...pair))", other)
    page.locator(".plot").focus()
    assert page.locator(".readout").inner_text() == 'query "q", key "c": 0.5'
    assert page.get_by_role("button").count() == 1


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
