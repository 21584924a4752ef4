"""``watch`` in a real browser: keys, mouse, themes, a deck without a kernel."""

import pytest
import torch
from alone import open_in_a_deck
from conftest import wait_until

from d2l_attention.views import watch

MARKUP = "<img src=x onerror=alert(1)>"


def masked(scores, mask, token):
    hidden = scores.clone()
    hidden[~mask.expand_as(scores)] = -torch.inf
    text = f"<b>{token}</b>"
    weights = hidden.softmax(-1)
    return weights, text


def small_watch(**options):
    torch.manual_seed(0)
    scores = torch.randn(2, 3, 4)
    mask = torch.tensor([True, True, True, False])
    mask = mask & (torch.arange(3) > 0)[:, None]  # the first query sees nothing: NaN
    return watch(masked, scores, mask, MARKUP, axes={"scores": "BQK", "hidden": "BQK"}, **options)


def stops(q, k):
    scores = q @ k
    return scores


def card(page, name):
    return page.locator(".d2l-watch .held", has=page.locator(f"b:text-is('{name}')"))


def changed(page):
    return page.locator(".held.changed b").all_inner_texts()


def line_now(page):
    return page.locator(".line.now code").inner_text().strip()


def test_keys_and_mouse_step_through_the_run(shown):
    page = shown(small_watch())
    where, slider = page.locator(".where"), page.get_by_role("slider")
    assert where.inner_text().startswith("step 1 of 6, line ")
    assert set(changed(page)) == {"scores", "mask", "token"}

    page.locator(".code").focus()
    page.keyboard.press("ArrowRight")
    assert (line_now(page), changed(page)) == ("hidden = scores.clone()", ["hidden"])
    page.keyboard.press("ArrowRight")
    assert line_now(page).startswith("hidden[~mask")
    assert card(page, "hidden").locator(".change").inner_text() == "changed in place"
    page.keyboard.press("End")
    assert line_now(page) == "return weights, text" and changed(page) == ["return"]
    page.keyboard.press("Home")
    assert line_now(page).startswith("def masked(")
    assert page.get_by_label("one step back").is_disabled()

    page.get_by_label("one step on").click()
    assert line_now(page) == "hidden = scores.clone()"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert where.inner_text().startswith("step 3 of 6")
    slider.fill("4")
    assert changed(page) == ["weights"]
    assert slider.get_attribute("aria-valuetext").startswith("step 5 of 6")


def grows(X):
    name = None
    Y = X[:1]
    name = X
    Y = torch.cat([X, X])
    del name
    long_name = Y * 1000
    return long_name


@pytest.mark.parametrize("width", [390, 1280])
def test_boxes_do_not_move_and_the_last_one_is_not_cut(shown, width):
    page = shown(watch(grows, torch.randn(3, 4)))
    page.set_viewport_size({"width": width, "height": 720})
    seen = {}
    for _ in range(8):
        for box in page.locator(".held").all():
            if box.is_visible():
                place = box.bounding_box()
                at = seen.setdefault(box.locator("b").inner_text(), (place["x"], place["y"]))
                assert at == (place["x"], place["y"])
        page.get_by_label("one step on").click() if len(seen) < 5 else None
    assert seen.keys() == {"X", "name", "Y", "long_name", "return"}
    hidden = "names => names.scrollHeight - names.clientHeight"
    assert page.locator(".names").evaluate(hidden) <= 0


def test_long_lines_of_code_are_not_cut_where_two_runs_stand_beside_each_other(shown):
    page = shown(small_watch())
    page.set_viewport_size({"width": 300, "height": 720})
    hidden = "code => code.scrollWidth - code.clientWidth"
    assert page.locator(".code").evaluate(hidden) <= 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 300


