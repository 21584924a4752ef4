"""The site in a real Chromium, opened from its folder: no network, no kernel."""

import re
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import nbformat
import pytest
from accessibility import contrast_harms, harms
from PIL import Image
from site_build import CHAPTERS, ROOT, WITH_SLIDES

from d2l_attention.exercises.engine.examine import NOT_ATTEMPTED
from notebooks.publish.gates import answers
from notebooks.publish.site.picture import PICTURE as README_PICTURE
from notebooks.publish.site.picture import WINDOW, take_picture

PAGES = ["index", *CHAPTERS, "instructors", "lab", "what_needs_what", "changes", "search"]
PAGES += ["api/index", "api/views", "_modules/index"]
# What is wrong on a page that has been typeset, in words.
PROBLEMS = """async () => {
  await window.MathJax?.startup.promise;
  const problems = [];
  const complain = (text, found) => found.length && problems.push(`${text}: ${found.length}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  complain("equations with an error", all("mjx-merror, [data-mjx-error]"));
  const typeset = (math) => math.querySelector("mjx-container");
  complain("equations not typeset", all(".math").filter((math) => !typeset(math)));
  complain("pictures missing", all("img").filter((image) => image.complete && !image.naturalWidth));
  complain("views not drawn", all("img.live-view"));
  const ratio = (image) => {
    const style = getComputedStyle(image);
    const [left, right, top, bottom, width, height] =
      ["paddingLeft", "paddingRight", "paddingTop", "paddingBottom", "width", "height"].map(
        (name) => parseFloat(style[name]));
    return (width - left - right) / (height - top - bottom)
      / (image.naturalWidth / image.naturalHeight);
  };
  complain("pictures squeezed", all("img").filter((image) => Math.abs(ratio(image) - 1) > 0.01));
  document.querySelectorAll("details.hide").forEach((fold) => (fold.open = true));
  const cut = (box) => box.clientWidth && box.scrollWidth > box.clientWidth + 1;
  const boxes = all(".cell_input pre, .cell_output :is(pre, table, .text_html)");
  if (innerWidth >= 1280) complain("code or output is cut", boxes.filter(cut));
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) problems.push(`wider than the window by ${wide} px`);
  return problems;
}"""
# Letters are drawn 14 high or more: below 70% of their size nobody reads them.
TOO_SMALL_ON_A_PHONE = """[...document.querySelectorAll('.cell_output img[width]')]
    .map((img) => [img.alt, img.getBoundingClientRect().width / img.getAttribute('width')])
    .filter(([alt, size]) => size > 0 && size < 0.7)
    .map(([alt, size]) => `drawn at ${Math.round(100 * size)}% on a phone: ${alt}`)"""
OPEN_GATES = "document.querySelectorAll('.gate').forEach((gate) => gate.requestSubmit())"
# How the names of pages of other kinds than PAGES begin, and of those that are not the site's own.
OTHERS, LISTINGS, NOT_OURS = ("api", "notes"), "_modules", ("_static", "slides")
ADD_LISTINGS = """(listings) =>
  document.querySelector(".highlight").insertAdjacentHTML("beforeend", listings.join(""))"""
# 'img "..."' with fewer letters than this describes no picture.
SHORTEST = 40
# The kinds of text, by their colours, whose contrast a page of this process has shown already.
SEEN = {"light": set(), "dark": set()}
PICTURE = "(view) => view.querySelector('canvas').toDataURL()"


