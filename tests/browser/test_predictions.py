"""Predictions on the site: the answer waits, and what was predicted stands beside it."""

import pytest

PAGE = "01_queries_keys_values.html"
SEEN = "(box) => box.checkVisibility({ contentVisibilityAuto: true }) && box.offsetHeight > 20"


@pytest.fixture
def page(site, new_page):
    page = new_page()
    page.goto(f"file://{site}/{PAGE}")
    return page


def test_the_answer_waits_and_the_prediction_is_kept(page):
    gate, answer = page.locator(".gate").first, page.locator(".gate-answer").first
    assert not answer.evaluate(SEEN)
    gate.get_by_label("Your prediction").fill("a half and a half")
    gate.get_by_label("Your prediction").press("Enter")
    assert answer.evaluate(SEEN)
    assert "two_scores / T" in answer.inner_text()
    page.reload()
    assert gate.get_by_label("Your prediction").input_value() == "a half and a half"
    assert answer.evaluate(SEEN)
    assert not page.locator(".gate-answer").last.evaluate(SEEN)


def test_an_answer_opens_by_its_button_on_paper_and_for_a_link_into_it(page, site):
    answers = page.locator(".gate-answer")
    page.emulate_media(media="print")
    assert all(answer.evaluate(SEEN) for answer in answers.all())
    assert not page.locator(".gate").first.is_visible()
    page.emulate_media(media="screen")
    assert not answers.last.evaluate(SEEN)
    page.get_by_role("button", name="Show the answer").last.click()
    assert answers.last.evaluate(SEEN)
    page.goto(f"file://{site}/00_start_here.html")
    inside = page.locator(".gate-answer :is(h3, section)").first
    name = inside.evaluate("(part) => part.id || part.closest('[id]').id")
    page.goto(f"file://{site}/00_start_here.html#{name}")
    page.reload()
    assert inside.evaluate(SEEN)
