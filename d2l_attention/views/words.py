"""Words that come from outside: tokens are data, and are shown as they are, letter by letter."""

from typing import Any

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
