"""One file names colours, and they can be told from their ground in both themes."""

import ast
import re
from pathlib import Path

import pytest
from matplotlib import colormaps, colors

from d2l_attention.views import palette
from d2l_attention.views.palette import COLOURS, NUM_COLOURS, TURN, lightness, luminance, ramp

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("d2l_attention/views", "d2l_attention/classroom", "notebooks/src", "notebooks/publish")
KINDS = {".py", ".js", ".css", ".html", ".j2", ".svg"}
FILES = [
    path
    for place in PLACES
    for path in sorted((ROOT / place).rglob("*"))
    if path.suffix in KINDS and path.name != "palette.py"
]
HEX = r"(?<![\w&])#(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6}|[0-9a-fA-F]{3,4})(?![\w-])"
FUNCTION = r"\b(?:rgb|hsl)a?\([^)]|\bhwb\(|\b(?:ok)?l(?:ab|ch)\("
NAMES = {*colors.CSS4_COLORS, *colors.TABLEAU_COLORS} | {f"C{i}" for i in range(10)}
NAMES -= {"orange"}  # chapter 8 eats one; where a colour is asked for, it is one
MAPS = {*colormaps} - {"weights"}  # the course's own
# What a colour is called in matplotlib: there a string names one, be it a grey, '0.5', or a letter.
KEYWORDS = re.compile(r"(?:.*(?:face|edge)?colou?rs?|mfc|mec|[fe]c|c|cmap|background|foreground)\b")
NO_COLOURS = {"none", "face", "auto", "inherit", ""}
FORMAT = re.compile(
    r"[bgrcmykw](?:--?|-\.|:)?[.,ov^<>spP*hH+xXDd|]?|(?:--?|-\.|:|[.ov^sPXD*+x])[bgrcmykw]"
)


def named_in_python(text):
    """The colours that Python's own text names, strings only: comments may say '#1061'."""
    tree = ast.parse(text)
    for node in ast.walk(tree):  # what a sentence says is none
        body = getattr(node, "body", None)
        if isinstance(body, list) and ast.get_docstring(ast.Module(body[:1])):
            body[0].value = ast.Constant(None)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            found += [text] if text in NAMES or text in MAPS else re.findall(HEX, text)
            found += re.findall(FUNCTION, text)
        pairs = [(node.arg, node.value)] if isinstance(node, ast.keyword) else []
        if isinstance(node, ast.Dict):
            keys = [getattr(key, "value", None) for key in node.keys]
            pairs += zip(keys, node.values, strict=True)
        for name, value in pairs:
            if isinstance(name, str) and KEYWORDS.fullmatch(name):
                parts = [part for part in ast.walk(value) if not isinstance(part, ast.Call)]
                texts = [getattr(part, "value", None) for part in parts]
                found += [each for each in texts if isinstance(each, str) and is_colour(each)]
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("plot", "loglog"):
            marks = [getattr(each, "value", None) for each in node.args]
            found += [each for each in marks if isinstance(each, str) and FORMAT.fullmatch(each)]
    return found


def is_colour(text):
    return text not in NO_COLOURS and (colors.is_color_like(text) or text == "C")


def named_elsewhere(text, suffix):
    """The colours in a style sheet, a script or a page, which may hold both."""
    text = re.sub(r"/\*.*?\*/|<!--.*?-->|\{#.*?#\}", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)(?<![:\"'])//.*$", "", text) if suffix != ".css" else text
    found = re.findall(HEX, text) + re.findall(FUNCTION, text)
    styles = re.findall(r"[{;\"']\s*[\w-]+\s*:\s*([^;{}\"']+)", text)
    words = {word for style in styles for word in re.findall(r"(?<![\w-])[a-z]+(?![\w(-])", style)}
    words |= set(re.findall(r"[\"'`]([a-z]+)[\"'`]", text))
    return found + sorted(words & colors.CSS4_COLORS.keys())


def named_in(path):
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return named_in_python(text)
    return named_elsewhere(text, path.suffix)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_other_file_names_a_colour(path):
    assert not named_in(path)


@pytest.mark.parametrize(
    "planted",
    [
        'ax.plot(x, y, color="0.4")', 'ax.plot(x, y, "k--")', 'ax.plot(x, y, c="r")',
        'line = {"edgecolor": "w"}', 'ORANGE = "#d55e00"', 'ink = "white" if dark else INK',
        'heatmap(ax, weights, cmap="Blues")', 'dict(color=f"C{i}")', 'style = "color: rgb(1, 2)"',
        'styles = {"plain": ("s--", "tab:blue")}', 'ax.bar(x, y, color=["C0", KEY])',
    ],
)  # fmt: skip
def test_a_planted_colour_is_found_in_python(planted):
    assert named_in_python(planted)


@pytest.mark.parametrize(
    ("planted", "suffix"),
    [
        (".a { color: #12345678; }", ".css"), (".a { border: 1px solid red; }", ".css"),
        (".a { color: rgb(1 2 3); }", ".css"), ("context.fillStyle = 'black';", ".js"),
        ('add(row, "td", { style: "color:white" });', ".js"), ("const x = ['#fff'];", ".js"),
        ('<p style="color: white">', ".html"), (".a { --tint: hsl(20, 30%, 40%); }", ".css"),
    ],
)  # fmt: skip
def test_a_planted_colour_is_found_elsewhere(planted, suffix):
    assert named_elsewhere(planted, suffix)


def test_what_is_no_colour_is_not_found():
    python = (
        'draw("#1 of 3", color=KEY, edgecolor="none")  # pytorch #103963\nwords = ["a", "red fox"]'
    )
    style = (
        "#add-on { color: var(--ink); background: none; } /* white */ a:hover { color: inherit; }"
    )
    assert named_in_python(python) == [] and named_elsewhere(style, ".css") == []


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_every_role_can_be_told_from_its_ground(dark):
    ground, pale = (COLOURS[name][dark] for name in ("ground", "pale"))
    shown = {name: pair[dark] for name, pair in COLOURS.items() if name.startswith("role-")}
    shown |= {name: COLOURS[name][dark] for name in ("ink", "faint", "focus")}
    for name, colour in shown.items():
        assert contrast(colour, ground) >= 4.5, name
        assert contrast(colour, pale) >= 4.5, name
    for each in palette.SERIES:
        assert contrast(each["color"], palette.GROUND) >= 3


@pytest.mark.parametrize("dark", [False, True])
def test_the_ramp_goes_from_the_ground_in_even_steps_and_carries_letters(dark):
    steps = [lightness(colour) for colour in ramp(dark)]
    assert len(steps) == NUM_COLOURS and ramp(dark)[0] == COLOURS["ground"][dark]
    away = [
        (after - before) * (1 if dark else -1)
        for before, after in zip(steps, steps[1:], strict=False)
    ]
    assert max(abs(step - sum(away) / len(away)) for step in away) < 0.7 and sum(away) > 70
    for i, colour in enumerate(ramp(dark)):
        letters = "on-strong" if i / (NUM_COLOURS - 1) > TURN else "on-weak"
        assert contrast(colour, COLOURS[letters][dark]) >= 4.5, i


def test_the_browser_turns_letters_where_python_does():
    kit = (ROOT / "d2l_attention/views/kit.js").read_text("utf-8")
    assert float(re.search(r"const TURN = ([\d.]+);", kit)[1]) == TURN


def test_the_style_sheet_has_every_role_in_both_themes():
    sheet = palette.css()
    for name, pair in COLOURS.items():
        for colour in pair:
            assert f"--{name}: {colour};" in sheet
    assert sheet.count("--ramp: ") == 3 and named_elsewhere(sheet, ".css")
