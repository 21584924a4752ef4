"""The two views in a real JupyterLab: what the hand does, and what the eye then sees."""

import json
from statistics import median

import pytest

from d2l_attention.widgets import AttentionView

IMAGE_TOKEN = "<img src=x onerror=alert(1)>"
CELLS = {
    "attention": f"""
        import torch
        from d2l_attention.widgets import AttentionView, explore
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


def notebook_text() -> str:
    cells = [
        {
            "cell_type": "code",
            "id": name,
            "metadata": {},
            "source": "\n".join(line[8:] for line in code.strip("\n").splitlines()).strip(),
            "outputs": [],
            "execution_count": None,
        }
        for name, code in CELLS.items()
    ]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    )


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    (folder / "views.ipynb").write_text(notebook_text())
    return folder


@pytest.fixture
def notebook(open_notebook):
    notebook = open_notebook("views.ipynb")
    notebook.run_all()
    assert notebook.errors() == []
    return notebook


def picture(view) -> str:
    """What the canvas shows, as text that can be compared."""
    return view.locator("canvas").evaluate("canvas => canvas.toDataURL()")


def test_attention_view_answers_hand_and_eye(notebook, record_property):
    page = notebook.page
    page.on("dialog", lambda dialog: pytest.fail(f"a token ran as code: {dialog.message}"))
    view = page.locator(".d2l-attention").first
    view.scroll_into_view_if_needed()
    readout, plot = view.locator(".readout"), view.locator(".plot")
    assert view.locator("svg text", has_text="<img src=x onerro").count() == 2
    assert view.locator("img").count() == 0

    plot.focus()
    for key in ["ArrowDown", "ArrowDown", "ArrowRight"]:
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
    assert view.get_by_text("2 (2 of 12)").is_visible()

    view.get_by_role("button", name="Play").click()
    view.get_by_text("4 (4 of 12)").wait_for()
    view.get_by_role("button", name="Pause").click()

    x, y = plot.evaluate("plot => [plot.clientWidth - 40, plot.clientHeight - 40]")
    plot.hover(position={"x": x, "y": y})
    assert f'key "{IMAGE_TOKEN}"' in readout.inner_text()
    view.get_by_role("button", name="head 1").click()
    record_property("latency", f"AttentionView, frame: {key_to_paint(view, slider)}")
    view.get_by_role("button", name="all heads").click()
    record_property("latency", f"AttentionView, frame, all heads: {key_to_paint(view, slider)}")


def key_to_paint(view, slider) -> str:
    """From a key press on the slider to the frame that shows the new picture."""
    slider.evaluate("""slider => {
        window.times = [];
        let start;
        slider.addEventListener("keydown", (event) => (start = event.timeStamp));
        slider.addEventListener("input", () => requestAnimationFrame(() => {
            slider.closest(".d2l-attention").querySelector("canvas").getContext("2d")
                .getImageData(0, 0, 1, 1);
            window.times.push(performance.now() - start);
        }));
    }""")
    slider.focus()
    for key in ["ArrowLeft", "ArrowRight"] * 8:
        view.page.keyboard.press(key)
    return summary(view.page.evaluate("window.times"))


def summary(times: list[float]) -> str:
    return f"median {median(times):.0f} ms, slowest {max(times):.0f} ms of {len(times)}"


def test_explore_follows_its_controls(notebook, record_property):
    page = notebook.page
    image = page.locator(".widget-image")
    image.scroll_into_view_if_needed()
    message = page.locator("[role=alert]")
    handle = page.locator(".noUi-handle").first
    assert page.get_by_text("temperature").is_visible()

    def moved(action) -> None:
        before = image.get_attribute("src")
        action()
        page.wait_for_function(
            "before => document.querySelector('.widget-image').src !== before", arg=before
        )

    handle.focus()
    moved(lambda: page.keyboard.press("ArrowRight"))
    moved(lambda: page.get_by_label("grid").click())
    moved(lambda: page.locator(".widget-dropdown select").select_option("hardmax"))

    handle.focus()
    page.keyboard.press("End")
    message.wait_for()
    assert message.inner_text() == "ValueError: too hot for <b>keys</b>"
    moved(lambda: page.keyboard.press("Home"))
    message.wait_for(state="detached")
    record_property("latency", f"explore, slider: {key_to_image(page, handle)}")


def key_to_image(page, handle) -> str:
    """From a key press on the slider to the new picture, decoded."""
    page.evaluate("""() => {
        window.times = [];
        document.addEventListener("keydown", (event) => (window.start = event.timeStamp), true);
        document.addEventListener("load", (event) => {
            if (event.target.matches(".widget-image")) {
                window.times.push(performance.now() - window.start);
            }
        }, true);
    }""")
    handle.focus()
    for number in range(12):
        page.keyboard.press("ArrowLeft" if number % 2 else "ArrowRight")
        page.wait_for_function("number => window.times.length > number", arg=number)
    return summary(page.evaluate("window.times"))


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_pictures_for_the_eye(notebook, theme):
    notebook.use_theme(theme)
    views = notebook.page.locator(".d2l-attention")
    ground = views.first.evaluate("view => getComputedStyle(view).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (theme == "Light")
    for name, view in zip(["nine", "two", "sixty"], views.all(), strict=True):
        for mode in ["lines", "heat map"]:
            view.scroll_into_view_if_needed()
            view.get_by_role("button", name=f"Show {mode}").click()
            notebook.screenshot(f"{name}-{mode}-{theme}", view)
    notebook.screenshot(f"explore-{theme}", notebook.page.locator(".widget-vbox").first)


def test_without_a_kernel(new_page):
    """The saved state and a model of four functions are enough, as in exported slides."""
    view = AttentionView([[[0.25, 0.75]], [[1.0, 0.0]]], ["q"], ["a", "b"], heads=["left", "right"])
    state = {name: value for name, value in view.get_state().items() if name != "layout"}
    page = new_page()
    page.set_content("<div id=view></div>")
    page.evaluate(
        """async (state) => {
        const handlers = {};
        const model = {
            get: (name) => state[name],
            set: (name, value) => ((state[name] = value), handlers[`change:${name}`]?.()),
            on: (event, handler) => (handlers[event] = handler),
            save_changes: () => {},
        };
        const source = new Blob([state._esm], { type: "text/javascript" });
        const module = await import(URL.createObjectURL(source));
        module.default.render({ model, el: document.getElementById("view") });
    }""",
        state,
    )
    page.locator(".plot").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".readout").inner_text() == 'query "q", key "a": 0.25'
    page.get_by_role("button", name="head right").click()
    page.locator(".plot").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".readout").inner_text() == 'query "q", key "a": 1'
