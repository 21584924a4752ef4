"""The exercise engine against everything that a student's code can do."""

import sys
import time

import pytest
import torch
from sample_exercise import SCORES, an_exercise, softmax

from d2l_attention.exercises.authoring import Mistake
from d2l_attention.exercises.engine.attempt import Attempt, unchanged
from d2l_attention.exercises.engine.examine import examine


def raises(scores):
    return scores / torch.zeros(3, 2) @ missing_name  # noqa: F821


def leaves(scores):
    sys.exit(3)


def recurses(scores):
    return recurses(scores)


def returns_nothing(scores):
    softmax(scores)


def returns_list(scores):
    return softmax(scores).tolist()


def returns_other_shape(scores):
    return softmax(scores).T


def returns_double(scores):
    return softmax(scores.double())


def returns_on_other_device(scores):
    return softmax(scores).to("meta")


def returns_sparse(scores):
    return softmax(scores).to_sparse()


def mutates(scores):
    scores -= scores.amax(dim=-1, keepdim=True)
    return softmax(scores)


calls = []


def remembers(scores):
    calls.append(1)
    return softmax(scores) * len(calls)


def takes_too_few():
    return None


def swallows(scores):
    try:
        return softmax(scores.nothing_like_this)
    except:  # noqa: E722
        pass


def prints_for_ever(scores):
    while True:
        print("<b>again</b>")


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def raises_unprintable(scores):
    raise Unprintable


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (raises, "line"),
        (leaves, "ends Python"),
        (recurses, "calls itself without end"),
        (returns_nothing, "Is the `return` missing?"),
        (returns_list, "returned a list; it should return a tensor"),
        (returns_other_shape, "shape (2, 1); it should be (1, 2)"),
        (returns_double, "is float64; for these inputs it should be float32"),
        (returns_on_other_device, "lives on meta"),
        (returns_sparse, "should be an ordinary one"),
        (mutates, "changes its input: `scores` was [[1, 2]]"),
        (remembers, "Something outlives the call"),
        (takes_too_few, "could not be called"),
        (swallows, "returned `None`"),
        (raises_unprintable, "an Unprintable"),
        (torch.softmax, "could not be called"),
        (softmax(SCORES[0][0]), "needs your function itself"),
        (0.5, "needs your function itself"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_whatever_the_code_does_is_explained(tell, answer, told):
    result = tell(answer)
    assert result.verdict.state == "not yet"
    assert told in result.message
    assert "Traceback" not in repr(result)


def test_our_own_work_takes_nothing_from_the_students_time(tell):
    """A slow machine may need seconds for the wrong functions that name a mistake."""

    def wrong_and_slow(scores):
        time.sleep(1.2)
        return softmax(scores) / 2

    slow = Mistake(wrong_and_slow, "Your weights are half of what they should be.")
    result = tell(lambda scores: softmax(scores) / 3, seconds=1, mistakes=[slow])
    assert "Your function gives" in result.message


def test_an_error_names_the_students_line_and_the_input(tell):
    message = tell(raises).message
    assert "NameError" in message and "missing_name  # noqa: F821`" in message
    assert "scores = [[1, 2]]" in message
    assert "Has the cell that defines it been run?" in message


def test_a_right_answer_is_solved_and_may_print(tell, capfd):
    def chatty(scores):
        print("shape", tuple(scores.shape))
        return softmax(scores)

    result = tell(chatty)
    assert result.solved and result.message == "Solved. Because."
    assert result.printed.startswith("shape (1, 2)\n")
    assert "shape" not in "".join(capfd.readouterr())


def test_endless_printing_is_cut_and_escaped(tell):
    result = tell(prints_for_ever, seconds=1)
    assert "still running after 1 seconds" in result.message
    assert result.printed == "<b>again</b>\n" * 10 + "... (the rest is not shown)"
    assert "<b>again" not in result._repr_html_()
    assert "&lt;b&gt;again" in result._repr_html_()


def test_a_faulty_check_is_not_blamed_on_the_student(tell):
    def faulty(attempt):
        raise KeyError("oops")

    result = tell(softmax, steps=[faulty])
    assert result.verdict.state == "trouble" and not result.solved
    assert "the check is at fault" in result.message and "KeyError" in result.message


def test_random_numbers_are_not_taken_for_memory_and_those_of_the_kernel_stay(tell):
    def noisy(scores):
        return softmax(scores + torch.randn(scores.shape))

    state = torch.get_rng_state()
    assert "Your function gives" in tell(noisy).message
    assert torch.equal(torch.get_rng_state(), state)


def empties(*scores, **named):
    for each in (*scores, *named.values()):
        each.zero_()


@pytest.mark.parametrize(
    ("inputs", "named", "name"),
    [
        ([torch.ones(1)], {}, "scores"),
        ([torch.zeros(1), torch.ones(1)], {}, "input 2"),
        ([], {"mask": torch.ones(1)}, "mask"),
        ([torch.zeros(1)], {"mask": torch.ones(1)}, "mask"),
    ],
)
def test_a_change_in_place_is_seen_however_the_input_was_given(inputs, named, name):
    attempt = Attempt(empties, an_exercise())
    attempt(*inputs, **named)
    assert (
        f"changes its input: `{name}` was [1] before the call and is [0] after" in attempt.changed
    )


def test_gradients_flow_through_the_copies_of_the_inputs():
    scores = torch.tensor([1.0, 2.0], requires_grad=True)
    attempt = Attempt(softmax, an_exercise())
    attempt(scores)[0].backward()
    a = scores.detach().softmax(-1)
    torch.testing.assert_close(scores.grad, torch.stack([a[0] * (1 - a[0]), -a[0] * a[1]]))


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, torch.nan]), True),
        (torch.tensor([1.0]), torch.tensor([2.0]), False),
        (torch.tensor([1.0]), torch.tensor([1]), False),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), False),
        ([1, torch.tensor(2)], [1, torch.tensor(2)], True),
        ([1, 2], [1, 2, 3], False),
        ({"a": 1}, {"a": 2}, False),
        (float("nan"), float("nan"), True),
        (None, 0, False),
    ],
)
def test_unchanged(before, now, same):
    assert unchanged(before, now) is same


