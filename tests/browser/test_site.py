"""The site holds the whole course, every link in it leads somewhere, and nothing leaves it."""

import json
import re
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from site_build import CHAPTERS, ROOT, WITH_SLIDES

from notebooks.publish.cells import WIDGET_MIME, is_note
from notebooks.publish.text import read_text

MODULES = ["", ".data", ".training", ".models.decoding", ".training.evaluation", ".exercises"]
MODULES += [".real_models", ".views", ".views.plots", ".variants", ".scale.parallel", ".testing"]
LOADS = {"script": "src", "link": "href", "img": "src", "source": "src", "iframe": "src"}
STATE = "application/vnd.jupyter.widget-state+json"

chapters = pytest.mark.parametrize("name", CHAPTERS)


@pytest.fixture(scope="module")
def pages(site):
    """Address -> page, as parsed. (In _static, the theme leaves a template of its own.)"""
    return {
        path.relative_to(site).as_posix(): BeautifulSoup(path.read_text("utf-8"), "html.parser")
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }


@pytest.fixture
def page(pages, name):
    return pages[f"{name}.html"]


@pytest.fixture
def notebook(name):
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def test_the_pages_follow_each_other_from_the_start_page_on(pages):
    order, address = ["index.html"], "index.html"
    while link := pages[address].find("link", rel="next"):
        following = (Path(address).parent / link["href"]).as_posix()
        back = pages[following].find("link", rel="prev")["href"]
        assert Path(following).parent / back in (Path(address), Path("api", "..", address))
        order.append(address := following)
    notes = [f"notes_{name}" for name in CHAPTERS]
    expected = ["index", *CHAPTERS, "instructors", *notes]
    expected += ["lab", "what_needs_what", "changes", "api/index"]
    assert order[: len(expected)] == [f"{name}.html" for name in expected]
    assert {name for name in order if name.startswith("api/")} == {
        name for name in pages if name.startswith("api/")
    }


def test_the_side_bar_of_every_page_names_the_chapters_in_order(pages):
    for address, page in pages.items():
        if address.startswith("slides/") or address == "index.html":  # it has a map of them
            continue
        links = [Path(a.get("href")).stem for a in page.select("nav.bd-docs-nav a")]
        here = "#" if address.removesuffix(".html") in CHAPTERS else None
        expected = [name for name in CHAPTERS if f"{name}.html" != address or here is None]
        assert [link for link in links if link in CHAPTERS] == expected, address


def local_links(pages):
    for address, page in pages.items():
        for tag in page.find_all(["a", *LOADS]):
            link = tag.get(LOADS.get(tag.name, "href"))
            if link and not re.match(r"(https?|mailto|data):", link):
                yield address, link


def test_every_link_inside_the_site_leads_to_what_is_there(site, pages):
    anchors = {address: {tag["id"] for tag in p.find_all(id=True)} for address, p in pages.items()}
    lost, seen = [], 0
    for address, link in local_links(pages):
        parts = urlsplit(unquote(link))
        target = (site / address).parent / parts.path if parts.path else site / address
        seen += 1
        if not target.resolve().is_file():
            lost.append((address, link))
        elif parts.fragment and target.suffix == ".html":
            name = target.resolve().relative_to(site).as_posix()
            if parts.fragment not in anchors[name]:
                lost.append((address, link))
    assert lost == [] and seen > 1000


def test_no_page_loads_anything_from_elsewhere(site, pages):
    loaded = [
        tag[LOADS[tag.name]]
        for page in pages.values()
        for tag in page.find_all(LOADS)
        if tag.get(LOADS[tag.name])
    ]
    assert [address for address in loaded if re.match("(https?:)?//", address)] == []
    elsewhere = r"(@import|url\()[\s\"']*(https?:)?//"
    styles = [path for path in site.rglob("*.css") if re.search(elsewhere, path.read_text("utf-8"))]
    assert styles == []
    assert [
        a for a, page in pages.items() if re.search(elsewhere, str(page.find_all("style")))
    ] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_public_name(pages, module):
    module = import_module(f"d2l_attention{module}")
    names = getattr(module, "__all__", None) or [
        name
        for name, thing in vars(module).items()
        if getattr(thing, "__module__", "") == module.__name__ and thing.__doc__
    ]
    described = {
        tag["id"]
        for address, page in pages.items()
        if address.startswith("api/")
        for tag in page.select("dt.sig[id]")
    }
    assert [name for name in names if f"{module.__name__}.{name}" not in described] == []


