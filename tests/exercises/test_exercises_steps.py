"""The vocabulary of steps, and how results are compared."""

import linecache
import os
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from sample_exercise import SCORES, an_exercise, softmax

from d2l_attention.exercises.authoring import (
    Case,
    Mistake,
    Part,
    Suspect,
    alike,
    catches,
    choice,
    gradients_flow,
    holds,
    number,
    parts,
    rows_sum_to_one,
    with_mistakes,
)
from d2l_attention.exercises.engine.compare import form_differs, tolerance_for, value_differs
from d2l_attention.exercises.engine.examine import examine
from d2l_attention.exercises.engine.show import student_line


def by_hand(step, right):
    return an_exercise(stub=None, solution=right, cases=(), mistakes=(), steps=[step])


@pytest.mark.parametrize(
    "answer",
    [
        [0.75, 0.25],
        (0.75, Fraction(1, 4)),
        torch.tensor([0.75, 0.25]),
        [torch.tensor(0.75), np.float32(0.25)],
        np.array([0.75, 0.25]),
        [[0.75], [torch.tensor(0.25)]],
    ],
    ids=repr,
)
def test_numbers_in_any_voice(answer):
    assert examine(by_hand(number([0.75, 0.25]), [0.75, 0.25]), answer).state == "solved"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([0.25, 0.75], "the other way round"),
        ([75, 25], "percentage"),
        (0.75, "one number each"),
        ([0.1, 0.2, 0.3], "holds 3 numbers; it should hold 2"),
        ("3/4 and 1/4", "Give a list of numbers"),
        ([True, False], "Give a list of numbers"),
        ([float("nan"), 0.0], "Give a list of numbers"),
        ([0.7, 0.25], "Entry [0], 0.7 is too small"),
        ([0.77, 0.25], "very close"),
        pytest.param(softmax, "your answer is a function", id="a function"),
    ],
    ids=repr,
)
def test_wrong_numbers(answer, told):
    mistakes, counts = {(0.25, 0.75): "the other way round"}, {1: "one number each"}
    step = number([0.75, 0.25], mistakes=mistakes, counts=counts)
    verdict = examine(by_hand(step, [0.75, 0.25]), answer)
    assert verdict.state == "not yet" and told in verdict.message


def test_parts_and_choices():
    step = parts(
        Part("Before", 4, {12: "that is after."}), Part("After", 12, {}), give="two", otherwise="no"
    )
    for answer, told in [
        ((12, 12), "Before, 12: that is after."),
        ((4, 3), "After, 3: no"),
        (4, "Give two"),
    ]:
        assert told in examine(by_hand(step, (4, 12)), answer).message
    assert examine(by_hand(step, (4, 12)), [[4], [12.0]]).state == "solved"
    step = choice("b", {"a": "no, because"})
    assert "a: no, because" in examine(by_hand(step, "b"), " A").message
    assert "Choose one of 'a', 'b'" in examine(by_hand(step, "b"), torch.ones(2)).message


def detached(scores):
    return scores.detach().softmax(dim=-1)


def detached_in_part(scores):
    shares = scores.exp()
    return shares / shares.sum(dim=-1, keepdim=True).detach()


def nan_gradient(scores):
    return scores.softmax(dim=-1) + 0 * (scores - scores.detach()).sqrt()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (detached, "no gradient comes through"),
        (detached_in_part, "the gradient of `scores` is not"),
        (nan_gradient, "the gradient of `scores` is NaN"),
        (lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True), None),
        (lambda scores: (scores.double() - 1).softmax(-1).float(), None),
    ],
)
def test_gradients(answer, told):
    verdict = examine(an_exercise(steps=[gradients_flow()]), answer)
    assert verdict.state == ("not yet" if told else "solved"), verdict.message
    assert (told or "Solved") in verdict.message


def test_a_rule_on_its_own_case():
    step = holds(rows_sum_to_one, Case((torch.eye(2),), because="Here too."))
    exercise = an_exercise(cases=(), mistakes=(), steps=[step])
    told = examine(exercise, lambda scores: scores.softmax(dim=0) * 2).message
    assert "Here too. Row 0 of your weights sums to 2" in told and "scores = [[1, 0]" in told


def test_score(score):
    """Not a test of ours: one that a student wrote."""
    scores = torch.randn(3, 5)
    torch.testing.assert_close(score(scores), scores.exp() / scores.exp().sum(-1, keepdim=True))


test_score.__test__ = False


def looks_at_one_row(score):
    scores = torch.randn(1, 5)
    torch.testing.assert_close(score(scores), scores.exp() / scores.exp().sum(-1, keepdim=True))


def looks_at_the_shape(score):
    assert score(torch.randn(3, 5)).shape == (3, 5)


def looks_at_nothing(score):
    score(torch.randn(3, 5))


def never_calls(score):
    assert torch.ones(1).all()


def gives_back(score):
    return bool(score(torch.randn(3, 5)).sum() == 3)