def test_a_stub_without_source_is_recognised_when_it_runs(tell):
    """Code from ``exec`` has no source to look at."""
    names = {}
    exec("def f(scores): return ...\ndef g(scores): raise NotImplementedError", names)
    assert {tell(names[name]).message for name in "fg"} == {"Not attempted yet."}


def test_student_text_is_never_html(tell):
    def nasty(scores):
        raise ValueError("<img src=x onerror=alert(1)> `<b>`")

    shown = tell(nasty)._repr_html_()
    assert "<img" not in shown and "<b>`" not in shown and "<code><b>" not in shown
    assert "&lt;img" in shown


@pytest.mark.parametrize("form", [lambda X: X, lambda X: (X, 2 * X)], ids=["one", "two"])
def test_a_result_on_a_gpu_is_brought_home(monkeypatch, form):
    """What is checked is the same function; its result says that it lives elsewhere."""
    home = torch.Tensor.cpu

    class Away(torch.Tensor):
        device = torch.device("cuda:1")

        def cpu(self):
            return home(self.as_subclass(torch.Tensor))

    exercise = an_exercise(solution=lambda scores: form(softmax(scores)))
    right = examine(exercise, lambda scores: form(softmax(scores).as_subclass(Away)))
    assert right.state == "solved"
    assert "Your result on cuda:1 was compared on the CPU." in right.message
    wrong = examine(exercise, lambda scores: form(scores.as_subclass(Away)))
    assert wrong.state == "not yet" and "cuda" not in wrong.message
