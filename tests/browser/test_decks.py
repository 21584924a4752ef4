"""Every slide of every deck in Chromium: nothing leaves it, all is typeset, nothing is asked for.

The decks are those of build/slides; what is out of date there is made anew first. What a deck can
do is tried on a small one, of which these tests know what stands where.
"""

import re
from base64 import b64encode
from pathlib import Path

import nbformat
import pytest
import torch
from accessibility import harms
from conftest import WAIT_SECONDS
from ipywidgets.embed import dependency_state
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from slide_report import DECKS, ROOT, open_deck, problems_of

from d2l_attention.views import AttentionView
from notebooks.publish.slides.__main__ import is_current
from notebooks.publish.slides.deck import export

NAMES = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
SIZES = [(1280, 720), (1920, 1080)]
MOST_BYTES = 8_000_000
# 'img "..."' with fewer letters than this describes no picture.
SHORTEST = 40
# One below the other: what lies outside the window, or below another slide, axe does not judge.
SHOW_ALL_SLIDES = """() => {
  const style = document.createElement("style");
  style.textContent = `
    html, body, .reveal-viewport, .reveal, .reveal .slides { position: static !important;
      height: auto !important; overflow: visible !important; transform: none !important }
    .reveal .slides section, .reveal .fragment { display: block !important;
      position: relative !important; inset: auto !important; visibility: visible !important;
      opacity: 1 !important; transform: none !important }
    .reveal .controls, .reveal .progress, .reveal .slide-number { display: none !important }`;
  document.head.append(style);
  for (const section of document.querySelectorAll(".slides section")) {
    section.hidden = false;
    section.removeAttribute("aria-hidden");
  }
}"""
# The kinds of text whose contrast a deck of this process has shown already.
SEEN = set()
HARMLESS = ("file:", "data:", "blob:", "about:")


def deck(name: str) -> Path:
    """The file of a deck, as its notebook is now."""
    file, notebook = DECKS / f"{name}.html", ROOT / "notebooks" / f"{name}.ipynb"
    if not is_current(file, notebook):
        DECKS.mkdir(parents=True, exist_ok=True)
        export(notebook, file)
    return file


DRAW = """
from d2l_attention.views import explore

def draw(fig, x=1, bold=False):
    fig.text(0.2 * x, 0.5, "here", weight="bold" if bold else "normal")

explore(draw, figsize=(6, 2), x=(0, 4), bold=False)
"""


@pytest.fixture(scope="session")
def small_deck(tmp_path_factory) -> Path:
    """A deck of three slides: a title with notes, an attention view, an ``explore`` view."""
    folder = tmp_path_factory.mktemp("small")
    torch.manual_seed(0)
    weights = torch.rand(2, 3, 4, 5).softmax(dim=-1)  # frames, heads, queries, keys
    view = AttentionView(weights, list("abcd"), list("vwxyz"), title="$5 </script>")
    states = dependency_state([view], drop_defaults=False)
    picture = b64encode(view.still()).decode()
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": view.model_id}}

    def cell(source, kind, text, tags=(), **data):
        data = {"text/plain": text, "image/png": picture} | data
        metadata = {"slideshow": {"slide_type": kind}, "tags": list(tags)}
        outputs = [new_output("execute_result", data=data)]
        return new_code_cell(source, outputs=outputs, metadata=metadata)

    def words(source, kind):
        return new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}})

    cells = [
        words("# Small $\\sqrt{d}$\n\n**You will** see.", "slide"),
        words("Ask about $\\alpha$ and wait.", "notes"),
        words("## A view", "slide"),
        cell("...", "fragment", "AttentionView(...)", ["hide-input"], **widget),
        words("## A figure", "subslide"),
        cell(DRAW, "-", "explore(x=1, bold=False): words", ["hide-input"]),
        words("End", "slide"),
    ]
    mime = "application/vnd.jupyter.widget-state+json"
    book = new_notebook(cells=cells, metadata={"widgets": {mime: {"state": states}}})
    nbformat.write(book, folder / "small.ipynb")
    export(folder / "small.ipynb", folder / "small.html")
    return folder / "small.html"


@pytest.fixture
def show(browser):
    """A function that opens a deck; after the test, no page may have complained or asked."""
    contexts, wrong = [], []

    def listen(page):
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))

    def open_page(path, size=(1280, 720), query="", **options):
        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(WAIT_SECONDS * 1000)
        contexts.append(context)
        context.on("page", listen)
        context.on(
            "request",
            lambda request: request.url.startswith(HARMLESS) or wrong.append(request.url),
        )
        page = context.new_page()
        page.on("websocket", lambda socket: wrong.append(socket.url))
        open_deck(page, path, query)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong, wrong


