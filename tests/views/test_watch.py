"""``watch``: what it keeps of a run, what it leaves alone, what it sends and draws."""

import functools
import json
import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn

from d2l_attention import masked_softmax
from d2l_attention.views import watch
from d2l_attention.views.recorder import MOST_STEPS

MASK = torch.tensor([[True, True, False], [True, False, False]])


def softmax_in_steps(scores, mask):
    """Softmax.

    These lines are not shown.
    """
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.exp()
    weights /= weights.sum(-1, keepdim=True)
    return weights


def loop(n):
    total = 0
    for i in range(n):
        total = total + i
    return total


def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


def in_place(scores, mask):
    hidden = scores
    hidden[~mask] = -1.0
    return hidden


def stops(queries, keys):
    with torch.no_grad():
        scores = queries @ keys
    return scores


def sources(view):
    return [step.source for step in view.steps]


def changes(view):
    return [list(step.changed) for step in view.steps]


def sent(view):
    return json.loads(view.run_text)


def test_each_line_is_a_step_with_what_it_changed():
    scores = torch.randn(2, 3)
    view = watch(softmax_in_steps, scores, MASK)
    assert sources(view) == [
        "def softmax_in_steps(scores, mask):",
        "scores = scores.masked_fill(~mask, -torch.inf)",
        "weights = scores.exp()",
        "weights /= weights.sum(-1, keepdim=True)",
        "return weights",
    ]
    assert changes(view) == [["scores", "mask"], ["scores"], ["weights"], ["weights"], ["return"]]
    first = softmax_in_steps.__code__.co_firstlineno
    assert [step.line - first for step in view.steps] == [0, 5, 6, 7, 8]
    # Values as they were then: a later change in place does not reach them.
    torch.testing.assert_close(view.steps[0].changed["scores"], scores)
    weights = view.steps[2].changed["weights"]
    torch.testing.assert_close(weights, view.steps[1].changed["scores"].exp())
    torch.testing.assert_close(view.steps[3].changed["weights"], view.result)
    assert [step.in_place for step in view.steps] == [(), (), (), ("weights",), ()]
    assert all(step.error is None for step in view.steps) and view.error is None


def test_result_and_side_effects_are_those_of_the_function():
    torch.manual_seed(3)
    seen = []

    def noisy(X):
        seen.append(len(seen))
        X += 1
        noise = torch.rand(())
        return X * noise

    X = torch.zeros(2, requires_grad=True).clone()
    result = watch(noisy, X).result
    torch.manual_seed(3)
    torch.testing.assert_close(result, torch.ones(2) * torch.rand(()))
    assert X.tolist() == [1.0, 1.0] and seen == [0]
    assert result.requires_grad


def test_a_loop_is_a_step_a_line_each_time():
    view = watch(loop, 3)
    assert [step.changed.get("i") for step in view.steps if "for" in step.source] == [0, 1, 2, None]
    assert [s.changed["total"] for s in view.steps if "total +" in s.source and s.changed] == [1, 3]
    assert view.result == 3


def test_a_statement_of_several_lines_is_one_step():
    def wide(X):
        Y = torch.cat(
            [
                X,
                X + 1,
            ],
        )
        return Y

    view = watch(wide, torch.ones(1))
    assert sources(view)[1:] == ["Y = torch.cat(", "return Y"]


def test_early_return_ends_the_run():
    view = watch(factorial, 1)
    assert sources(view) == ["def factorial(n):", "if n < 2:", "return 1"]
    assert watch(lambda: None).steps[-1].changed == {"return": None}


def test_an_exception_is_the_last_step_with_the_operands():
    view = watch(stops, torch.ones(2, 3), torch.ones(2, 3))
    assert view.steps[-1].source == "scores = queries @ keys"
    assert "cannot be multiplied (2x3 and 2x3)" in view.steps[-1].error
    assert view.steps[-1].error.endswith("Shapes: queries (2, 3), keys (2, 3).")
    assert isinstance(view.error, RuntimeError) and "RuntimeError" in repr(view)
    assert view.step == len(view.steps) - 1  # what the reader wants to see
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        view.result  # noqa: B018