def test_numbers_answer_the_mouse_and_the_keys(shown):
    view = small_watch(at=2)
    page = shown(view)
    readout, hidden = page.locator(".readout"), card(page, "hidden")
    canvas = hidden.locator("canvas")
    scores = view.steps[0].changed["scores"]

    canvas.focus()
    assert readout.inner_text() == "hidden[0, 0, 0] = -inf"
    page.keyboard.press("ArrowDown")
    assert readout.inner_text() == f"hidden[0, 1, 0] = {scores[0, 1, 0]:.4g}"
    for key in ["ArrowRight"] * 9:
        page.keyboard.press(key)
    assert readout.inner_text() == "hidden[0, 1, 3] = -inf"
    assert page.locator(".where").inner_text().startswith("step 3")  # the keys were the cells'

    before = canvas.evaluate("canvas => canvas.toDataURL()")
    hidden.get_by_label("next matrix of hidden").click()
    assert hidden.locator(".matrix").inner_text() == "B 1"
    assert canvas.evaluate("canvas => canvas.toDataURL()") != before
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 8, box["y"] + box["height"] * 5 / 6)
    assert readout.inner_text() == f"hidden[1, 2, 0] = {scores[1, 2, 0]:.4g}"
    assert hidden.locator(".shape").inner_text() == "B 2, Q 3, K 4"
    words = hidden.locator(".faint").inner_text()
    assert "rows Q, columns K" in words and "hatched: 6 × -inf" in words

    mask = card(page, "mask")
    assert mask.locator(".faint").inner_text() == "filled True, empty False"
    mask.locator("canvas").focus()
    assert readout.inner_text() == "mask[0, 0] = False"
    page.get_by_label("one step on").click()
    page.get_by_label("one step on").click()
    assert "hatched: 4 × NaN" in card(page, "weights").locator(".faint").inner_text()


def test_text_is_text(shown):
    page = shown(small_watch(at=-1))
    assert card(page, "token").locator("code").inner_text() == f"'{MARKUP}'"
    assert card(page, "text").locator("code").inner_text() == f"'<b>{MARKUP}</b>'"
    assert 'text = f"<b>{token}</b>"' in page.locator(".code").inner_text()
    assert page.locator("img").count() == 0


def test_an_error_is_told(shown):
    page = shown(watch(stops, torch.ones(2, 3), torch.ones(2, 3)))
    assert line_now(page) == "scores = q @ k"
    assert "Shapes: q (2, 3), k (2, 3)." in page.get_by_role("alert").inner_text()
    page.get_by_label("one step back").click()
    assert page.get_by_role("alert").inner_text() == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(shown, scheme):
    page = shown(small_watch(at=4), scheme)
    look = "view => [getComputedStyle(view).backgroundColor, getComputedStyle(view).color]"
    ground, ink = page.locator(".d2l-watch").evaluate(look)
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    assert ground != ink
    # What is hatched is drawn on the ground of the theme.
    canvas = card(page, "hidden").locator("canvas")
    assert canvas.evaluate(HAS_COLOUR, ground)


HAS_COLOUR = """(canvas, colour) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const wanted = colour.match(/[0-9]+/g).map(Number);
    for (let i = 0; i < data.length; i += 4)
        if (wanted.every((part, j) => data[i + j] === part)) return true;
    return false;
}"""


def test_without_a_kernel_in_a_deck(new_page, tmp_path):
    page = new_page()
    open_in_a_deck(page, small_watch(), tmp_path)
    before = page.evaluate("Reveal.getSlidePastCount()")
    page.locator(".code").focus()
    page.keyboard.press("ArrowRight")
    assert changed(page) == ["hidden"]
    page.get_by_label("one step on").click()
    assert card(page, "hidden").locator(".change").inner_text() == "changed in place"
    assert page.evaluate("Reveal.getSlidePastCount()") == before
    # Slides are scaled: the number under the pointer must be the one that is named.
    canvas, readout = card(page, "hidden").locator("canvas"), page.locator(".readout")

    def is_named() -> bool:  # on a busy machine the pane still scrolls
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 7 / 8, box["y"] + box["height"] * 5 / 6)
        return readout.inner_text() == "hidden[0, 2, 3] = -inf"

    wait_until(is_named, "the number under the pointer is named")