def every_digit(score):
    scores = torch.randn(3, 5)
    assert torch.equal(score(scores), scores.softmax(-1))


def expects_rows_turned(score):
    scores = torch.randn(3, 5)
    torch.testing.assert_close(score(scores), scores.softmax(dim=0))


def the_students_step():
    return catches(
        softmax,
        Suspect({"return ": "return 2 * "}, "doubles the weights"),
        Suspect(
            {"dim=-1": "dim=0 if len(scores) > 1 else -1"},
            "sums over the queries",
            blind=[(lambda scores: len(scores) == 1, "You always give one row.")],
        ),
        name="score",
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (test_score, "Solved"),
        (looks_at_the_shape, "It even passes where all outputs are 0"),
        (looks_at_nothing, "passes whatever comes back"),
        (never_calls, "without ever calling `score`"),
        (gives_back, "A test speaks by failing"),
        (every_digit, "wants every digit to agree"),
        (expects_rows_turned, "the mistake is in what you expect"),
        (looks_at_one_row, "You always give one row."),
    ],
)
def test_a_test_that_the_student_writes(answer, told):
    step = the_students_step()
    exercise = an_exercise(solution=test_score, cases=(), mistakes=(), steps=[step])
    assert told in examine(exercise, answer).message


@pytest.mark.parametrize(
    ("answer", "share"),
    [(test_score, 1), (looks_at_one_row, 1 / 2), (looks_at_nothing, 0), (expects_rows_turned, 0)],
)
def test_a_test_is_worth_the_share_of_the_bugs_that_it_catches(answer, share):
    exercise = an_exercise(solution=test_score, cases=(), mistakes=(), steps=[the_students_step()])
    verdict = examine(exercise, answer)
    assert verdict.share == share
    if share == 1 / 2:
        assert verdict.message.endswith("You always give one row. It catches 1 of 2 bugs.")
        assert verdict.mistake == "passes where it sums over the queries"


def test_given_code_is_the_solution_with_a_mistake_in_it():
    given = with_mistakes(softmax, Mistake({"dim=-1": "dim=0"}, ""), name="weigh")
    exercise = an_exercise(stub=given)
    assert given.__name__ == "weigh" and examine(exercise, given).state == "not attempted"
    assert examine(exercise, softmax).state == "solved"


@pytest.mark.parametrize(
    ("got", "right", "told"),
    [
        (torch.ones(2), torch.ones(2), None),
        (1, 1.0, None),
        (np.float64(1), 1.0, None),
        (Fraction(1, 2), 0.5, None),
        ([torch.tensor(1), np.int64(2)], [1, 2], None),
        (torch.tensor([1, 2]), [1, 2], "returned a Tensor; it should return a list"),
        ("12", [1, 2], "returned a str"),
        (range(2), [1, 2], "returned a range"),
        (3, torch.ones(1), "returned an int; it should return a tensor"),
        (torch.ones(2, dtype=torch.float16), torch.ones(2), "is float16"),
        (torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1, 2]), None),
        (torch.tensor([1, 3], dtype=torch.uint8), torch.tensor([1, 2]), "gives [1, 3]"),
        (torch.tensor([True]), torch.tensor([1]), "is bool"),
        (torch.tensor([1.0]), torch.tensor([1]), "is float32"),
        (None, torch.ones(2), "Is the `return` missing?"),
        (1.0, True, "True or False"),
        (np.bool_(True), True, None),
        (3.1581, 3.1583, "gives 3.1581; it should be 3.1583"),
        (torch.tensor([torch.nan]), torch.tensor([0.0]), "gives [nan]; it should be [0]"),
        (torch.tensor([torch.nan]), torch.tensor([torch.nan]), None),
    ],
)
def test_forms_and_values(got, right, told):
    found = form_differs(got, right) or value_differs(got, right)
    assert found is None if told is None else told in found


def line_in(file, code="1 / 0"):
    """Where an error seems to come from, in a piece of code that this file calls."""
    linecache.cache[file] = (len(code), None, [code], file)
    with pytest.raises(ZeroDivisionError) as error:
        exec(compile(code, file, "exec"))
    return student_line(error.value, __file__)


def test_a_folder_beside_python_is_the_students_and_one_in_it_is_not():
    theirs = f"{sys.prefix}-work{os.sep}answer.py"
    assert line_in(theirs) == "line 1, `1 / 0`"
    assert line_in(os.path.join(sys.prefix, "lib", "library.py")) is None
    assert line_in("<ipython-input-3>") == "line 1, `1 / 0`"


def test_tolerance_follows_from_the_size_of_the_numbers():
    scores = torch.tensor([[1000.0, 1001, 998]])
    right = scores.softmax(-1)
    by_logarithms = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    assert alike(by_logarithms, right, tolerance_for(right, (scores,)))
    assert not alike(right * 1.001, right, tolerance_for(right, (scores,)))
    assert not alike(right * 1.0001, right, tolerance_for(right, SCORES[0]))
