"""A notebook's pictures with few colours: they are sharp, and the file stays small."""

import io
from base64 import b64decode, b64encode

from nbformat import NotebookNode
from PIL import Image


def shrink(notebook: NotebookNode) -> None:
    """Give each PNG among the outputs a palette, where that is smaller and does not show."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = smaller(data["image/png"])


def smaller(text: str) -> str:
    """The PNG, as base64 text, with at most 256 colours, or as it was."""
    # Here, because it brings matplotlib: most calls of `make notebooks` run nothing.
    from d2l_attention.views.picture import with_palette, written

    before = b64decode(text)
    picture = Image.open(io.BytesIO(before))
    if picture.mode == "P" or picture.convert("RGBA").getextrema()[3][0] < 255:
        return text  # it has a palette already, or one can see through it
    after = written(with_palette(picture.convert("RGB")), optimize=True)
    return b64encode(after).decode("ascii") if len(after) < len(before) else text
