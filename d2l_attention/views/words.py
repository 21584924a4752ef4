"""Words that come from outside: tokens are data, and are shown as they are, letter by letter."""

from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis

# For a ``Text`` of matplotlib: a token's '$' begins no formula, also where LaTeX writes the text.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
# The same for all texts of a figure, while it is made and while it is drawn.
ALL_LITERAL: dict[str, Any] = {f"text.{name}": value for name, value in LITERAL.items()}


def whole(text: str) -> str:
    """The text with � for each half of a character that stands alone.

    Tokenizers that cut between bytes make such halves. No font, no file and no browser takes one.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cut(text: str, most: int) -> str:
    """At most so many letters, the last of them "…" where there were more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def set_tokens(axis: Axis, tokens) -> None:
    """Tokens as the labels of the ticks 0, 1, ..., also on the axes that share this one.

    The setting belongs to the text of each tick, so that titles and axis labels may be formulas.
    """
    tokens = [whole(token) if isinstance(token, str) else token for token in tokens]
    axis.set_ticks(range(len(tokens)), tokens)
    shared = getattr(axis.axes, f"get_shared_{axis.axis_name}_axes")()
    for ax in shared.get_siblings(axis.axes):
        for tick in getattr(ax, f"{axis.axis_name}axis").get_major_ticks(len(tokens)):
            tick.label1.set(**LITERAL)
            tick.label2.set(**LITERAL)


def angle_above(ax: Axes, labels: Sequence, points: float | None = None) -> int:
    """Degrees at which labels stand above the columns of ``ax``, one rule in all pictures.

    Level where neighbours leave each other room, else half turned, and upright only where a column
    is narrower than a line of text.
    """
    points = points or matplotlib.rcParams["font.size"]
    room = 72 * ax.get_position().width * ax.figure.get_figwidth() / max(1, len(labels))
    wide = [0.62 * points * len(str(label)) for label in labels]
    if all((a + b) / 2 + points / 3 <= room for a, b in zip(wide, wide[1:], strict=False)):
        return 0
    return 45 if room >= 1.4 * points else 90


def turn_labels(ax: Axes, angle: int) -> None:
    """Turn the labels above the columns so that each still begins above its own."""
    level = {"ha": "center", "va": "bottom", "rotation_mode": "default"}
    turned = {"ha": "left", "va": "center", "rotation_mode": "anchor"}
    for tick in ax.xaxis.get_major_ticks():
        tick.label2.set(rotation=angle, **(turned if angle else level))
