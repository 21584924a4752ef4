"""The views in a real JupyterLab: what the hand does, and what the eye then sees.

One notebook, run once, for all: each test moves views that no other minds.
"""

from textwrap import dedent

import nbformat
import pytest
from conftest import Notebook, opened_pages, wait_until
from latency import key_to_image, summary
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from test_look_inside import part, trail
from test_watch_view import changed

from d2l_attention.views import AttentionView

IMAGE_TOKEN = "<img src=x onerror=alert(1)>"
CELLS = {  # each with its place on the slides
    "attention, subslide": f"""
        import torch
        from d2l_attention.views import AttentionView, explore
        torch.manual_seed(0)
        tokens = "the animal did not cross the street because".split() + [{IMAGE_TOKEN!r}]
        weights = (2 * torch.randn(12, 8, 9, 9)).softmax(-1)
        AttentionView(weights, tokens, tokens, compare=torch.eye(9), title="Nine tokens")
    """,
    "explore, slide": """
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
    "sizes, skip": """
        from IPython.display import display
        for n in (2, 60):
            names = [f"token{i}" for i in range(n)]
            view = AttentionView((3 * torch.randn(8, n, n)).softmax(-1), names, names)
            view.head = -1
            display(view)
    """,
    "watch, skip": """
        from d2l_attention.views import watch

        def heads(X, W, num_heads):
            outputs = []
            for h in range(num_heads):
                q, k, v = (X @ W[:, h::num_heads] for _ in range(3))
                scores = q @ k.mT
                weights = scores.softmax(-1)
                outputs.append(weights @ v)
            return torch.cat(outputs, -1)

        watch(heads, torch.randn(1, 5, 8), torch.randn(8, 8), 2, axes={"scores": "BQK"})
    """,
    "inside, skip": """
        from d2l_attention.data import Vocab
        from d2l_attention.training.presets import MODELS
        from d2l_attention.views import look_inside

        torch.manual_seed(0)
        english, french = Vocab([["he", "sees", "her"]]), Vocab([["il", "la", "voit"]])
        model = MODELS["transformer"](len(english), len(french), 16)
        source = torch.tensor([english[["he", "sees", "her", "<eos>"]]])
        look_inside(model, source, source[:, :3], tokens={"source": list("abcd")})
    """,
    "translator, skip": """
        from d2l_attention.views import TranslatorView
        TranslatorView(model, english, french, sentence="he sees her")
    """,
    "translation, skip": """
        from d2l_attention.models.decoding import greedy_decode
        ends = {"bos": french["<bos>"], "eos": french["<eos>"]}
        found = greedy_decode(model.eval(), source, torch.tensor([4]), **ends, max_len=64)
        print(" ".join(french.to_tokens(found.sentences()[0])))
    """,
}


def notebook_of(cells):
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    cells = [new_markdown_cell("# First slide\n\nWho looks at whom?")]
    cells[0].metadata["slideshow"] = {"slide_type": "slide"}
    for name, code in CELLS.items():
        place = {"slideshow": {"slide_type": name.partition(", ")[2]}}
        cells.append(new_code_cell(dedent(code).strip(), metadata=place))
    nbformat.write(notebook_of(cells), folder / "views.ipynb")
    data, metadata = small_view()._repr_mimebundle_()
    outputs = [new_output("display_data", data=data, metadata=metadata)]
    shipped = notebook_of([new_code_cell("AttentionView", outputs=outputs)])
    nbformat.write(shipped, folder / "shipped.ipynb")
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


def test_attention_view_answers_hand_and_eye(notebook):
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


def test_explore_follows_its_controls(notebook, record_property):
    page = notebook.page
    image = page.locator(".widget-image")
    image.scroll_into_view_if_needed()
    message = page.locator(".widget-vbox [role=alert]")
    handle = page.locator(".noUi-handle").first
    assert page.locator(".widget-label", has_text="temperature").is_visible()

    def moved(action) -> None:
        before = image.get_attribute("src")
        action()
        page.wait_for_function(NEW_PICTURE, arg=before)

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


def test_watch_takes_its_keys_for_itself(notebook):
    page, view = notebook.page, notebook.page.locator(".d2l-watch")
    view.scroll_into_view_if_needed()
    view.get_by_role("slider").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert view.locator(".where").inner_text().startswith("step 5 of 14, line ")
    assert changed(page) == ["scores"]
    view.locator(".code").focus()
    page.keyboard.press("ArrowRight")
    assert changed(page) == ["weights"]


def test_look_inside_takes_its_keys_for_itself(notebook):
    page = notebook.page
    part(page, "decoder").focus()
    for key in ("Enter", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert trail(page) == ["EncoderDecoder", "decoder", "block 1"]
    page.keyboard.press("Escape")
    assert trail(page) == ["EncoderDecoder", "decoder"]


def test_the_kernel_sends_the_translator_its_own_model(notebook):
    view = notebook.page.locator(".d2l-translator")
    wait_until(lambda: view.locator("canvas.map").count() == 1, "the model has come")
    said = notebook.cells()[-1]["outputs"][0]["text"].strip()
    assert view.locator(".original").inner_text().strip() == said
    view.get_by_label("English:").fill("she sees her")
    unknown = view.locator(".trouble", has_text="The translator has never read")
    unknown.wait_for()


def test_pictures_for_the_eye(notebook, record_property):
    """Both themes, few and many tokens: to be looked at, see ``Notebook.screenshot``."""
    views = notebook.page.locator(".d2l-attention")
    views.nth(2).wait_for()
    for theme in ["Light", "Dark"]:
        notebook.use_theme(theme)
        ground = views.first.evaluate(GROUND)
        assert (ground == "rgb(255, 255, 255)") == (theme == "Light")
        for name, view in zip(["nine", "two", "sixty"], views.all()[:3], strict=True):
            for mode in ["lines", "heat map"]:
                view.scroll_into_view_if_needed()
                view.get_by_role("button", name=f"Show {mode}").click()
                notebook.screenshot(f"{name}-{mode}-{theme}", view)
        notebook.screenshot(f"explore-{theme}", notebook.page.locator(".widget-vbox").first)
        for kind in ("watch", "inside"):
            view = notebook.page.locator(f".d2l-{kind}").first
            assert view.evaluate(GROUND) == ground
            notebook.screenshot(f"{kind}-{theme}", view)
    times = views.nth(2).evaluate(CLICK_HEADS)
    record_property("latency", f"AttentionView, head of 60 x 60: {summary(times)}")


def test_a_lecture_in_jupyterlab_has_slides_with_views_that_answer(notebook):
    """Those of jupyterlab-slideshow."""
    page = notebook.page
    page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    heading = page.get_by_role("heading", name="First slide")
    view, image = page.locator(".d2l-attention").first, page.locator(".widget-image")
    notebook.command("deck:start")
    view.wait_for(state="hidden")
    assert heading.is_visible() and not image.is_visible()
    notebook.screenshot("live-slide")

    page.keyboard.press("ArrowDown")
    view.wait_for()
    heading.wait_for(state="hidden")
    view.get_by_role("button", name="head 3").click()
    assert view.locator("[aria-pressed=true]", has_text="head 3").count() == 1
    notebook.screenshot("live-view")

    notebook.command("deck:forward")
    image.wait_for()
    before = image.get_attribute("src")
    page.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(NEW_PICTURE, arg=before)
    notebook.screenshot("live-explore")

    notebook.command("deck:stop")
    view.wait_for()
    heading.wait_for()


def test_a_clone_that_is_not_trusted_shows_pictures(lab, served, notebook):
    """As shipped: outputs are there, JupyterLab runs nothing that it has not been told to."""
    shipped = Notebook(lab, notebook.page, f"{served}/shipped.ipynb")
    panel = notebook.page.locator(".jp-NotebookPanel:visible")
    picture = panel.locator(".jp-RenderedImage img")
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 100
    assert panel.locator(".d2l-attention").count() == 0
    shipped.close()


NEW_PICTURE = "before => document.querySelector('.widget-image').src !== before"

GROUND = "view => getComputedStyle(view).backgroundColor"

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


def test_without_a_kernel(shown):
    """The saved state and a model of four functions are enough, as in exported slides."""
    page = shown(small_view())
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
