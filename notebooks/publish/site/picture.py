"""``python -m notebooks.publish.site.picture``: the README's picture of the course, anew.

It shows the first page of the site that `make site` has built, after one cut. A test
compares the two: the picture cannot age.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from notebooks.publish.course import ROOT

PICTURE = ROOT / ".github" / "course.png"
WINDOW = {"width": 1320, "height": 900}
CUT = "not"


def take_picture(page: Page, out: Path) -> None:
    """Hide a word on the site's first page, and write a picture of the translator there."""
    view = page.locator("#front-view")
    view.get_by_role("button", name=CUT, exact=True).click()
    page.mouse.move(0, 0)
    view.screenshot(path=out)


def main() -> None:
    first_page = ROOT / "build" / "site" / "index.html"
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not first_page.exists():
        sys.exit("There is no build/site: call make site first.")
    if chromium is None:
        sys.exit("There is no Chromium to take the picture with.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW, color_scheme="light")
        page.goto(first_page.as_uri())
        take_picture(page, PICTURE)
        browser.close()
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
