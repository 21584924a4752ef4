"""The course's colours: one for each role, in figures, views, formulas, code and pages.

A figure names a role, ``color=KEY``, a style sheet ``var(--role-key)``, and no other file names a
colour: a test looks for those that do. A role has a form as well, since not everybody sees colours
and not every printer has them. What has no role is ink or grey.

Figures are drawn for a light ground. On a dark page of the site the browser turns their lightness
round and keeps their hues (site.css): 0 is the ground there, too, and strong is far from it.
"""

from functools import cache

# On a light ground, on a dark one: apart in lightness as well, for those who see fewer hues.
COLOURS = {
    "role-query": ("#B04600", "#FF9F45"),  # a circle
    "role-key": ("#00659C", "#7FD0F7"),  # a square
    "role-value": ("#006B50", "#4FD1A5"),  # a diamond
    "role-weight": ("#6A2BC0", "#B68CFF"),  # a ramp, the width of a line, the size of a dot
    "role-output": ("#1F2430", "#F2F2F2"),  # a double outline
    "role-position": ("#4F4200", "#F0E08A"),  # a tick
    "role-forbidden": ("#6B6B6B", "#9A9A9A"),  # hatched
    "role-cut": ("#AA0022", "#FF7F7A"),  # a cross, struck through; and what is wrong
    "ground": ("#FFFFFF", "#121212"),
    "ink": ("#1F2430", "#F2F2F2"),
    "faint": ("#5A5D63", "#BDBDBD"),  # ink that steps back
    "rule": ("#BDBDBD", "#616161"),  # thin lines and frames
    "pale": ("#EFEFF2", "#2B2B2E"),  # a fill that letters stand on
    "focus": ("#1F2430", "#F2F2F2"),
    "on-weak": ("#000000", "#FFFFFF"),  # letters on the ramp below TURN of the largest weight
    "on-strong": ("#FFFFFF", "#000000"),  # and above it
}
QUERY, KEY, VALUE, WEIGHT, OUTPUT, POSITION, FORBIDDEN, CUT = (
    light for name, (light, _) in COLOURS.items() if name.startswith("role-")
)
GROUND, INK, FAINT, RULE, PALE = (
    COLOURS[name][0] for name in ("ground", "ink", "faint", "rule", "pale")
)
ON_WEAK, ON_STRONG, TURN = COLOURS["on-weak"][0], COLOURS["on-strong"][0], 0.6

# Curves, models and other things to compare, which have no role: ``ax.plot(x, y, **SERIES[0])``.
GREY = "#8C8C8C"
SERIES = [
    {"color": INK, "linestyle": "-", "marker": "o"},
    {"color": GREY, "linestyle": "-", "marker": "s"},
    {"color": INK, "linestyle": "--", "marker": "^"},
    {"color": GREY, "linestyle": "--", "marker": "D"},
    {"color": INK, "linestyle": ":", "marker": "v"},
    {"color": GREY, "linestyle": "-.", "marker": "P"},
]
TINT = "#CFB6F2"  # a fill for weights that letters stand on: a little of their ramp
# Who may not look there: ``ax.add_patch(Rectangle(corner, 1, 1, **HATCHED))``.
HATCHED = {"facecolor": GROUND, "edgecolor": FORBIDDEN, "hatch": "///", "linewidth": 0}

NUM_COLOURS = 64
STOPS = ("#FFFFFF", TINT, WEIGHT, "#351461"), ("#121212", WEIGHT, "#D2B9FF")


@cache
def ramp(dark: bool = False) -> list[str]:
    """The colours of weights, from 0, the ground, to the largest, far from it.

    Equal steps in weight are equal steps in lightness, and so for the eye, in colour and in grey.
    """
    channels = [[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in STOPS[dark]]
    fine, pieces = [], len(channels) - 1
    for i in range(1000):
        piece, share = divmod(i * pieces / 999, 1)
        start, end = channels[int(piece)], channels[min(int(piece) + 1, pieces)]
        mixed = [round(a + (b - a) * share) for a, b in zip(start, end, strict=True)]
        fine.append("#{:02X}{:02X}{:02X}".format(*mixed))
    first, last = lightness(fine[0]), lightness(fine[-1])
    steps = [first + (last - first) * i / (NUM_COLOURS - 1) for i in range(NUM_COLOURS)]
    known = [(lightness(colour), colour) for colour in fine]
    return [min(known, key=lambda each: abs(each[0] - step))[1] for step in steps]


def luminance(colour: str) -> float:
    """How much light '#RRGGBB' gives, from 0 to 1."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def lightness(colour: str) -> float:
    """CIE L*, 0 black to 100 white, of '#RRGGBB'."""
    light = luminance(colour)
    return 116 * light ** (1 / 3) - 16 if light > 0.008856 else 903.3 * light


def colormap():
    """The ramp for matplotlib: ``ax.imshow(weights, cmap=colormap())``."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(ramp(), "weights")


def signed():
    """For numbers of both signs: below 0 to ink, above it to the colour of weights."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signed", [INK, GROUND, WEIGHT])


def ramp_to(colour):
    """For numbers that are no weights, from 0, the ground, to the colour of their role."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("role", [GROUND, colour])


def style() -> dict:
    """The settings of matplotlib that have to do with colours."""
    from cycler import cycler

    inked = "text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"
    return dict.fromkeys(inked, INK) | {
        "figure.facecolor": GROUND,
        "axes.facecolor": GROUND,
        "axes.prop_cycle": cycler(color=[INK, GREY]),
        "hatch.linewidth": 1.0,
        "image.cmap": colormap().name,
    }


def linked(role: str) -> str:
    """What says its role has its colour; while one role is lit, the others step back."""
    mine = f'[data-role="{role}"]'
    return f"""{mine}, .highlight {mine} {{ color: var(--role-{role}) !important; }}
mjx-container {mine} {{ fill: var(--role-{role}); }}
body[data-lit="{role}"] [data-role]:not({mine}) {{ opacity: 0.3; }}
body[data-lit="{role}"] {mine} {{ font-weight: 700; }}
body[data-lit="{role}"] mjx-container {mine} {{ stroke: currentColor; stroke-width: 30; }}
"""


def css() -> str:
    """The roles as variables of a style sheet.

    They follow the site's theme, JupyterLab's, else the reader's system.
    """

    def variables(dark: bool) -> str:
        colours = {name: pair[dark] for name, pair in COLOURS.items()}
        colours["ramp"] = " ".join(ramp(dark))
        return "".join(f"  --{name}: {value};\n" for name, value in colours.items())

    light, dark = variables(False), variables(True)
    return f""":root, body[data-jp-theme-light="true"] {{\n{light}}}
@media (prefers-color-scheme: dark) {{
:root:not([data-theme]) {{\n{dark}}}
}}
html[data-theme="dark"], body[data-jp-theme-light="false"] {{\n{dark}}}
{"".join(linked(role) for role in ("query", "key", "value", "weight"))}"""
