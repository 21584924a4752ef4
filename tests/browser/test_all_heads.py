"""``HeadsView`` in a real browser: mouse, keys, both themes, many heads."""

import pytest
import torch
from accessibility import harms

from d2l_attention.views import HeadsView

WORDS = ["the", "<b>dog</b>", "sleeps"]


def view(layers=3, heads=4, n=3):
    torch.manual_seed(0)
    scores = torch.randn(layers, heads, n, n) * 3
    return HeadsView(scores.softmax(-1), WORDS if n == 3 else None, title="A model")


def test_the_mouse_opens_a_head_and_comes_back(shown):
    page = shown(view())
    assert page.locator(".thumbnail").count() == 12
    page.get_by_role("button", name="layer 2, head 3").click()
    assert page.locator(".d2l-heads b").inner_text() == "layer 2, head 3 of 4"
    page.get_by_label("next head").click()
    assert page.get_by_label("next head").is_disabled()
    canvas = page.locator("canvas.map")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] - 20)
    assert page.locator(".readout").inner_text().startswith("'sleeps' looks at 'sleeps': 0")
    page.get_by_role("button", name="all heads").click()
    assert page.locator(".thumbnail").count() == 12


def test_the_keyboard_moves_in_the_grid_and_in_the_map(shown):
    page = shown(view())
    page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert page.locator(".d2l-heads b").inner_text() == "layer 2, head 3 of 4"
    page.keyboard.press("ArrowRight")
    assert page.locator(".readout").inner_text().startswith("'the' looks at '<b>dog</b>': ")
    page.keyboard.press("Escape")
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label == "layer 2, head 3"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(shown, scheme):
    page = shown(view(), scheme)
    seen = set()
    assert harms(page, seen) == []
    page.get_by_role("button", name="layer 1, head 1").click()
    assert harms(page, seen) == []


def test_384_heads_on_a_narrow_page(shown):
    page = shown(view(24, 16, 32))
    assert page.locator(".thumbnail").count() == 384
    page.set_viewport_size({"width": 390, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
