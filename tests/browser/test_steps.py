"""``Player`` in a real browser: buttons, dots, keys, flights, a phone, paper."""

from accessibility import harms

from d2l_attention.views import Player, State, grid

TITLES = "One", "Two", "Three"
FLIGHTS = "document.getAnimations().length"


def view():
    places = [(1, 0), (2, 1), (0, 0)]
    return Player(
        [
            State(title, "A sentence.", grid([[1.5, 2.5]], *place, "query", name="n", label="q"))
            for title, place in zip(TITLES, places, strict=True)
        ]
    )


def test_buttons_dots_and_keys_step(shown):
    page = shown(view())
    now = page.locator(".title > .now")
    page.get_by_role("button", name="next").click()
    # Two numbers fly, and their label, which is not where it was, appears.
    assert now.inner_text() == "Two" and page.evaluate(FLIGHTS) == 3
    page.get_by_role("button", name="step 3: Three").click()
    assert now.inner_text() == "Three" and page.get_by_role("button", name="next").is_disabled()
    page.locator("svg").first.focus()
    for key, title in (("ArrowLeft", "Two"), ("Home", "One"), ("ArrowRight", "Two")):
        page.keyboard.press(key)
        assert now.inner_text() == title
    assert page.locator("svg").first.get_attribute("aria-label") == "Step 2 of 3. q 1.50 2.50"
    page.emulate_media(reduced_motion="reduce")
    page.keyboard.press("End")
    assert now.inner_text() == "Three" and page.evaluate(FLIGHTS) == 0
    assert page.locator("[aria-current=step]").get_attribute("aria-label") == "step 3: Three"
    page.set_viewport_size({"width": 390, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert harms(page, set()) == []
    page.emulate_media(media="print", reduced_motion="no-preference")
    drawings = page.locator("svg").all()
    assert [drawing.is_visible() for drawing in drawings] == [False, True, True, True]
    page.emulate_media(media="screen")
