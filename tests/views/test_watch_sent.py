"""``watch``: what it sends of a run, how much, what it draws, and where it opens."""

import base64

import numpy as np
import pytest
import torch
from test_watch import MASK, changes, factorial, in_place, loop, sent, softmax_in_steps
from torch import nn
from traitlets import TraitError

from d2l_attention.views import watch
from d2l_attention.views.watch_drawing import MOST_TEXT, SIDE

B, H = 2, 3


def value_of(view, step, name):
    run = sent(view)
    return run["values"][run["steps"][step]["c"][name]]


@pytest.mark.parametrize(
    ("value", "sent_as"),
    [
        (torch.tensor(2.5), {"t": "2.5"}),
        (torch.zeros(0, 3), {"t": "(0, 3)"}),
        (torch.zeros(2, 3, device="meta"), {"t": "(2, 3)"}),
        (torch.ones(2, dtype=torch.complex64), {"t": "(2,)"}),
        (torch.eye(2).to_sparse(), {"t": "(2, 2)"}),
        (np.array(["a"]), {"t": "(1,)"}),
        (torch.tensor([1, 2]), {"s": [2], "d": "int64", "m": [1, 1, 2], "x": "1 2"}),
        (torch.tensor([[True], [False]]), {"s": [2, 1], "d": "bool", "m": [1, 2, 1], "x": "1 0"}),
        (
            torch.tensor([[0.12345678, -torch.inf, torch.nan]]),
            {"s": [1, 3], "d": "float32", "m": [1, 1, 3], "x": "0.1235 -inf nan"},
        ),
        (np.array([[1, 1e300]]), {"s": [1, 2], "d": "float64", "m": [1, 1, 2], "x": "1 1e+300"}),
        ([torch.ones(2, 3)] * 8, {"t": "[" + "(2, 3), " * 6 + "... 8 in all]"}),
        ({"a": 1.23456, "b": None}, {"t": "{'a': 1.235, 'b': None}"}),
        ("x" * 100, {"t": "'" + "x" * 58 + "…"}),
        (slice(0, 2), {"t": "slice(0, 2, None)"}),
        (loop, {"t": "function loop"}),
        (nn.Linear(1, 1), {"t": "Linear"}),
    ],
)
def test_a_value_is_sent_as(value, sent_as):
    view = watch(lambda X: None, value)
    assert value_of(view, 0, "X") == sent_as
    assert view.still().startswith(b"\x89PNG")
    assert " at 0x" not in view.run_text + repr(view) + view.alt


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_odd_tensors_do_not_stop_the_run():
    nested = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])
    view = watch(lambda X: X * 2, nested)
    assert view.error is None and value_of(view, 0, "X") == {"t": "a nested tensor"}

    def double(X):
        Y = X * 2
        return Y

    view = watch(torch.func.vmap(double), torch.ones(2, 3))
    assert view.result.tolist() == [[2] * 3] * 2
    with torch.inference_mode():
        assert changes(watch(double, torch.ones(2))) == [["X"], ["Y"], ["return"]]


def test_large_tensors_are_sent_in_part():
    value = value_of(watch(lambda X: None, torch.rand(B, H, 100, 30)), 0, "X")
    assert (value["s"], value["m"]) == ([B, H, 100, 30], [B * H, SIDE, SIDE])
    value = value_of(watch(lambda X: None, torch.rand(64, 2, 2)), 0, "X")
    assert value["m"] == [16, 2, 2]


def test_a_long_run_of_large_tensors_stays_small():
    def many(X):
        for _ in range(100):
            X = X + 1
        return X

    view = watch(many, torch.rand(16, 30, 30))
    assert len(view.run_text) < MOST_TEXT + 100_000
    assert view.result.shape == (16, 30, 30)


def test_one_scale_a_name_over_all_steps():
    view = watch(softmax_in_steps, torch.tensor([[-3.0, 2, 9], [5, 0, 0]]), MASK)
    scales = sent(view)["scales"]
    assert scales["scores"] == [-3, 9] and "mask" not in scales
    assert scales["weights"][0] == 0
    hidden = torch.tensor([[-1e9, 0.5]])
    assert sent(watch(lambda scores: scores, hidden))["scales"]["scores"] == [0, 0.5]


@pytest.mark.parametrize(("at", "step"), [(None, 0), (2, 2), (-1, 4)])
def test_the_view_opens_where_it_is_told(at, step):
    view = watch(softmax_in_steps, torch.randn(2, 3), MASK, at=at)
    assert view.step == step
    shown = step if at is not None else 4
    assert f"Step {shown + 1} of 5" in view.alt


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="at must be a step from 0 to 2, got 7"):
        watch(factorial, 1, at=7)
    with pytest.raises(TraitError, match="step must be from 0 to 2, got 3"):
        watch(factorial, 1).step = 3
    with pytest.raises(ValueError, match='nothing to replay for "99.1"'):
        watch("99.1")
    with pytest.raises(TypeError, match="into must be a list of functions, got function"):
        watch(loop, 1, into=factorial)
    with pytest.raises(TypeError, match="axes must give letters.*'scores': 4"):
        watch(loop, 1, axes={"scores": 4})


def test_the_mime_bundle_has_a_picture_with_words():
    view = watch(in_place, torch.zeros(2, 3), MASK, axes={"scores": "QK"})
    data, metadata = view._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert "Step 4 of 4" in metadata["image/png"]["alt"]
    assert data["text/plain"].startswith("watch(in_place, 4 steps)")
    assert view.still() == view.still()
    assert sent(view)["axes"] == {"scores": "QK"}