def test_a_docstring_reads_as_its_author_meant_it(pages):
    entry = pages["api/index.html"].find(id="d2l_attention.gaussian_score").parent
    text = " ".join(entry.get_text(" ").split())
    assert "-|q - k|^2 / (2 width^2): its softmax is" in text
    fields = [tag.get_text() for tag in entry.select("dl.field-list dt")]
    assert fields == ["Shape:", "Errors:", "Source:"]
    shape = " ".join(entry.select_one("dl.field-list dd").get_text().split())
    assert shape.startswith("queries (*, Q, D), keys (*, K, D) -> (*, Q, K).")
    layer = pages["api/index.html"].find(id="d2l_attention.additive_score").parent
    assert layer.select_one("a[href='#d2l_attention.AdditiveAttention']")


def test_signs_of_docstrings_are_no_markup(pages):
    for address, page in pages.items():
        assert page.select(".problematic, .system-message") == [], address


def test_the_search_knows_the_words_of_the_chapters(site):
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert set(CHAPTERS) < set(index["docnames"])
    chapter = index["docnames"].index("04_masked_softmax")
    # A word of a heading stands among the titles' words only.
    found = [index[where].get("causal", []) for where in ("terms", "titleterms")]
    assert any(chapter in (each if isinstance(each, list) else [each]) for each in found)


@chapters
def test_a_chapter_offers_its_notebook_as_it_was_committed(site, page, name):
    link = page.select_one(".chapter-links a[download]")
    notebook = ROOT / "notebooks" / f"{name}.ipynb"
    assert (site / link["href"]).read_bytes() == notebook.read_bytes()
    assert Path(link["href"]).name == notebook.name


@chapters
def test_a_chapter_offers_its_slides_where_there_are_some(site, page, name):
    links = [link["href"] for link in page.select(".chapter-links a:not([download])")]
    assert links == ([f"slides/{name}.html"] if name == WITH_SLIDES else [])
    assert all((site / link).is_file() for link in links)


@chapters
def test_every_cell_of_a_chapter_is_on_its_page(page, notebook):
    """But for folded imports, and folded checks that print nothing."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    places = page.select("article div.cell .cell_input pre")
    shown = [place.get_text().split() for place in places]
    assert shown == [words for cell in code if (words := cell.source.split()) in shown]
    for cell in (cell for cell in code if cell.source.split() not in shown):
        assert "hide-input" in cell.metadata.tags and not cell.outputs
        assert re.search("^(import|from|assert) ", cell.source, re.MULTILINE)
    title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
    title = title.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")  # as the site sets it
    assert page.select_one("article h1").get_text() == f"{title}#"


@chapters
def test_notes_for_the_lecturer_have_a_page_of_their_own(pages, page, name):
    assert "For the lecturer" not in page.article.get_text()
    text = read_text(ROOT / "notebooks" / "src" / f"{name}.py")
    notes = [cell.source for cell in text.cells if is_note(cell)]
    shown = pages[f"notes_{name}.html"].article.get_text().split()
    for note in notes:
        words = re.findall(r"(?<!\S)[a-z]{3,}(?!\S)", note)
        assert words and set(words) <= set(shown), note


@chapters
def test_each_drawing_of_a_page_has_letters_of_its_own(page):
    names = [part["id"] for part in page.select("svg.schematic [id]")]
    used = {part["xlink:href"][1:] for part in page.select("svg.schematic use")}
    assert len(names) == len(set(names)) and used <= set(names)


@chapters
def test_every_picture_of_a_chapter_says_what_it_shows(page, notebook):
    pictures = page.select("article .cell_output :is(img, svg.schematic)")
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    assert len(pictures) == sum("image/png" in o.get("data", {}) for o in outputs)
    for picture in pictures:
        alt = picture.get("alt") or picture.get("aria-label", "")
        assert len(alt) > 20 and not re.search(r"[*$`\\]|\.png$", alt), alt


@chapters
def test_views_that_draw_themselves_have_what_they_need(page, notebook):
    """Their saved state is on the page; that of views that Python draws is not."""
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    views = [o.data["text/plain"] for o in outputs if WIDGET_MIME in o.get("data", {})]
    places = page.select("article img.live-view")
    models = {name[6:] for p in places for name in p["class"] if name.startswith("model-")}
    assert len(models) == sum(not text.startswith("explore(") for text in views)
    saved = [json.loads(script.string)["state"] for script in page.find_all("script", type=STATE)]
    states = dict(pair for each in saved for pair in each.items())
    inside = [each for model in models for each in states[model]["state"].get("children", [])]
    assert states.keys() == models | {child.removeprefix("IPY_MODEL_") for child in inside}
    assert all(each["state"].get("_esm") or each["state"]["children"] for each in states.values())