def slide_with(page, selector):
    """Go to the first slide that holds ``selector``, with all its fragments shown."""
    page.evaluate(
        """(selector) => {
            const slide = document.querySelector(selector).closest("section");
            const { h, v } = Reveal.getIndices(slide);
            Reveal.slide(h, v, slide.querySelectorAll(".fragment").length);
        }""",
        selector,
    )
    return page.locator(f"section.present section.present {selector}").first


def pixels(canvas):
    return canvas.evaluate("(canvas) => canvas.toDataURL()")


def wait_for_another(canvas, before):
    other = "([canvas, before]) => canvas.toDataURL() !== before"
    canvas.page.wait_for_function(other, arg=[canvas.element_handle(), before])


@pytest.mark.parametrize("name", NAMES)
def test_deck(show, name):
    """Every slide holds what stands on it, at two sizes; nothing stands in the way of anyone.

    axe-core sees the deck as it opens, then all its slides at once.
    """
    file = deck(name)
    assert file.stat().st_size < MOST_BYTES  # small enough to be sent
    page = show(file)
    found = harms(page, SEEN)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("Reveal.layout()")
        found += [f"{width} x {height}: {problem}" for problem in problems_of(page, name)]
    page.evaluate(SHOW_ALL_SLIDES)
    found += harms(page, SEEN)
    pictures = page.locator(".cell img.figure, .cell canvas.figure")
    words = [picture.aria_snapshot() for picture in pictures.all()]
    assert words, "a deck without a picture"
    found += [f"hardly described: {line}" for line in words if len(line) <= SHORTEST]
    if found:
        pytest.fail("\n" + "\n".join(found), pytrace=False)


def test_the_eyes_see_what_is_wrong(show, small_deck):
    """Break slides on purpose: the test above must say so."""
    page = show(small_deck)
    assert not [problem for problem in problems_of(page, "") if problem.slide == 1]
    page.evaluate(
        """() => {
            const cell = document.querySelector("section.slide .cell");
            cell.insertAdjacentHTML("beforeend", `
              <p style="margin-top: 700px">low</p><p style="width: 1500px">wide</p><p>$x$</p>
              <div class="source"><pre>${"long ".repeat(100)}</pre></div><img src="data:,">
              <mjx-merror>bad</mjx-merror>`);
        }"""
    )
    found = " ".join(str(problem) for problem in problems_of(page, "d") if problem.slide == 1)
    for words in ("at the bottom by", "at the right by", "not typeset", "cut off", "missing"):
        assert words in found
    assert "equation with an error" in found


def test_axe_sees_slides_that_are_not_on_show(show, small_deck):
    page = show(small_deck)
    pale = """() => Reveal.getSlides().at(-1).querySelector(".content")
        .insertAdjacentHTML("beforeend", "<p style='color: #999'>pale</p>")"""
    page.evaluate(pale)
    assert harms(page, set()) == []
    page.evaluate(SHOW_ALL_SLIDES)
    (found,) = harms(page, set())
    assert found.startswith("color-contrast") and "pale" in found


def test_a_view_lives_without_a_kernel(show, small_deck):
    page = show(small_deck, (1920, 1080))
    view = slide_with(page, ".view")
    canvas = view.locator("canvas")
    at_first = pixels(canvas)
    view.locator(".heads button").nth(2).click()
    one_head = pixels(canvas)
    assert one_head != at_first
    slider = view.locator("input[type=range]")
    slider.fill("1")
    assert pixels(canvas) != one_head
    # Slides are scaled: the cell under the pointer must be the one that is named.
    plot = view.locator(".plot")
    labels = plot.locator("svg text")
    row = labels.filter(has_text=re.compile("^d$")).first.bounding_box()
    column = labels.filter(has_text=re.compile("^z$")).first.bounding_box()
    x, y = (column["x"] + column["width"] / 2, row["y"] + row["height"] / 2)
    page.mouse.move(x, y)
    assert 'query "d", key "z"' in view.locator(".readout").inner_text()


def test_a_click_in_a_view_leaves_the_keys_to_the_slides(show, small_deck):
    page = show(small_deck)
    slide_with(page, ".view").locator(".heads button").nth(1).click()
    before = page.evaluate("Reveal.getSlidePastCount()")
    page.keyboard.press("PageDown")
    page.wait_for_function(f"Reveal.getSlidePastCount() > {before}")


