"""What has a role has one form in all chapters, and what is said again is said in the same form."""

import re
from pathlib import Path

import pytest

from d2l_attention.views.player import grid, outlines

ROOT = Path(__file__).resolve().parents[2]
TEXTS = sorted((ROOT / "notebooks" / "src").glob("[0-9]*.py"))
RULES = {
    "a query is a circle": r'"\*".*QUERY|QUERY.*"\*"',
    "the sides are 'queries' and 'keys'": r'[xy]label(?:=|\()f?"(?:.*\\n)?(?:key|query)"',
    "half-way is a heading": r"(?m)place to stop\.|^# (?!### A place to).*place to stop$",
}


@pytest.mark.parametrize("rule", RULES)
def test_one_form(rule):
    pattern = re.compile(RULES[rule])
    found = [
        f"{path.stem}: {each[0]}"
        for path in TEXTS
        for each in pattern.finditer(path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "old",
    [
        'ax.scatter(*query.T, s=160, marker="*", color=QUERY)',
        'ax.plot(*asked, "*", markersize=18, color=QUERY)',
        'ax.set(title=title, xlabel="key")',
        'line[0].set_ylabel(f"{name}\\nquery")',
        "# **A good place to stop.** You can",
        "# This is a good place to stop.",
        "# #### A good place to stop",
    ],
)
def test_the_rules_find_the_old_forms(old):
    assert any(re.search(rule, old) for rule in RULES.values())


def test_a_value_is_a_diamond():
    (corners,) = outlines("value", 2, 1)
    assert len(corners) == 4 and {x for x, _ in corners if x not in (0.04, 1.96)} == {1.0}


@pytest.mark.parametrize(
    ("text", "width"), [("7", 0.8), ("14", 0.8), ("new", 1.2), ("−10.25", 1.4)]
)
def test_letters_stay_inside_a_diamond(text, width):
    """Half of their width and of their height, as shares of the diamond's halves, are at most 1."""
    height = 0.8
    (cell,) = grid(text, 0, 0, "value", width=width, height=height)
    (corners,) = outlines("value", width, height)
    (xs, ys) = zip(*corners, strict=True)
    wide, high = 0.62 * len(text) * cell.size, 0.72 * cell.size  # DejaVu Sans
    assert wide / (max(xs) - min(xs)) + high / (max(ys) - min(ys)) < 1
