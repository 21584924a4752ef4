"""Build the course's site for a test: the chapters as they are, and one deck of slides."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
WITH_SLIDES = "03_scoring_functions"


def build_site(folder: Path) -> Path:
    """The folder of the site, once it was built without a warning."""
    deck = folder / f"{WITH_SLIDES}.html"
    deck.write_text("<!doctype html><title>slides</title>")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-d", folder / "doctrees", "-D", f"course_decks={deck}"]
    command += [ROOT / "notebooks" / "publish" / "site", folder / "site"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return folder / "site"
