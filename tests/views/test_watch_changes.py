"""``watch``: which changes in place it sees, and shows under the name that was changed."""

from collections import deque

import numpy as np
import pytest
import torch
from torch import nn

from d2l_attention.views import watch
from d2l_attention.views.values import MOST_ENTRIES, MOST_NUMBERS
from d2l_attention.views.watch_drawing import in_words


def changed_by(view, source):
    """What the first line with these words changed."""
    return next(step.changed for step in view.steps if source in step.source)


def test_lists_arrays_and_dicts_are_seen_to_change():
    def fill(array):
        heads, known = [], {}
        heads.append(torch.ones(2, 3))
        heads[0] += 1
        known["a"] = heads
        array[0] = 5
        return heads

    view = watch(fill, np.zeros(2))
    changes = [list(step.changed) for step in view.steps]
    assert changes[2:6] == [["heads"], ["heads"], ["known"], ["array"]]
    assert view.steps[2].changed["heads"][0].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert in_words(view.steps[3].changed["heads"]) == "[(2, 3)]"


def test_a_name_that_was_deleted_and_made_anew_is_new():
    def work(x):
        y = x * 1
        del y
        y = x * 2
        del y
        y = x * 3
        return y

    seen = [
        step.changed["y"].tolist()
        for step in watch(work, torch.ones(1)).steps
        if step.changed.get("y") is not None
    ]
    assert seen == [[1], [2], [3]]


def test_sets_are_seen_to_change():
    def visit(words):
        seen, fixed = set(), frozenset(words)
        for word in words:
            seen.add(word)
        seen.discard("a")
        seen |= fixed
        seen.add("a")
        return seen

    view = watch(visit, ["a", "b", "a"])
    added = [step.changed for step in view.steps if step.source == "seen.add(word)"]
    assert added == [{"seen": {"a"}}, {"seen": {"a", "b"}}, {}]  # the second "a" changes nothing
    assert changed_by(view, "discard") == {"seen": {"b"}}
    assert changed_by(view, "|=") == {"seen": {"a", "b"}}
    assert next(step for step in view.steps if "discard" in step.source).in_place == ("seen",)


def test_deques_are_seen_to_change_and_what_they_hold():
    def slide(X):
        window = deque(maxlen=2)
        for row in X:
            window.append(row.clone())
        window[0] += 1
        window.rotate()
        return window

    view = watch(slide, torch.tensor([1.0, 2.0, 3.0]))
    appended = [s.changed["window"] for s in view.steps if "append" in s.source]
    assert [[row.item() for row in window] for window in appended] == [[1], [1, 2], [2, 3]]
    assert [row.item() for row in changed_by(view, "+= 1")["window"]] == [3, 3]
    assert "window" in changed_by(view, "rotate")


class Counter:
    def __init__(self):
        self.n, self.seen, self.total = 0, [], torch.zeros(2)
        self.helper, self._hidden = object(), 0

    def add(self, X):
        self.n += 1
        self.seen.append(self.n)
        self.total += X
        self._hidden += 1
        self.mean = self.total / self.n
        return self.mean


def test_attributes_of_self_are_shown_once_a_line_changes_them():
    view = watch(Counter().add, torch.ones(2))
    first, n, seen, total, hidden, mean, _ = view.steps
    assert list(first.names) == ["self", "X"]
    assert n.changed == {"self.n": 1} and "self.n" in n.names and "self.total" not in n.names
    assert seen.changed == {"self.seen": [1]} and seen.in_place == ("self.seen",)
    assert total.changed["self.total"].tolist() == [1, 1] and total.in_place == ("self.total",)
    assert hidden.changed == {}
    assert list(mean.changed) == ["self.mean"]
    assert [*mean.names] == ["self", "X", "self.n", "self.seen", "self.total", "self.mean"]


