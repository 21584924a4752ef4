"""``python -m notebooks.publish.site.paper``: the built site's chapters as PDF files.

Chromium prints the pages as it does for Ctrl-P: one file a chapter, and one of the whole course,
with contents, page numbers, and links that lead on within it.
"""

import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urldefrag

from bs4 import BeautifulSoup
from playwright.sync_api import Page, sync_playwright

from notebooks.publish.course import ROOT, texts
from notebooks.publish.site.chapters import with_ids_of_its_own

SITE, OUT = ROOT / "build" / "site", ROOT / "build" / "pdf"
WHOLE = "attention_live"
MARGINS = dict.fromkeys(("top", "bottom", "left", "right"), "18mm")
NUMBER = '<div style="font-size: 8px; text-align: center; width: 100%" class="pageNumber"></div>'


def write_pdf(page: Page, html: Path, out: Path, text: str | None = None) -> int:
    """Print one page of the site, or ``text`` as if it were there; gives the number of sheets."""
    if text is not None:
        page.route(html.as_uri(), lambda route: route.fulfill(body=text, content_type="text/html"))
    page.goto(html.as_uri())
    page.emulate_media(media="print", color_scheme="light")
    page.evaluate("window.MathJax?.startup.promise")
    page.evaluate("Promise.all([...document.images].map((image) => image.decode()))")
    pdf = page.pdf(
        format="A4",
        margin=MARGINS,
        print_background=True,
        display_header_footer=True,
        header_template="<i></i>",
        footer_template=NUMBER,
        outline=True,
        tagged=True,
    )
    out.write_bytes(pdf)
    return len(re.findall(rb"/Type /Page\b", pdf))


def whole_course(site: Path, starts: dict[str, int]) -> BeautifulSoup:
    """One page of all chapters, each on sheets of its own behind a list of where it begins."""
    names = [text.stem for text in texts()]
    pages = {
        name: BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser")
        for name in names
    }
    whole = BeautifulSoup((site / f"{names[0]}.html").read_text("utf-8"), "html.parser")
    whole.title.string = "Attention, live"
    article = whole.select_one("article.bd-article")
    article.clear()
    chapters = {name: page.select_one("article.bd-article") for name, page in pages.items()}
    titles = {name: each.h1.get_text().removesuffix("#") for name, each in chapters.items()}
    article.append(contents(whole, titles, starts))
    for name, chapter in chapters.items():
        chapter["id"] = name
        chapter["style"] = "break-before: page"
        for svg in chapter.select("svg"):
            drawn = BeautifulSoup(with_ids_of_its_own(str(svg), name), "html.parser")
            svg.replace_with(drawn)
        for part in chapter.select("[id]"):
            if not part.find_parent("svg"):
                part["id"] = f"{name}-{part['id']}"
        for link in chapter.select("a[href]"):
            link["href"] = within(link["href"], name, names)
        article.append(chapter)
    return whole


def contents(whole, titles, starts):
    made = BeautifulSoup("<h1>Attention, live</h1><ol class='contents'></ol>", "html.parser")
    for name, title in titles.items():
        line = whole.new_tag("li")
        link = whole.new_tag("a", href=f"#{name}")
        link.string = title
        place = whole.new_tag("span")
        place.string = str(starts[name])
        line.extend([link, place])
        made.ol.append(line)
    return made


def within(address: str, name: str, names: list[str]) -> str:
    """A link of a chapter's page, as it leads on in the whole course."""
    path, place = urldefrag(address)
    chapter = path.removesuffix(".html") if path else name
    if "://" in address or chapter not in names:
        return address
    return f"#{chapter}-{place}" if place else f"#{chapter}"


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("A PDF needs Chromium, and there is none on this machine: print with Ctrl-P.")
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(600_000)
        page.route("**/views.js", lambda route: route.abort())  # views stay pictures
        starts, sheet = {}, 2
        for text in texts():
            starts[text.stem] = sheet
            sheet += write_pdf(page, SITE / f"{text.stem}.html", OUT / f"{text.stem}.pdf")
            print(f"build/pdf/{text.stem}.pdf, {sheet - starts[text.stem]} pages", flush=True)
        book = str(whole_course(SITE, starts))
        sheets = write_pdf(page, SITE / f"{WHOLE}.html", OUT / f"{WHOLE}.pdf", book)
        browser.close()
    print(f"build/pdf/{WHOLE}.pdf, {sheets} pages")
    if sheets != sheet - 1:
        sys.exit(f"The contents are wrong: chapters have {sheet - 1} pages, the course {sheets}.")


if __name__ == "__main__":
    main()
