"""The steps that chapters build their checks from, stubs, and how cases are shown."""

import pytest
import torch
from sample_exercise import SCORES, Given, Written, an_exercise, softmax

import d2l_attention.exercises as engine
from d2l_attention.exercises import check
from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.rules import (
    hidden_weights_are_zero,
    masked_before_the_softmax,
    rows_sum_to_one,
)
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import (
    agrees,
    choice,
    fails_on,
    holds,
    like,
    number,
    passes_on,
    unlike,
)


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    file = tmp_path / "data" / "progress.json"
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(file))
    return file


def told_by(step, answer, names=("scores", "mask")):
    return step(Attempt(answer, names))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (0.75, None),
        (torch.tensor([0.7501]), None),
        (0.25, "0.25: the first key"),
        (75, "percentage"),
        (0.74, "very close"),
        (0.9, "0.9 is too large."),
        (True, "Give a number"),
        ("0.75", "Give a number"),
        (float("nan"), "Give a number"),
        (1j, "Give a number"),
        (10**400, "Give a number"),
        ([0.75, 0.25], "holds 2 numbers; it should hold one number"),
    ],
)
def test_number(answer, told):
    found = told_by(number(0.75, mistakes={0.25: "the first key"}), answer)
    assert found is None if told is None else told in found


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((0.25, 0.75), None),
        (torch.tensor([0.25, 0.75]), None),
        ([0.75, 0.25], "the other way round"),
        ([0.25, 0.5], "Entry [1], 0.5 is too small."),
        (0.25, "holds one number; it should hold 2 numbers"),
        ([[0.25, 0.75]], None),
        (["a", "b"], "Give a list of numbers"),
    ],
)
def test_numbers(answer, told):
    step = number([0.25, 0.75], mistakes={(0.75, 0.25): "the other way round"})
    found = told_by(step, answer)
    assert found is None if told is None else told in found


@pytest.mark.parametrize(
    ("answer", "told"),
    [("b", None), (" B ", None), ("a", "a: too few"), ("d", "one of 'a', 'b'"), (2, "you gave 2")],
)
def test_choice(answer, told):
    found = told_by(choice("b", {"a": "too few"}), answer)
    assert found is None if told is None else told in found


def test_choice_of_numbers():
    step = choice(32, {1: "the entries are, not the sum", 1024: "the variance"})
    assert told_by(step, 32) is None
    assert told_by(step, 1024) == "1024: the variance"


CASE = (torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[True, True], [True, False]]))


