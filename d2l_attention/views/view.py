"""What all views have in common: a script, a style, and a still picture that stands in for them."""

import re
from pathlib import Path

import anywidget
from traitlets import TraitError, Unicode

from d2l_attention.views.palette import css
from d2l_attention.views.picture import add_picture

HERE = Path(__file__).parent


class View(anywidget.AnyWidget):
    """A widget that the browser draws alone, with or without a kernel."""

    title = Unicode().tag(sync=True)
    alt = Unicode().tag(sync=True)

    def still(self) -> bytes:
        """What is open, as a PNG, for a page that runs no widget."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        text = repr(self) if repr(self) in self.alt else f"{self!r}: {self.alt}"
        return add_picture(bundle, self.still(), text, self.alt)


def script(render: str, *names: str) -> str:
    """kit.js and these files as one JavaScript module, whose function ``render`` makes the view.

    One module, whole, so that it also lives where there is no server, and without the lines of
    comment, since a notebook keeps it once for each of its views.
    """
    code = re.sub(r"(?m)^\s*//.*\n", "", joined("kit.js", *names))
    return f"{code}\nexport default {{ render: {render} }};\n"


def styled(*names: str) -> str:
    """The course's colours, and the style sheets of these names."""
    return f"{css()}{joined(*names)}"


def joined(*names: str) -> str:
    """The texts of these files of this folder, one behind the other."""
    return "\n".join((HERE / name).read_text("utf-8") for name in names)


def within(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise TraitError(f"{name} must be from {low} to {high}, got {value}")
    return value