def test_parameters_and_buffers_of_a_layer_are_shown_once_a_line_changes_them():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))
            self.register_buffer("mean", torch.zeros(2))
            self.inner = nn.Linear(2, 2)

        def forward(self, X):
            Y = self.inner(X)
            self.mean = 0.9 * self.mean + 0.1 * X
            with torch.no_grad():
                self.scale *= 2
            return Y * self.scale

    view = watch(Running(), torch.ones(2))
    assert list(changed_by(view, "self.mean =")) == ["self.mean"]
    assert list(changed_by(view, "self.scale *=")) == ["self.scale"]
    assert set(view.steps[-1].names) == {"self", "X", "Y", "self.mean", "self.scale", "return"}


def test_what_a_watched_call_does_to_self_is_news_in_both_calls():
    class Outer(Counter):
        def twice(self, X):
            self.add(X)
            done = self.n
            return done

    view = watch(Outer().twice, torch.ones(2), into=[Counter.add])
    calls = {step.call for step in view.steps if step.changed.get("self.n") == 1}
    assert calls == {0, 1}
    assert "self.mean" in changed_by(view, "self.add(X)")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
def test_what_is_written_past_pytorchs_count_is_seen(dtype):
    def past(X):
        X.data[0] = 5
        return X

    view = watch(past, torch.zeros(3, dtype=dtype))
    assert changed_by(view, "X.data")["X"].tolist() == [5, 0, 0]
    assert view.steps[1].in_place == ("X",)


def test_an_array_and_its_tensor_change_together():
    def shared(array):
        X = torch.from_numpy(array)
        array[0] = torch.nan
        again = X + 1
        array[1] = 2
        return again

    view = watch(shared, np.zeros(2))
    assert set(changed_by(view, "array[0]")) == {"array", "X"}
    assert set(changed_by(view, "again =")) == {"again"}  # NaN equals NaN here
    assert set(changed_by(view, "array[1]")) == {"array", "X"}


@pytest.mark.parametrize("size", [MOST_NUMBERS, MOST_NUMBERS + 1])
def test_data_of_large_tensors_is_not_compared_but_their_count_is(size):
    def both(X):
        X.data[0] = 5
        X[1] = 5
        return X

    view = watch(both, torch.zeros(size))
    assert ("X" in changed_by(view, "X.data")) == (size == MOST_NUMBERS)
    assert "X" in changed_by(view, "X[1]")


def test_the_student_reads_what_is_not_seen():
    words = " ".join(watch.__doc__.split())
    assert f"{MOST_NUMBERS:,} numbers" in words and "In other objects it is not." in words
    assert f"beyond the first {MOST_ENTRIES} entries" in words


def test_large_tensors_of_inference_which_have_no_count_are_compared():
    @torch.inference_mode()
    def raised(n):
        X = torch.zeros(n)
        X += 1
        return X

    view = watch(raised, MOST_NUMBERS + 1)
    assert changed_by(view, "X += 1")["X"].unique().tolist() == [1]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"b", "a"}, "{'a', 'b'}"),
        (set(), "set()"),
        (frozenset([torch.Size([2])]), "frozenset({torch.Size([2])})"),
        (deque([torch.ones(2, 3), 1.5], maxlen=4), "deque([(2, 3), 1.5])"),
        (deque(range(8)), "deque([0, 1, 2, 3, 4, 5, ... 8 in all])"),
    ],
)
def test_sets_and_deques_in_words(value, words):
    assert in_words(value) == words


def resize(a):
    a.resize((2, 3), refcheck=False)


def set_shape(a):
    a.shape = 2, 3


def set_dtype(a):
    a.dtype = np.int64


def set_data(X):
    X.data = X.data.reshape(2, 3)


def set_data_dtype(X):
    X.data = X.data.view(torch.int64)


@pytest.mark.parametrize("changes", [resize, set_shape, set_dtype, set_data, set_data_dtype])
@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
def test_another_shape_or_dtype_in_place_is_seen(changes):
    def work(value):
        changes(value)
        return value

    of_tensor = changes.__name__.startswith("set_data")
    value = torch.arange(6.0, dtype=torch.float64) if of_tensor else np.arange(6.0)
    view = watch(work, value)
    changed = changed_by(view, "changes(")["value"]
    assert view.steps[1].in_place == ("value",)
    if "dtype" in changes.__name__:
        assert str(changed.dtype).endswith("int64") and tuple(changed.shape) == (6,)
    else:
        assert tuple(changed.shape) == (2, 3)
