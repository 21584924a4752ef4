"""``look_inside`` of models that catch what their parts raise, and of runs that end early."""

import threading
import weakref
from contextlib import nullcontext, suppress

import pytest
import torch
from made import Made
from torch import nn

from d2l_attention import DotProductAttention
from d2l_attention.views import look_inside
from d2l_attention.views.inside.names import path_within
from d2l_attention.views.inside.places import find
from d2l_attention.views.inside.recording import record
from d2l_attention.views.inside.sending import parts_of

X = torch.eye(2)
STOPS = [ValueError, RecursionError, KeyboardInterrupt, SystemExit, GeneratorExit]


def tree(call):
    """Path and whether it raised, nested as they were called."""
    return {(each.path, each.raised): tree(each) for each in call.calls}


def looked(model, *inputs):
    return record(model, inputs, {}, None).call


class Raises(nn.Module):
    """Calls a part of its own, and raises behind it."""

    def __init__(self, error=ValueError, depth=0):
        super().__init__()
        self.error = error
        self.first = nn.ReLU()
        self.inner = Raises(error, depth - 1) if depth else None

    def forward(self, X):
        X = self.first(X)
        if self.inner is not None:
            return self.inner(X)
        raise self.error("no")


class Catches(nn.Module):
    """The model of the report: ``try: self.a(X) except: self.b(X)``."""

    def __init__(self, a):
        super().__init__()
        self.a, self.b, self.c = a, nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)

    def forward(self, X):
        try:
            Y = self.a(X)
        except BaseException:
            Y = self.b(X)
        return self.c(Y)


@pytest.mark.parametrize("error", STOPS)
def test_parts_behind_a_caught_exception_hang_where_they_were_called(error):
    raised = {("a.first", False): {}, ("a.inner", True): {("a.inner.first", False): {}}}
    call = looked(Catches(Raises(error, depth=1)), X)
    after = {("b", False): {("b.0", False): {}}, ("c", False): {}}
    assert tree(call) == {("a", True): raised} | after
    a, b, c = call.calls
    assert a.inputs and not a.outputs and b.outputs and c.outputs and call.outputs
    assert a.above is b.above is c.above is call


def test_a_part_that_raised_says_so_by_its_name_and_can_be_opened():
    view = look_inside(Catches(Raises(depth=1)), X)
    names = [part.name for part in view._parts]
    assert names[1:4] == ["a (raised)", "b", "c"]
    view.place = "a (raised)/inner (raised)"
    assert view.still().startswith(b"\x89PNG")
    assert "a (raised), b, c" in view.alt


def test_a_part_that_raises_once_and_then_not():
    def retries(self, X):
        for inputs in (torch.zeros(3), X):
            with suppress(RuntimeError):
                X = self.a(inputs)
        return X

    run = record(Made(retries, a=nn.Linear(2, 2)), (X,), {}, None)
    assert [part.name for part in parts_of(run)[1:]] == ["a (raised)", "a (call 2)"]
    assert find(parts_of(run), "a (call 2)").part.call.outputs


def test_the_last_part_raises_and_the_model_gives_its_own():
    def ends(self, X):
        with suppress(ValueError):
            self.a(X)
        return X + 1

    call = looked(Made(ends, a=Raises()), X)
    assert tree(call) == {("a", True): {("a.first", False): {}}}
    assert torch.equal(call.outputs[0].numbers, X + 1) and not call.raised


@pytest.mark.parametrize("kind", ["pre", "post"])
def test_a_hook_of_the_readers_that_raises(kind):
    model = Catches(nn.Linear(2, 2))

    def hook(*_):
        raise ValueError

    add = model.a.register_forward_pre_hook if kind == "pre" else model.a.register_forward_hook
    add(hook)
    found = tree(looked(model, X))
    inner = {} if kind == "pre" else {("a", True): {}}  # before: the part has not begun
    assert found == inner | {("b", False): {("b.0", False): {}}, ("c", False): {}}


