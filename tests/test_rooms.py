"""The rooms of the package: which room may import which. A room is a folder of d2l_attention."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "d2l_attention"
ROOMS = "attention data exercises models scale testing training variants views".split()
# Where nothing is said, a room may import all others but the exercises.
ALLOWED = {
    "attention": set(),
    "data": set(),
    "models": {"attention", "data"},
    "testing": {"data"},
    "variants": {"attention", "data"},
}


def imported(source, package):
    """The modules that Python text imports, at any depth of the code, by their whole names.

    ``package`` is where the text stands, for imports that begin with dots.
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -node.level + 1 or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def rooms_that(room):
    """The other rooms that the modules of ``room`` import, each with a file that does."""
    found = {}
    for path in sorted((PACKAGE / room).rglob("*.py")):
        package = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
        for name in imported(path.read_text("utf-8"), package):
            parts = name.split(".")
            if parts[0] == PACKAGE.name:
                # A name of the package itself could come from any room: say from which.
                other = parts[1] if len(parts) > 1 and parts[1] in ROOMS else "the whole package"
                found[other] = str(path.relative_to(PACKAGE))
    found.pop(room, None)
    return found


def test_nothing_is_loose_and_no_room_is_unknown():
    inside = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    assert inside == {"__init__.py", *ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_it_may(room):
    allowed = ALLOWED.get(room, set(ROOMS) - {"exercises"})
    if room in ("exercises", "views", "scale", "training"):
        allowed = allowed | {"the whole package"}
    wrong = {other: path for other, path in rooms_that(room).items() if other not in allowed}
    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import d2l_attention.views.plots", "d2l_attention.views.plots"),
        ("from d2l_attention import views", "d2l_attention.views"),
        ("from d2l_attention.views.plots import heatmap", "d2l_attention.views.plots.heatmap"),
        ("from . import masks", "d2l_attention.models.masks"),
        ("from .. import views", "d2l_attention.views"),
        ("from ..views.plots import heatmap", "d2l_attention.views.plots.heatmap"),
        ("def f():\n    from d2l_attention.views import plots", "d2l_attention.views.plots"),
    ],
)
def test_an_import_is_seen_however_it_is_written(line, name):
    assert imported(line, "d2l_attention.models") == {name}