def test_an_exception_is_the_last_step_after_finally_and_in_a_call():
    def tidy(X):
        try:
            return stops(X, X.mT @ X)
        finally:
            done = True  # noqa: F841

    assert watch(tidy, torch.ones(2, 3), into=[stops]).error is None
    last = watch(tidy, torch.ones(3), into=[stops]).steps[-1]
    assert last.error and "done" in last.names


def test_recursion_keeps_the_names_of_each_call_apart():
    view = watch(factorial, 3)
    assert view.result == 6
    starts = [step for step in view.steps if step.source.startswith("def")]
    assert [(step.call, step.depth, step.changed["n"]) for step in starts] == [
        (0, 0, 3),
        (1, 1, 2),
        (2, 2, 1),
    ]
    assert [s.changed["return"] for s in view.steps if "return" in s.changed] == [1, 2, 6]
    assert view.steps[-1].names["n"] == 3


def test_at_most_500_steps_then_a_sentence():
    view = watch(loop, 1000)
    assert view.result == sum(range(1000)) and len(view.steps) == MOST_STEPS
    assert sent(view)["note"] == "The run is longer than the first 500 steps, kept here."


def test_an_exception_after_the_last_step_kept_is_still_told():
    def late(n):
        for i in range(n):
            i += 1
        raise ValueError(f"after {n}")

    view = watch(late, 1000)
    assert len(view.steps) == MOST_STEPS + 1
    assert view.steps[-1].error == "ValueError: after 1000"


@pytest.mark.parametrize(
    "kept",
    [np.zeros(50), [[np.zeros(50)]], {"cache": (torch.zeros(100),)}],
    ids=["array", "list", "dict"],
)
def test_copies_in_arrays_lists_and_dicts_count(kept, monkeypatch):
    monkeypatch.setattr("d2l_attention.views.recorder.MOST_BYTES", 399)
    assert "fills a gigabyte" in sent(watch(passes_on, kept))["note"]
    monkeypatch.setattr("d2l_attention.views.recorder.MOST_BYTES", 1000)
    assert "fills a gigabyte" not in sent(watch(passes_on, kept))["note"]


def passes_on(kept):
    n = len(kept)
    return n


NO_SOURCE = {}
exec("def typed(x):\n    return x", NO_SOURCE)
TIMED = {}  # as IPython runs a cell that begins with %%time
exec(compile("def timed(x):\n    return x", "<timed exec>", "exec"), TIMED)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (NO_SOURCE["typed"], "typed has no Python source"),
        (TIMED["timed"], "its cell begins with `%%time`; take that away"),
        (torch.softmax, "no Python function"),
        (torch.compile(loop, backend="eager"), "loop is compiled by torch.compile.*before it was"),
        (torch.compile(nn.Linear(2, 2), backend="eager"), "is compiled by torch.compile"),
        (lambda: (yield 1), "generator"),
        (3, "int is no Python function"),
    ],
)
def test_what_has_no_lines_is_a_clear_error(function, words):
    with pytest.raises(TypeError, match=words):
        watch(function)
    with pytest.raises(TypeError, match=words):
        watch(loop, 3, into=[function])


def test_a_lambda_a_method_a_partial_a_layer_and_what_can_be_called():
    class Twice:
        def __init__(self):
            self.factor = 2

        def times(self, X):
            return self.factor * X

        def __call__(self, X):
            return self.times(X)

    class Layer(nn.Module):
        def forward(self, X):
            return X + 1

    X = torch.ones(2)
    assert [list(s.changed) for s in watch(lambda x: x + 1, 1).steps] == [["x"], ["return"]]
    assert watch(Twice().times, X).steps[-1].source == "return self.factor * X"
    assert watch(Twice(), X).steps[-1].source == "return self.times(X)"
    assert watch(functools.partial(loop, 2)).result == 1
    view = watch(Layer(), X)
    assert view.steps[-1].source == "return X + 1" and view.result.tolist() == [2, 2]
    decorated = torch.no_grad()(in_place)
    assert sources(watch(decorated, torch.zeros(2, 3), MASK))[1] == "hidden = scores"


