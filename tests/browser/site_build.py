"""Build the course's site for a test: the chapters as they are, and one deck of slides."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
WITH_SLIDES = "03_scoring_functions"


def build_site(folder: Path) -> Path:
    """The folder of the site, built without a warning, and nothing left among its sources."""
    sources = source_files()
    deck = folder / f"{WITH_SLIDES}.html"
    deck.write_text("<!doctype html><title>slides</title>", "utf-8")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-d", folder / "doctrees", "-D", f"course_decks={deck}"]
    command += [ROOT / "notebooks" / "publish" / "site", folder / "site"]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert source_files() == sources
    return folder / "site"


def source_files() -> set[Path]:
    """The files below notebooks/, without Python's caches."""
    files = (ROOT / "notebooks").rglob("*.*")
    return {file for file in files if "__pycache__" not in file.parts}