def test_sliders_of_an_explore_view_move_its_picture(show, small_deck):
    page = show(small_deck)
    frames = slide_with(page, ".frames")
    canvas = frames.locator("canvas")
    at_first = pixels(canvas)
    slider = frames.locator("input[type=range]").first
    slider.focus()
    slide = page.evaluate("Reveal.getSlidePastCount()")
    page.keyboard.press("ArrowRight")
    wait_for_another(canvas, at_first)
    assert page.evaluate("Reveal.getSlidePastCount()") == slide  # the key was the slider's
    moved = pixels(canvas)
    frames.locator("input[type=checkbox]").check()
    wait_for_another(canvas, moved)


def test_the_speakers_window_shows_notes_and_follows(show, small_deck):
    page = show(small_deck)
    page.evaluate(
        """() => {
            const slide = document.querySelector("section.slide:has(aside.notes)");
            const { h, v } = Reveal.getIndices(slide);
            Reveal.slide(h, v);
        }"""
    )
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    speaker = opened.value
    notes = speaker.locator(".speaker-controls-notes .value")
    notes.wait_for()
    assert re.fullmatch(r"Ask about .+ and wait\.", notes.inner_text().strip(), re.DOTALL)
    assert notes.locator("mjx-container svg").count() == 1  # the equation came along
    now = speaker.frame_locator("#current-slide iframe")
    now.locator("section.present section.present .cell").first.wait_for()


def test_escape_shows_all_slides_and_a_question_mark_the_keys(show, small_deck):
    page = show(small_deck)
    page.keyboard.press("Escape")
    page.wait_for_function("Reveal.isOverview()")
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+?")
    page.get_by_text("Keyboard Shortcuts").wait_for()


def test_print_has_one_page_a_slide_and_shows_fragments(show, small_deck):
    page = show(small_deck, query="?print-pdf")
    slides = page.evaluate("document.querySelectorAll('section.slide').length")
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    assert pdf.count(b"/Type /Page\n") == slides
    hidden = """[...document.querySelectorAll(".pdf-page .fragment")].filter(
        (part) => !part.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    ).length"""
    assert page.evaluate(hidden) == 0
    cut = """[...document.querySelectorAll(".pdf-page")].filter((page) => {
        const slide = page.querySelector("section.slide").getBoundingClientRect();
        const box = page.getBoundingClientRect();
        return slide.bottom > box.bottom + 1 || slide.right > box.right + 1;
    }).length"""
    assert page.evaluate(cut) == 0


def test_a_dark_browser_shows_the_same_light_slides(show, small_deck):
    colours = """() => ["body", "h2", ".d2l-attention", ".d2l-attention button"].map((part) => {
        const style = getComputedStyle(document.querySelector(part) ?? document.body);
        return [part, style.color, style.backgroundColor];
    })"""
    seen = [show(small_deck, color_scheme=name).evaluate(colours) for name in ("light", "dark")]
    assert seen[0] == seen[1]
    assert seen[0][0][2] == "rgb(255, 255, 255)"


def test_every_slide_names_its_section(show, small_deck):
    page = show(small_deck)
    where = page.locator("section.slide .place").all_text_contents()
    figure = "Small d · A figure"
    assert where == ["Small d", "Small d · A view", figure, figure]


def test_the_step_of_a_run_stands_beside_its_slider(show):
    """Seen: the steps of both runs lay on each other, at the slide's lower edge."""
    page = show(deck("12_the_bug_museum"))
    slide_with(page, ".d2l-watch")
    boxes = "(all) => all.map((each) => each.getBoundingClientRect()).map((box) => [box.x, box.y])"
    views = page.locator("section.present section.present .d2l-watch")
    steps, sliders = (views.locator(part).evaluate_all(boxes) for part in (".where", "input"))
    assert len(steps) == len(sliders) == 2
    for step, slider in zip(steps, sliders, strict=True):
        assert step[0] > slider[0] and abs(step[1] - slider[1]) < 20


def test_the_rooms_prediction_is_kept_and_goes_along_to_the_answers_slide(show):
    page = show(deck("02_attention_pooling"))
    field = slide_with(page, ".guess")
    slide = page.evaluate("Reveal.getSlidePastCount()")
    field.fill("none")
    field.press("s")  # a letter that would open the speaker's window
    field.press("Enter")
    assert page.evaluate("Reveal.getSlidePastCount()") == slide
    assert page.locator(".guessed").first.text_content() == "predicted: nones"
    page.reload()
    page.wait_for_function("document.documentElement.dataset.deck === 'ready'")
    assert page.locator(".guess").first.input_value() == "nones"
    assert page.locator(".guessed").first.text_content() == "predicted: nones"
