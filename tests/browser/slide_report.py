"""What leaves its slide, by how much: ``python tests/browser/slide_report.py NN [--pictures DIR]``.

The tests of the decks use the same eyes.
"""

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BROWSER = Path(__file__).parent
ROOT = BROWSER.parents[1]
DECKS = ROOT / "build" / "slides"
START_SECONDS = 600  # ends what hangs: a deck takes ten on a quiet machine

# Reads every slide in the page, with all its fragments shown: one call for a whole deck.
LOOK = """
() => {
  const LIMITS = { left: 0, top: 0, right: 1280, bottom: 680 };
  const problems = [];
  const slides = Reveal.getSlides();
  slides.forEach((slide, index) => {
    const { h, v } = Reveal.getIndices(slide);
    Reveal.slide(h, v, slide.querySelectorAll(".fragment").length);
    const frame = slide.getBoundingClientRect();
    const scale = frame.width / 1280;
    const report = (element, what, px) => {
      const cell = element.closest("[data-cell]");
      const words = (cell.innerText || cell.textContent).trim().replace(/\\s+/g, " ");
      problems.push({
        slide: index + 1, cell: cell.dataset.cell, words: words.slice(0, 60), what, px,
      });
    };
    // One line a cell and direction: the part that reaches furthest.
    const worst = new Map();
    for (const element of slide.querySelectorAll(".content *")) {
      if (element.closest(".unseen, mjx-assistive-mml, .tip") || !element.getClientRects().length)
        continue;
      if (element.closest("svg") && element.closest("svg") !== element) continue;
      // What scrolls in a view's panes leaves nothing.
      const PANES = ".d2l-watch .code, .d2l-translator";
      if (element.parentElement.closest(PANES)) continue;
      const holder = element.parentElement.closest("pre");
      if (holder) continue; // what these hide is counted below
      const box = element.getBoundingClientRect();
      const over = {
        right: (box.right - frame.left) / scale - LIMITS.right,
        bottom: (box.bottom - frame.top) / scale - LIMITS.bottom,
        left: LIMITS.left - (box.left - frame.left) / scale,
        top: LIMITS.top - (box.top - frame.top) / scale,
      };
      if (element.closest(".licence")) over.bottom -= 40;
      for (const [side, px] of Object.entries(over)) {
        const key = element.closest("[data-cell]").dataset.cell + side;
        if (px > 1 && px > (worst.get(key)?.px ?? 0)) worst.set(key, { element, side, px });
      }
    }
    for (const { element, side, px } of worst.values())
      report(element, `leaves the slide at the ${side}`, Math.ceil(px));
    for (const box of slide.querySelectorAll("pre")) {
      if (box.closest(".d2l-inside")) continue; // it scrolls
      for (const [side, whole, part] of [
        ["right", box.scrollWidth, box.clientWidth], ["bottom", box.scrollHeight, box.clientHeight],
      ]) if (whole > part + 1) report(box, `is cut off at the ${side} of its box`, whole - part);
    }
    for (const error of slide.querySelectorAll("mjx-merror, [data-mjx-error]"))
      report(error, "has an equation with an error", 0);
    for (const image of slide.querySelectorAll("img"))
      if (!image.naturalWidth) report(image, "has an image that is missing", 0);
    const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const parent = texts.currentNode.parentElement;
      if (parent.closest("pre, code, .plain, .view, mjx-container")) continue;
      if (/\\$|\\\\\\(|\\\\\\[/.test(texts.currentNode.data))
        report(parent, "has an equation that is not typeset", 0);
    }
  });
  return problems;
}
"""


@dataclass
class Problem:
    deck: str
    slide: int
    cell: str
    words: str
    what: str
    px: int

    def __str__(self) -> str:
        by = f" by {self.px} px" if self.px else ""
        return f"{self.deck}  slide {self.slide}  cell {self.cell}  {self.what}{by}: '{self.words}'"


def open_deck(page, path: Path, query: str = "") -> None:
    """Load a deck and wait until its equations, figures and views have their places."""
    page.goto(f"{path.resolve().as_uri()}{query}")
    ready = "document.documentElement.dataset.deck === 'ready'"
    page.wait_for_function(ready, timeout=START_SECONDS * 1000)


def problems_of(page, name: str) -> list[Problem]:
    """Everything that is wrong on the slides of the deck in ``page``."""
    return [Problem(deck=name, **found) for found in page.evaluate(LOOK)]


def take_pictures(page, name: str, folder: Path) -> None:
    """A PNG of each slide, with all its fragments shown."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(page.evaluate("Reveal.getSlides().length")):
        page.evaluate(
            """(index) => {
                const slide = Reveal.getSlides()[index];
                const { h, v } = Reveal.getIndices(slide);
                Reveal.slide(h, v, slide.querySelectorAll(".fragment").length);
            }""",
            index,
        )
        page.screenshot(path=folder / f"{name}_{index + 1:03d}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="+", metavar="NN", help="chapters")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="save each slide as a PNG")
    parser.add_argument("--decks", type=Path, default=DECKS, help="where the decks are")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "notebooks.publish.slides", "--out", str(arguments.decks)]
    subprocess.run([*command, *arguments.numbers], cwd=ROOT, check=True)
    sys.path.insert(0, str(BROWSER))
    from conftest import CHROMIUM_FLAGS, CHROMIUM_NAMES
    from playwright.sync_api import sync_playwright

    total = 0
    with sync_playwright() as playwright:
        chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        for number in arguments.numbers:
            for path in sorted(arguments.decks.glob(f"{number}_*.html")):
                page = browser.new_page(viewport={"width": 1280, "height": 720})
                page.on("pageerror", lambda error: print("error in the page:", error))
                open_deck(page, path)
                found = problems_of(page, path.stem)
                total += len(found)
                print(*found, sep="\n")
                if arguments.pictures:
                    take_pictures(page, path.stem, arguments.pictures)
                page.close()
    print(f"{total} problems")


if __name__ == "__main__":
    main()
