"""Build the course's site for a test: the chapters as they are, and one deck of slides."""

import base64
import io
import json
import subprocess
import sys
from pathlib import Path

import nbformat
from PIL import Image

from notebooks.publish.slides.frames import frames_key, is_explore

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
WITH_SLIDES = "02_attention_pooling"


def build_site(folder: Path) -> Path:
    """The folder of the site, built without a warning, and nothing left among its sources."""
    sources = source_files()
    deck = folder / f"{WITH_SLIDES}.html"
    deck.write_text("<!doctype html><title>slides</title>", "utf-8")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-d", folder / "doctrees", "-D", f"course_decks={deck}"]
    command += ["-D", f"course_frames={drawn_ahead(folder)}"]
    command += [ROOT / "notebooks" / "publish" / "site", folder / "site"]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert source_files() == sources
    return folder / "site"


def drawn_ahead(folder: Path) -> Path:
    """Pictures for the view of that chapter: one colour for each setting of three controls."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{WITH_SLIDES}.ipynb", as_version=4)
    (cell,) = filter(is_explore, notebook.cells)
    tiles = []
    for number in range(2 * 2 * 2):
        picture = io.BytesIO()
        Image.new("RGB", (60, 20), (30 * number, 90, 120)).save(picture, "png")
        tiles.append(base64.b64encode(picture.getvalue()).decode())
    controls = [
        {"kind": "slider", "name": "d", "shown": ["1", "2"], "start": 0},
        {"kind": "choice", "name": "how", "shown": ["cold", "hot"], "start": 0},
        {"kind": "box", "name": "scaled", "shown": ["no", "yes"], "start": 0},
    ]
    frames = [[number] for number in range(len(tiles))]
    drawn = {"controls": controls, "frames": frames, "tiles": tiles, "size": [60, 20]}
    file = folder / f"{WITH_SLIDES}.json"
    key = frames_key(cell, 0)
    file.write_text(json.dumps({"frames": {key: drawn | {"columns": 1, "rows": 1}}}), "utf-8")
    return file


def source_files() -> set[Path]:
    """The files below notebooks/, without Python's caches."""
    files = (ROOT / "notebooks").rglob("*.*")
    return {file for file in files if "__pycache__" not in file.parts}
