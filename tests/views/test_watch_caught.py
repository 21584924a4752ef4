"""``watch`` of functions that catch exceptions: each is told where it was raised, once."""

import contextlib
import sys

import pytest
import torch

from d2l_attention.views import watch
from d2l_attention.views.replays import Replay, replays
from d2l_attention.views.watch_view import compare

STOPS = [ValueError, RecursionError, KeyboardInterrupt, SystemExit, GeneratorExit]


def told(view):
    """The lines that raised, each with the kind of error."""
    return [(s.source, s.error.partition(":")[0]) for s in view.steps if s.error]


def raises(error):
    raise error


def catches(error):
    try:
        raises(error)
    except BaseException as caught:
        kind = type(caught).__name__
    return kind


@pytest.mark.parametrize("kind", STOPS)
@pytest.mark.parametrize("into", [[], [raises]], ids=["outside", "inside"])
def test_what_a_call_raises_is_told_where_it_was_raised(kind, into):
    view = watch(catches, kind("no"), into=into)
    assert view.error is None and view.result == kind.__name__
    if kind is GeneratorExit:  # how a generator is closed
        assert told(view) == []
    else:
        assert told(view) == [("raise error" if into else "raises(error)", kind.__name__)]
    ends = view.steps[-1]
    assert ends.changed == {"return": kind.__name__} and (ends.call, ends.depth) == (0, 0)
    assert sys.gettrace() is None


def test_an_error_that_is_raised_again_is_told_again():
    def twice():
        error = ValueError("again")
        for i in range(2):
            try:
                raise error
            except ValueError:
                n = i
        return n

    view = watch(twice)
    assert told(view) == [("raise error", "ValueError")] * 2
    assert view.result == 1


def test_an_error_that_ends_the_run_is_told_at_the_line_that_raised_it_last():
    def keeps():
        error = ValueError("kept")
        with contextlib.suppress(ValueError):
            raise error
        n = 1
        if n:
            raise error

    view = watch(keeps)
    first = view.steps[0].line
    assert [step.line - first for step in view.steps if step.error] == [3, 6]
    assert view.steps[-1].names["n"] == 1 and view.step == len(view.steps) - 1


def test_a_raise_alone_and_a_finally_hand_on_what_was_told():
    def hands_on(text):
        done = 0
        try:
            try:
                try:
                    int(text)
                finally:
                    done += 1
            except ValueError:
                raise
        except ValueError:
            done += 1
        return done

    view = watch(hands_on, "x")
    assert told(view) == [("int(text)", "ValueError")] and view.result == 2


def test_an_error_from_an_error_is_another_one():
    def wraps(text):
        try:
            int(text)
        except ValueError as error:
            raise TypeError("text") from error

    view = watch(wraps, "x")
    assert [kind for _, kind in told(view)] == ["ValueError", "TypeError"]
    assert isinstance(view.error, TypeError)


def test_calls_that_raise_are_over():
    def count_down(n):
        if n == 0:
            raise ValueError
        try:
            return count_down(n - 1)
        except ValueError:
            return n

    view = watch(count_down, 3)
    assert view.result == 1
    assert [s.depth for s in view.steps if s.source.startswith("def")] == [0, 1, 2, 3]
    assert view.steps[-1].depth == 0 and len(told(view)) == 1


def test_two_runs_that_catch_and_a_replay():
    def mine(text):
        X = torch.zeros(2)
        with contextlib.suppress(ValueError):
            X = X + int(text)
        return X

    def theirs(text):
        X = torch.ones(2)
        return X

    both = compare(mine, theirs, "x")
    assert both.name == "X" and both.mine.error is None
    replays["0.test"] = lambda: Replay(mine, theirs, lambda function: function("x"))
    try:
        view = watch("0.test")
    finally:
        del replays["0.test"]
    assert told(view) and view.error is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_the_shapes_of_nested_operands(layout):
    def multiplies(X):
        with contextlib.suppress(RuntimeError, ValueError):
            X = X @ X
        return X

    nested = torch.nested.nested_tensor([torch.ones(1, 3), torch.ones(2, 3)], layout=layout)
    view = watch(multiplies, nested)
    (error,) = [step.error for step in view.steps if step.error]
    assert error.endswith("Shapes: X (2, ?, 3).") and view._recording.note == ""


def test_numbers_that_cannot_be_read_do_not_stop_the_view():
    from torch._subclasses.fake_tensor import FakeTensorMode

    def double(X):
        Y = X * 2
        return Y.sum(), Y

    fake = FakeTensorMode().from_tensor(torch.ones(2, 3))
    numbers = torch.func.vmap(lambda x: double(x)[1])
    views = [
        watch(double, fake),
        watch(double, torch.ones(2, 3, device="meta")),
        watch(numbers, torch.ones(3), into=[double]),
        watch(torch.func.grad(lambda x: double(x)[0]), torch.ones(3), into=[double]),
        watch(double, torch.ones(2) + 1j),
        watch(double, torch.ones(2, 3).to_sparse()),
    ]
    for view in views:
        assert view.error is None and view._recording.note == ""
        assert view.still().startswith(b"\x89PNG") and view.run_text


def test_an_attribute_whose_name_no_line_can_write_is_left_out():
    """The page gets the names in one text, between spaces."""

    class Odd:
        def __init__(self):
            setattr(self, "a b", 1)
            self.n = 1

        def run(self):
            self.n += 1
            setattr(self, "a b", self.n)

    assert [*watch(Odd().run).steps[-1].names] == ["self", "return", "self.n"]