@pytest.fixture
def open_page(site, new_page):
    """A function that opens pages of the site; whatever the browser complains of is kept."""
    complaints = []

    def open_page(address, **options):
        page = new_page(**options)
        page.on("pageerror", lambda error: complaints.append((address, str(error))))
        page.on("console", lambda m: m.type == "error" and complaints.append((address, m.text)))
        page.on("requestfailed", lambda request: complaints.append((address, request.url)))
        page.goto(f"file://{site}/{address}")
        return page

    yield open_page
    assert complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_page(open_page, name):
    """The page is whole at both widths and in both themes; nothing stands in the way of anyone.

    What a screen reader says of its pictures is read from the accessibility tree.
    """
    page = open_page(f"{name}.html", color_scheme="light")
    page.wait_for_function("!document.querySelector('img.live-view')")
    assert page.locator(".gate").count() == predictions(name)
    assert NOT_ATTEMPTED.message not in page.content()
    page.evaluate(OPEN_GATES)
    found = page.evaluate(PROBLEMS) + harms(page, SEEN["light"])
    use_dark(page)
    found += contrast_harms(page, SEEN["dark"])
    for width in (1920, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        found += page.evaluate(PROBLEMS)
    found += page.evaluate(TOO_SMALL_ON_A_PHONE)
    pictures = page.locator(".cell_output :is(img:not(.on-paper), svg.schematic)")
    words = [picture.aria_snapshot() for picture in pictures.all()]
    assert words or name not in CHAPTERS
    found += [f"hardly described: {line}" for line in words if len(line) <= SHORTEST]
    assert not found, "\n".join(found)


def predictions(name) -> int:
    """How many a chapter asks for; other pages ask for none."""
    if name not in CHAPTERS:
        return 0
    found = answers(nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells)
    assert found
    return len(found)


def pages_of(site, kind) -> list[str]:
    """Those that ``test_page`` does not open."""
    files = [file.relative_to(site).as_posix() for file in site.rglob("*.html")]
    known = (*OTHERS, LISTINGS, *NOT_OURS)
    assert all(name.startswith(known) or name[:-5] in PAGES for name in files)
    names = sorted(name for name in files if name.startswith(kind) and name[:-5] not in PAGES)
    assert len(names) > 5
    return names


@pytest.mark.parametrize("kind", OTHERS)
def test_pages_of_the_reference_and_the_notes(open_page, site, kind):
    """Under axe-core, one after the other in one window."""
    names = pages_of(site, kind)
    page, found = open_page(names[0], color_scheme="light"), []
    for name in names:
        page.emulate_media(color_scheme="light")
        page.goto(f"file://{site}/{name}")
        found += [f"{name}: {line}" for line in harms(page, SEEN["light"])]
        use_dark(page)
        found += [f"{name}: {line}" for line in contrast_harms(page, SEEN["dark"])]
    assert not found, "\n".join(found)


def test_listings_of_the_package(open_page, site):
    """Their pages differ in the listing alone: one, under axe-core, is given those of all."""
    names = pages_of(site, LISTINGS)
    pages = [(site / name).read_text("utf-8") for name in names]
    listings = [re.findall(r"<pre>.*</pre>", text, re.DOTALL) for text in pages]
    assert [len(found) for found in listings] == [1] * len(names)
    page = open_page(names[0], color_scheme="light")
    page.evaluate(ADD_LISTINGS, [found[0] for found in listings[1:]])
    found = harms(page, SEEN["light"])
    use_dark(page)
    found += contrast_harms(page, SEEN["dark"])
    assert not found, "\n".join(found)


def use_dark(page) -> None:
    page.add_style_tag(content="* { transition: none !important }")  # no colours in between
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")


def test_the_search_works_in_a_folder(open_page):
    page = open_page("search.html?q=causal")
    page.wait_for_selector("#search-results a[href*='04_masked_softmax.html']")
    page.wait_for_selector("#search-results a[href*='d2l_attention.causal_mask']")


def test_a_view_answers_without_a_kernel(open_page):
    view = open_page("06_multi_head_attention.html").locator(".d2l-attention").first
    before = view.evaluate(PICTURE)
    view.get_by_role("group", name="heads").get_by_role("button").nth(2).click()
    assert view.evaluate(PICTURE) != before
    frames = []
    for key in ("Home", "End"):
        view.get_by_role("slider").press(key)
        frames.append(view.evaluate(PICTURE))
    assert frames[0] != frames[1]
    view.locator(".plot").hover(position={"x": 200, "y": 150})
    assert 'query "' in view.locator(".readout").inner_text()


def test_a_view_that_python_drew_ahead_moves(open_page):
    """With the small pictures of site_build.py: those of the decks are tried in test_decks.py."""
    page = open_page(f"{WITH_SLIDES}.html")
    place = page.locator(".frames")
    page.locator("img.drawn-ahead, .frames").scroll_into_view_if_needed()
    place.locator("canvas[data-shown]").wait_for()
    assert page.locator("img.drawn-ahead").count() == 0
    canvas = place.locator("canvas")
    pictures = [canvas.screenshot()]
    for act in (
        lambda: place.get_by_role("slider").press("ArrowRight"),
        lambda: place.get_by_role("button", name="hot").click(),
        lambda: place.get_by_role("checkbox").click(),
    ):
        before = canvas.get_attribute("data-shown")
        act()
        place.locator(f"canvas:not([data-shown='{before}'])").wait_for()
        pictures.append(canvas.screenshot())
    assert len(set(pictures)) == 4
    size = "(canvas) => [canvas.clientWidth / canvas.clientHeight, canvas.width / canvas.height]"
    seen, drawn = canvas.evaluate(size)
    assert abs(seen / drawn - 1) < 0.01


def test_where_no_pictures_were_drawn_ahead_the_page_says_where_they_move(open_page):
    page = open_page("04_masked_softmax.html")
    assert "in JupyterLab and in the slides" in page.locator(".moves-elsewhere").inner_text()
    assert page.locator("input[type=range]").count() == 0


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_folded_cell_is_called_by_what_it_does(site, name):
    text = (site / f"{name}.html").read_text("utf-8")
    assert "Show the source" not in text
    folds = re.findall(r'<p class="collapsed admonition-title">(.*?)</p>', text)
    assert folds and all(len(fold) > 8 for fold in folds), folds


def test_the_switch_of_the_theme_reaches_views_and_answers(open_page):
    page = open_page("00_start_here.html", color_scheme="light")
    view = page.locator(".d2l-attention").first
    ground = "(view) => getComputedStyle(view).backgroundColor"
    light = view.evaluate(ground)
    page.locator("button.theme-switch-button:visible").click()
    page.locator(
        "[data-bs-theme-value=dark]:visible, .dropdown-item:has-text('Dark')"
    ).first.click()
    page.wait_for_selector("html[data-theme=dark]")
    assert light == "rgb(255, 255, 255)" and view.evaluate(ground) != light
    answer = page.locator(".cell_output .text_html").first
    assert answer.evaluate(ground) == "rgba(0, 0, 0, 0)"


@pytest.fixture
def address(site):
    """The site as a web server gives it out, which no file:// address can stand for."""
    handler = partial(QuietHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def copyfile(self, *files):
        with suppress(ConnectionError):  # the page has moved on
            super().copyfile(*files)


def test_the_published_site_hands_out_notebooks_and_excerpts(address, new_page):
    page = new_page()
    page.goto(f"{address}/03_scoring_functions.html")
    with page.expect_download() as download:
        page.get_by_role("link", name="Notebook").click()
    assert download.value.suggested_filename == "03_scoring_functions.ipynb"
    page.locator("a.right-next").click()
    assert page.url.endswith("/04_masked_softmax.html")
    page.goto(f"{address}/search.html?q=causal")
    page.wait_for_selector("#search-results .context")


def test_a_word_that_is_hidden_is_missed_on_the_first_page(open_page):
    page = open_page("index.html")
    english, french = page.locator("#front-view .words").all()
    lines, says = page.locator("#front-view path"), page.locator("#front-view .says")
    assert french.inner_text().split() == ["elle", "ne", "lit", "pas", "ces", "livres"]
    before = lines.count()
    for _ in range(5):  # the keyboard is there at once
        page.keyboard.press("Tab")
        if english.locator("button:focus").count():
            break
    english.get_by_role("button", name="not").press("Enter")
    assert french.locator("del").all_inner_texts() == ["ne", "pas"]
    assert says.inner_text().startswith("Without ‘not’, the French loses ‘ne’ and ‘pas’. Click")
    assert 0 < lines.count() < before
    english.get_by_role("button", name="not").click()
    english.get_by_role("button", name="does").click()
    assert french.locator("del").count() == 0 and "the French stays" in says.inner_text()
    page.get_by_role("button", name="the small house is old").click()
    english.get_by_role("button", name="old").click()
    assert says.inner_text().startswith("Without ‘old’, ‘vieille’ becomes ‘blanche’.")
    assert french.locator("mark").all_inner_texts() == ["blanche"]
    page.get_by_text("Your own sentence").click()
    whole = page.locator("#front-more .d2l-translator")
    whole.get_by_role("textbox").fill("he sees her")
    whole.get_by_text("il la voit").wait_for()


def test_the_first_page_is_above_the_fold_on_a_phone(open_page):
    page = open_page("index.html")
    page.set_viewport_size({"width": 390, "height": 844})
    box = page.locator(".course-map").bounding_box()
    assert box["y"] + box["height"] <= 844
    for map_link in page.locator(".course-map a").all():
        assert map_link.get_attribute("href")[:2] in {name[:2] for name in CHAPTERS}
    assert page.locator(".course-map a").count() == len(CHAPTERS)


def test_the_readme_shows_today_s_first_page(open_page, tmp_path):
    """Seen from afar, where fonts do not matter."""
    page = open_page("index.html", color_scheme="light")
    page.set_viewport_size(WINDOW)
    take_picture(page, tmp_path / "now.png")
    seen = [seen_from_afar(path) for path in (README_PICTURE, tmp_path / "now.png")]
    apart = [abs(old - new) for old, new in zip(*seen, strict=True)]
    assert sum(apart) / len(apart) < 6, "python -m notebooks.publish.site.picture takes a new one"


def seen_from_afar(path):
    return Image.open(path).convert("L").resize((24, 24)).tobytes()


def test_one_role_lights_the_others_for_hand_and_keyboard(open_page):
    """In the formula, in the code and in the schematic; K, which counts the keys, has no role."""
    page = open_page("01_queries_keys_values.html", color_scheme="light")
    page.wait_for_selector(".roles")
    kinds = ["mjx-container", ".highlight", "strong", "svg.schematic"]
    marked = (
        "kind => [...document.querySelectorAll(kind + ' [data-role], ' + kind + '[data-role]')]"
    )
    for kind in kinds:
        roles = set(page.evaluate(f"({marked})('{kind}').map((each) => each.dataset.role)"))
        assert roles == {"query", "key", "value", "weight"}, kind
    assert page.locator("mjx-container [data-c='1D43E'][data-role]").count() == 0
    key, value = (page.locator(f".highlight [data-role={role}]").first for role in ("key", "value"))
    faded = "each => getComputedStyle(each).opacity"
    key.hover()
    assert key.evaluate(faded) == "1" and value.evaluate(faded) == "0.3"
    page.mouse.move(0, 0)
    assert value.evaluate(faded) == "1"
    page.locator(".roles button[data-role=value]").focus()
    assert key.evaluate(faded) == "0.3" and value.evaluate(faded) == "1"
    value_in_both = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        value_in_both.append(value.evaluate("each => getComputedStyle(each).color"))
    assert len(set(value_in_both)) == 2


def test_a_letter_with_another_meaning_has_no_role(open_page):
    """The v of w_v in 03, the value that ``F.pad`` fills in, the k that counts keys in 02."""
    page = open_page("03_scoring_functions.html")
    page.wait_for_selector("mjx-container [data-role=query]")
    last = page.locator(
        "[data-mml-node^=msub]:has(> [data-mml-node=mi]:first-child [data-c='1D464'])"
    )
    assert last.count() and last.locator("[data-role]").count() == 0
    page = open_page("07_self_attention_and_positions.html")
    page.wait_for_selector(".highlight [data-role=value]")
    given = page.locator(".highlight .n", has_text="value").evaluate_all(
        "all => all.filter((e) => e.nextSibling.textContent === '=').map((e) => e.dataset.role)"
    )
    assert given and not any(given)
    assert open_page("02_attention_pooling.html").locator(".roles").count() == 0
