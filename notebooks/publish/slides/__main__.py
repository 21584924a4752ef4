"""``python -m notebooks.publish.slides [NN ...]``: write the chapters' decks."""

import argparse
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = ROOT / "notebooks"
# What a deck is made of besides its notebook; frames come from the views.
SOURCES = [*Path(__file__).parent.iterdir(), *(ROOT / "d2l_attention" / "views").iterdir()]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m notebooks.publish.slides",
        description="Write one HTML file of slides a chapter; it needs no network and no kernel.",
    )
    parser.add_argument("numbers", nargs="*", metavar="NN", help="these chapters; none means all")
    parser.add_argument("--out", type=Path, default=Path("build/slides"), help="folder")
    parser.add_argument("--force", action="store_true", help="also decks that are up to date")
    arguments = parser.parse_args()
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"Cannot write into {arguments.out}: {error.strerror}.")
    failed = [path for path in chosen(arguments.numbers) if not write(path, arguments)]
    if failed:
        sys.exit(f"No deck of {', '.join(path.stem for path in failed)}.")


def chosen(numbers: list[str]) -> list[Path]:
    """The notebooks of these chapters; of all, where there are none."""
    found = []
    for number in numbers or ["[0-9][0-9]"]:
        known = re.fullmatch(r"\d\d|\[0-9]\[0-9]", number)
        paths = sorted(NOTEBOOKS.glob(f"{number}_*.ipynb")) if known else []
        if not paths:
            sys.exit(f"No chapter {number} in {NOTEBOOKS}: give its number, for example 03.")
        found += paths
    return found


def write(path: Path, arguments: argparse.Namespace) -> bool:
    """Write one deck and say so; whether it is there now."""
    # Here, because `--help` and a deck that is up to date need none of it, and it takes a second.
    from notebooks.publish.slides.deck import SlidesError, export

    out = arguments.out / f"{path.stem}.html"
    if not arguments.force and is_current(out, path):
        print(f"{path.stem}: up to date", flush=True)
        return True
    start = time.monotonic()
    try:
        slides, size = export(path, out)
    except SlidesError as error:
        print(f"{path.stem}: {error}", file=sys.stderr, flush=True)
        return False
    seconds = time.monotonic() - start
    print(f"{path.stem}: {slides} slides, {size / 1e6:.1f} MB, {seconds:.1f} s", flush=True)
    return True


def is_current(out: Path, notebook: Path) -> bool:
    """Whether the deck is younger than its notebook and all that it is made with."""
    if not out.exists():
        return False
    sources = [file for file in SOURCES if file.is_file()]
    return out.stat().st_mtime > max(file.stat().st_mtime for file in (notebook, *sources))


if __name__ == "__main__":
    main()