def test_a_hook_that_calls_a_part_before_the_model_begins():
    model = Catches(nn.Linear(2, 2))
    model.register_forward_pre_hook(lambda module, args: (module.c(*args),) and None)
    run = record(model, (X,), {}, ["one", "two"])
    assert run.call.module is model and run.left_out == 1
    assert [each.path for each in run.call.calls] == ["a", "c"]


def test_many_calls_of_which_one_raises(monkeypatch):
    monkeypatch.setattr("d2l_attention.views.inside.recording.MOST_CALLS", 4)
    run = record(Catches(Raises(depth=3)), (X,), {}, None)
    assert run.left_out == 8  # of 12: what is in a part that is left out is left out, too
    assert tree(run.call) == {
        ("a", True): {("a.first", False): {}, ("a.inner", True): {}},
    }


def test_a_module_that_calls_itself():
    def counts(self, X, n):
        if n == 0:
            raise ValueError
        with suppress(ValueError):
            X = self(self.part(X), n - 1)
        return X

    view = look_inside(Made(counts, part=nn.ReLU()), X, n=3)
    assert [part.name for part in view._parts][:4] == ["Made", "part", "Made", "part"]
    view.place = "Made/Made/Made (raised)"
    assert view.still().startswith(b"\x89PNG")


def test_a_part_whose_name_begins_like_anothers_is_not_within_it():
    assert path_within("a.b", "a") == "b" and path_within("ab", "a") == "ab"


def test_a_generator_runs_its_parts_where_it_is_asked():
    def yields(self, X):
        for row in X:
            yield self.part(row)

    def asks(self, X):
        rows = self.steps(X)
        first = next(rows)
        rows.close()
        return self.last(first)

    call = looked(Made(asks, steps=Made(yields, part=nn.ReLU()), last=nn.ReLU()), X)
    assert [each.path for each in call.calls] == ["steps", "steps.part", "last"]
    assert call.calls[0].outputs == [] and not call.calls[0].raised


def test_parts_that_run_in_other_threads_stand_under_the_model():
    def in_threads(self, X):
        both = threading.Barrier(2, timeout=30)

        def work(part):
            both.wait()
            part(X)

        threads = [threading.Thread(target=work, args=[part]) for part in (self.a, self.b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.a(X)

    a, b = nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())
    found = looked(Made(in_threads, a=a, b=b), X).calls
    assert sorted(each.path for each in found) == ["a", "a", "b"]
    assert all(len(each.calls) == 1 and not each.raised for each in found)


@pytest.mark.parametrize("error", [*STOPS, None])
def test_a_run_leaves_the_model_as_it_was_whatever_leaves_the_model(error):
    def run(self, X):
        self.attention(X[None], X[None], X[None])
        torch.rand(1)
        return self.raises(X)

    part = nn.Sequential(nn.Linear(2, 2)) if error is None else Raises(error, depth=1)
    model = Made(run, attention=DotProductAttention(0.5), raises=part).train()
    model.attention.eval()
    model.attention(X[None], X[None], X[None])
    mine = model.raises.register_forward_hook(lambda *_: None)
    before, memory = torch.get_rng_state(), model.attention._last
    modes = [part.training for part in model.modules()]
    with nullcontext() if error is None else pytest.raises(error):
        record(model, (X,), {}, None)
    assert torch.equal(torch.get_rng_state(), before) and model.attention._last is memory
    assert [part.training for part in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled() and torch.backends.mha.get_fastpath_enabled()
    mine.remove()
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_no_frame_of_the_run_is_kept():
    """A frame holds all that was named in it: a model's largest tensors would live on."""
    seen = []

    class Holds(Raises):
        def forward(self, X):
            local = X + 1
            seen.append(weakref.ref(local))
            raise ValueError

    view = look_inside(Catches(Holds()), X)
    assert seen[0]() is None and view._parts


def test_a_compiled_model_shows_its_parts_and_what_it_catches():
    model = torch.compile(Catches(Raises()), backend="eager")
    call = looked(model, X)
    (inner,) = call.calls
    assert [each.path.rpartition(".")[2] for each in inner.calls] == ["a", "b", "c"]
