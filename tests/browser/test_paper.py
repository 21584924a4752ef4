"""The site on paper: nothing to press, nothing cut, and one book whose links lead on within it."""

import pytest
from site_build import CHAPTERS

from notebooks.publish.site.paper import WHOLE, whole_course, within, write_pdf

A4 = {"width": 658, "height": 990}  # the text's width on a sheet, in pixels
# What a sheet shows wrongly, in words.
PROBLEMS = """() => {
  const isShown = (part) =>
    part.checkVisibility({ contentVisibilityAuto: true }) && part.getClientRects().length;
  const shown = (selector) => [...document.querySelectorAll(selector)].filter(isShown);
  const problems = shown("button, input, summary, nav").map((part) => part.outerHTML);
  for (const box of shown("pre, table, img, mjx-container, .on-paper")) {
    const isCut = box.matches("pre, table") && box.scrollWidth > box.clientWidth + 1;
    if (isCut || box.getBoundingClientRect().right > innerWidth + 1)
      problems.push(`cut: ${box.outerHTML.slice(0, 80)}`);
  }
  return problems;
}"""


@pytest.mark.parametrize("name", ["01_queries_keys_values", "08_the_transformer"])
def test_a_chapter_on_paper(site, new_page, name):
    page = new_page()
    page.set_viewport_size(A4)
    page.goto(f"file://{site}/{name}.html")
    page.wait_for_function("!document.querySelector('img.live-view')")
    assert page.locator(".on-paper").count() == page.locator(".on-screen").count()
    page.emulate_media(media="print")
    found = page.evaluate(PROBLEMS)
    assert not found, "\n".join(found)


def test_the_whole_course_is_one_book(site, new_page, tmp_path):
    starts = {name: 2 + number for number, name in enumerate(CHAPTERS)}
    book = whole_course(site, starts)
    names = [part["id"] for part in book.select("article [id]")]
    assert len(names) == len(set(names))
    leads = [link["href"][1:] for link in book.select("article a[href^='#']")]
    assert set(CHAPTERS) <= set(leads) <= set(names)
    assert [line.get_text() for line in book.select(".contents span")] == [
        *map(str, starts.values())
    ]
    for name in CHAPTERS[2:]:
        book.find(id=name).decompose()
    file = site / f"{WHOLE}.html"
    alone = [
        write_pdf(new_page(), site / f"{name}.html", tmp_path / "one.pdf") for name in CHAPTERS[:2]
    ]
    assert write_pdf(new_page(), file, tmp_path / "book.pdf", str(book)) == 1 + sum(alone)
    assert not file.exists()  # the site, which other tests read at the same time, stays as it is


def test_links_within_the_book():
    names = ["03_scores", "04_masks"]
    assert within("04_masks.html#late", "03_scores", names) == "#04_masks-late"
    assert within("04_masks.html", "03_scores", names) == "#04_masks"
    assert within("#here", "03_scores", names) == "#03_scores-here"
    assert (
        within("https://d2l.ai/04_masks.html", "03_scores", names) == "https://d2l.ai/04_masks.html"
    )