def masked(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def masked_late(scores, mask):
    return scores.softmax(-1) * mask


@pytest.mark.parametrize(
    ("rule", "answer", "told"),
    [
        (rows_sum_to_one, masked, None),
        (rows_sum_to_one, lambda s, m: s.softmax(-2), "your softmax runs over the queries"),
        (rows_sum_to_one, masked_late, "Row 1 of your weights sums to 0.881"),
        (masked_before_the_softmax, masked, None),
        (masked_before_the_softmax, masked_late, "Row 1 of your weights sums to 0.881: the hidden"),
        (hidden_weights_are_zero, masked, None),
        (hidden_weights_are_zero, lambda s, m: s.softmax(-1), "Entry [1, 1] of your weights is"),
    ],
)
def test_rules(rule, answer, told):
    found = told_by(holds(rule, [CASE]), answer)
    assert found is None if told is None else told in found


def test_first_failing_case_is_shown():
    small, large = (torch.zeros(1, 2),), (torch.zeros(3, 7),)
    step = agrees(softmax, [small, large])
    assert told_by(step, softmax) is None
    found = told_by(step, lambda scores: scores)
    assert found == (
        "Your function gives [[0, 0]]; it should be [[0.5, 0.5]]. "
        "Smallest case that shows it: `scores = [[0, 0]]`."
    )
    found = told_by(step, lambda scores: scores.softmax(-1) if scores.numel() < 3 else scores)
    assert found == (
        "Entry [0, 0] of your result is 0; it should be 0.1429. "
        "Smallest case that shows it: `scores = a float32 tensor of shape (3, 7)`."
    )


def test_like_looks_at_the_form_alone():
    step = like(softmax, SCORES)
    assert told_by(step, torch.zeros_like) is None
    assert "shape (); it should be (1, 2)" in told_by(step, torch.sum)


def test_several_results():
    step = agrees(lambda x: (x.sum(), x.exp(), 3), [(torch.zeros(2),)])
    assert told_by(step, lambda x: (x.sum(), x.exp(), 3)) is None
    assert "it should return 3 results" in told_by(step, torch.exp)
    assert "2 results; it should return 3" in told_by(step, lambda x: (x.sum(), x.exp()))
    assert "Result 3 of 3" in told_by(step, lambda x: (x.sum(), x.exp(), "3"))
    assert "gives [0, 0]; it should be [1, 1]" in told_by(step, lambda x: (x.sum(), x, 3))


def test_unlike_names_a_mistake():
    step = unlike(masked_late, "the mask came after the softmax.", CASE)
    assert told_by(step, masked) is None
    assert told_by(step, masked_late).startswith("the mask came after the softmax.")


def test_a_test_that_the_student_writes():
    steps = [passes_on(masked), fails_on(masked_late, "masks after the softmax")]

    def good(implementation):
        assert torch.allclose(implementation(*CASE).sum(-1), torch.ones(2))

    def too_strict(implementation):
        assert implementation(*CASE)[0, 0] == 0.5

    def too_lax(implementation):
        implementation(*CASE)

    def polite(implementation):
        return bool(torch.allclose(implementation(*CASE).sum(-1), torch.ones(2)))

    def breaks_off(implementation):
        if implementation(*CASE)[1].sum() < 1:
            raise ValueError("sums")

    def told(answer):
        return next(filter(None, (told_by(step, answer) for step in steps)), None)

    assert told(good) is None
    assert "fails on a right implementation" in told(too_strict)
    assert "`assert implementation(*CASE)[0, 0] == 0.5`" in told(too_strict)
    assert "passes on an implementation that masks after the softmax" in told(too_lax)
    assert "Your test returned True" in told(polite)
    assert "breaks off with `ValueError: sums`" in told(breaks_off)
    with pytest.raises(Raised, match="ZeroDivisionError"):
        told(lambda implementation: 1 / 0)


def test_find_the_bug_starts_from_the_given_code(monkeypatch):
    def given(scores):
        return scores.softmax(dim=0)

    exercise = an_exercise(stub=given, steps=[holds(rows_sum_to_one, SCORES)])
    monkeypatch.setattr(engine, "find", lambda _: exercise)
    assert check("4.99", given).verdict.state == "not attempted"

    def mended(scores):
        return scores.softmax(dim=1)

    def worse(scores):
        return scores.softmax(dim=0) * 2

    assert check("4.99", mended).solved
    assert "softmax over the keys" in check("4.99", worse).message


def test_a_class_as_answer(monkeypatch):
    def doubles(attempt):
        return agrees(lambda x: 2 * x, [(torch.ones(2),)])(Attempt(attempt(), ["x"]))

    exercise = an_exercise(stub=Given, solution=Written, steps=[doubles])
    monkeypatch.setattr(engine, "find", lambda _: exercise)
    assert check("4.99", Given).verdict.state == "not attempted"
    assert check("4.99", Written).solved
    assert "needs your class itself" in check("4.99", Written()).message


def test_a_function_where_a_value_is_asked_for(monkeypatch):
    exercise = an_exercise(stub=None, solution=0.5, steps=[number(0.5)])
    monkeypatch.setattr(engine, "find", lambda _: exercise)
    assert check("4.99", 0.5).solved
    assert "call it first" in check("4.99", softmax).message


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "four"}, "id must be"),
        ({"difficulty": "evil"}, "difficulty must be one of"),
        ({"minutes": 0}, "minutes must be 1 or more, got 0"),
        ({"hints": []}, "hints must be 1 to 3 sentences, got 0"),
        ({"hints": ["a"] * 4}, "got 4"),
        ({"steps": []}, "steps must hold at least one"),
    ],
)
def test_a_faulty_declaration_names_the_field(change, told):
    with pytest.raises(ValueError, match=told):
        an_exercise(**change)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.tensor([[0.5, -torch.inf]]), "[[0.5, -inf]]"),
        (torch.tensor([0.5]).half(), "[0.5] (float16)"),
        (torch.tensor([True]), "[True]"),
        (torch.zeros(17), "a float32 tensor of shape (17,)"),
        ((1, [2.0]), "(1, [2])"),
        (softmax, "softmax"),
        ("x" * 300, "'" + "x" * 199 + " ..."),
    ],
)
def test_show(value, text):
    assert show(value) == text
