"""``look_inside`` leaves out a part that does nothing, and no other."""

import pytest
import torch
from made import Made, flow
from torch import nn

from d2l_attention.views.inside.recording import record

X = torch.tensor([[[1.0, -2.0], [3.0, 0.5]]])


class Scale(nn.Identity):
    def forward(self, X):
        return 2 * X


class Shift(nn.Dropout):
    def forward(self, X):
        return X + 1


class StaysInTraining(nn.Module):
    """Draws outside training, too, for an idea of how sure a model is."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def train(self, mode=True):
        super().train(mode)
        self.drop.train()
        return self

    def forward(self, X):
        return self.drop(X)


def with_hook(part, hook, before=False):
    (part.register_forward_pre_hook if before else part.register_forward_hook)(hook)
    return part


def with_forward(part, forward):
    part.forward = forward
    return part


NOT_SILENT = {
    "a subclass of Identity": Scale,
    "a subclass of Dropout": lambda: Shift(0.5),
    "a hook": lambda: with_hook(nn.Identity(), lambda part, given, X: X + 1),
    "a hook on Dropout": lambda: with_hook(nn.Dropout(0.5), lambda part, given, X: 2 * X),
    "a hook in place": lambda: with_hook(nn.Identity(), lambda part, given, X: X.add_(1)),
    "a hook before": lambda: with_hook(nn.Identity(), lambda part, X: (X[0] + 1,), True),
    "a forward of its own": lambda: with_forward(nn.Identity(), lambda X: X * 3),
}


@pytest.mark.parametrize("name", NOT_SILENT)
def test_a_part_that_does_something_is_between_the_others(name):
    model = Made(lambda self, X: self.b(self.a(X)), a=nn.Linear(2, 2), b=NOT_SILENT[name]())
    expected = model.eval()(X)
    call = record(model, (X,), {}, None).call
    assert flow(call) == {"a": "input", "b": "a", "out": "b"}
    assert torch.equal(call.calls[1].outputs[0].numbers, expected[0])
    assert torch.equal(call.outputs[0].numbers, expected[0])


def test_a_dropout_that_draws_is_a_part():
    model = nn.Sequential(nn.Linear(2, 2), StaysInTraining())
    [_, inner] = record(model, (X,), {}, None).call.calls
    assert flow(inner) == {"drop": "X", "out": "drop"}


def test_what_does_nothing_is_left_out_and_makes_no_arrow():
    def run(self, X):
        X = self.c(self.a(X))
        return self.c(input=self.b(self.d(self.c(X))))

    parts = {"a": nn.Linear(2, 2), "b": nn.ReLU(), "c": nn.Dropout(0.5), "d": nn.Identity()}
    call = record(Made(run, **parts), (X,), {}, None).call
    assert flow(call) == {"a": "input", "b": "a", "out": "b"}
    [inner] = record(nn.Sequential(nn.Sequential(nn.Identity())), (X,), {}, None).call.calls
    assert not inner.calls and inner.arrows == [(0, 1)]


def test_a_part_that_does_nothing_only_now_and_then_is_left_out_then():
    class Once(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, X):
            X = self.drop(X)
            self.drop.train()
            X = self.drop(X)
            self.drop.eval()
            return self.drop(X)

    call = record(Once(), (X,), {}, None).call
    assert flow(call) == {"drop": "X", "out": "drop"}