def test_nested_functions_are_watched_and_entered_only_on_request():
    offset = torch.tensor([1.0, 2.0])

    def outer(X):
        def inner(Y):
            return Y + offset

        Z = inner(X)
        return Z

    view = watch(outer, torch.zeros(2))
    assert sources(view)[1:] == ["def inner(Y):", "Z = inner(X)", "return Z"]
    # A name from outside belongs to the names.
    assert watch(lambda: offset * 2).steps[0].changed["offset"].tolist() == [1, 2]


def test_into_enters_further_functions():
    def attend(scores, valid_lens):
        weights = masked_softmax(scores, valid_lens)
        return weights

    inputs = torch.zeros(1, 2, 3), torch.tensor([2])
    plain = watch(attend, *inputs)
    assert {step.listing.name for step in plain.steps} == {"attend"}
    view = watch(attend, *inputs, into=[masked_softmax])
    assert {step.listing.name for step in view.steps} == {"attend", "masked_softmax"}
    inside = [step for step in view.steps if step.listing.name == "masked_softmax"]
    assert {step.depth for step in inside} == {1} and "return" in inside[-1].changed
    torch.testing.assert_close(view.result, plain.result)


def test_comprehensions_are_one_step_and_generators_not_entered():
    def squares():
        yield 1
        yield 4

    def add_up(n):
        halves = [i / 2 for i in range(n)]
        total = sum(i for i in range(n))
        for square in squares():
            total += square
        return halves, total

    view = watch(add_up, 3)
    assert changes(view)[1:3] == [["halves"], ["total"]]
    assert {step.listing.name for step in view.steps} == {"add_up"}
    assert not any(step.error for step in view.steps)
    assert view.result == ([0, 0.5, 1], 8)


def test_a_comprehension_in_the_head_of_a_loop():
    def add_up(n):
        total = 0
        for i in [2 * i for i in range(n)]:
            total += i
        return total

    turns = [["i"], [], ["i"], ["total"], ["i"], ["total"], []]
    assert changes(watch(add_up, 3))[2:-1] == turns


def test_other_threads_are_left_alone():
    traces = []

    def start(n):
        def work():
            traces.append(sys.gettrace())
            loop(n)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return loop(n)

    before = threading.gettrace()
    view = watch(start, 2, into=[loop])
    assert [step.source for step in view.steps].count("def loop(n):") == 1
    assert traces == [before] and threading.gettrace() is before


def test_a_debuggers_own_trace_is_put_back():
    seen = []

    def debugger(frame, event, arg):
        seen.append(frame.f_code.co_name)
        return None

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        watch(stops, torch.ones(2, 3), torch.ones(2, 3))  # an error
        after = sys.gettrace()
        loop(1)
    finally:
        sys.settrace(before)
    assert after is debugger and "loop" in seen and "stops" not in seen


def test_what_stops_python_goes_on_and_puts_the_trace_back():
    def leave():
        raise KeyboardInterrupt

    before = sys.gettrace()
    with pytest.raises(KeyboardInterrupt):
        watch(leave)
    assert sys.gettrace() is before


def test_an_error_after_a_watched_call_is_told_of_its_own_line():
    def helper(x):
        return x + 1

    def other(x):
        raise ValueError("no")

    def work(x):
        with torch.no_grad():
            a = helper(x)
            b = other(a)
        return b

    view = watch(work, torch.ones(2), into=[helper])
    assert view.steps[-1].error.startswith("ValueError: no")
    assert view.steps[-1].source == "b = other(a)"


def test_a_wrong_call_raises_its_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        watch(lambda x: x)


def test_a_long_or_broken_error_text_is_cut():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    def work(error):
        raise error

    assert len(watch(work, ValueError("x" * 100_000)).steps[-1].error) < 1000
    assert watch(work, Broken()).steps[-1].error == "Broken"
