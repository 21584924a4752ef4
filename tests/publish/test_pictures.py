"""The pictures of the committed notebooks: small, and as they were to the eye."""

import base64
import io

import torch
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image, ImageChops, ImageDraw

from notebooks.publish.pictures import shrink, smaller


def as_png(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode("ascii")


def opened(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text)))


def shrunk(picture: Image.Image):
    """The output with this picture, after ``shrink``."""
    said = {"image/png": {"width": 50, "alt": "words"}}
    output = new_output("display_data", data={"image/png": as_png(picture)}, metadata=said)
    notebook = new_notebook(cells=[new_code_cell("plot()", outputs=[output])])
    shrink(notebook)
    assert output.metadata == said
    return output.data["image/png"]


def test_a_drawing_is_smaller_and_the_same_to_the_eye():
    drawing = Image.new("RGBA", (400, 200), "white")
    for i in range(40):
        ImageDraw.Draw(drawing).ellipse((9 * i, 4 * i, 9 * i + 30, 4 * i + 30), (i, 90, 255 - i))
    after = shrunk(drawing)
    assert len(after) < len(as_png(drawing))
    difference = ImageChops.difference(drawing.convert("RGB"), opened(after).convert("RGB"))
    assert max(high for _, high in difference.getextrema()) <= 16
    assert smaller(after) == after  # once is enough


def test_what_would_lose_by_it_stays():
    torch.manual_seed(0)
    noise = Image.fromarray(torch.randint(256, (64, 64, 3), dtype=torch.uint8).numpy())
    assert opened(shrunk(noise)).convert("RGB").tobytes() == noise.tobytes()
    glass = Image.new("RGBA", (20, 20), (255, 0, 0, 128))
    assert shrunk(glass) == as_png(glass)
