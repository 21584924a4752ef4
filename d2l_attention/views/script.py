"""The scripts and styles of the views, each whole: a view also lives where there is no server."""

from pathlib import Path

HERE = Path(__file__).parent


def script(render: str, *names: str) -> str:
    """kit.js and these files as one JavaScript module, whose function ``render`` makes the view."""
    return f"{joined('kit.js', *names)}\nexport default {{ render: {render} }};\n"


def joined(*names: str) -> str:
    """The texts of these files of this folder, one behind the other."""
    return "\n".join((HERE / name).read_text("utf-8") for name in names)
