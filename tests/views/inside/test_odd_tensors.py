"""``look_inside`` of models whose inputs and outputs are odd: shown as far as known, never a crash.

A view is made whole each time: recorded, sent, drawn.
"""

import json
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from made import Made
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from d2l_attention import DotProductAttention, MultiHeadAttention
from d2l_attention.training.presets import MODELS
from d2l_attention.views import look_inside
from d2l_attention.views.inside.places import find
from d2l_attention.views.inside.still import draw

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]
X = torch.tensor([[1.0, 0.0], [0.0, 2.0]])


def gives(function):
    return Made(lambda self, X: function(X))


def opened(model, *inputs, **named):
    view = look_inside(model, *inputs, **named)
    bundle, _ = view._repr_mimebundle_()
    assert bundle["image/png"]
    return view, json.loads(view.run_text)


def nested(layout=torch.strided):
    return torch.nested.nested_tensor([torch.ones(1, 3), torch.ones(2, 3)], layout=layout)


class Students(torch.Tensor):
    """A tensor of a student's own, on which nothing works."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in ("__get__", "size", "dim"):
            return super().__torch_function__(function, types, args, kwargs or {})
        raise NotImplementedError(function.__name__)


ODD = {
    "nested": (lambda X: nested(), [2, "?", 3], "float32, nested"),
    "meta": (lambda X: X.to("meta"), [2, 2], "float32, meta"),
    "meta, one number": (lambda X: X.sum().to("meta"), [], "float32, meta"),
    "sparse": (lambda X: X.to_sparse(), [2, 2], "float32, sparse"),
    "sparse rows": (lambda X: X.to_sparse_csr(), [2, 2], "float32, sparse_csr"),
    "mkldnn": (lambda X: X.to_mkldnn(), [2, 2], "float32, mkldnn"),
    "complex": (lambda X: X + 1j, [2, 2], "complex64"),
    "complex, one number": (lambda X: X.sum() + 1j, [], "complex64"),
    "fake": (lambda X: FakeTensorMode().from_tensor(X), [2, 2], "float32, FakeTensor"),
    "student's": (lambda X: X.as_subclass(Students), [2, 2], "float32, Students"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_tensor_without_numbers_is_shown_by_its_shape_and_kind(name):
    function, shape, kind = ODD[name]
    model = nn.Sequential(gives(function), gives(lambda odd: (odd, X)))
    view, run = opened(model, X, tokens=["a", "b"])
    value = run["values"][run["parts"][1]["out"][0][1]]
    assert (value["shape"], value["kind"], value["x"]) == (shape, kind, "")
    # The part behind it has it as input, and its other output as it is.
    assert run["values"][run["parts"][2]["in"][0][1]] == value
    assert [out[0] for out in run["parts"][2]["out"]] == ["output[1]"]
    texts = [text.get_text() for text in draw(view._parts, find(view._parts, ""), "").texts]
    shown = str(tuple(shape)).replace("'", "")
    assert f"{shown}, {kind}: no numbers to show" in texts


FINE = {
    "bool": (lambda X: X > 0, "bool", [[1, 0], [0, 1]]),
    "bfloat16": (lambda X: X.bfloat16(), "bfloat16", [[1, 0], [0, 2]]),
    "float8": (lambda X: X.to(torch.float8_e4m3fn), "float8_e4m3fn", [[1, 0], [0, 2]]),
    "uint16": (lambda X: X.to(torch.uint16), "uint16", [[1, 0], [0, 2]]),
    "quantized": (
        lambda X: torch.quantize_per_tensor(X, 0.5, 0, torch.qint8), "qint8", [[1, 0], [0, 2]],
    ),
    "negated view": (torch._neg_view, "float32", [[-1, 0], [0, -2]]),
    "jagged": (lambda X: nested(torch.jagged), "float32", [[1, 1, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_odd_numbers_that_can_be_read_are_shown(name):
    function, kind, numbers = FINE[name]
    view, run = opened(nn.Sequential(gives(function)), X, tokens=["a", "b"])
    held = view._parts[1].call.outputs[0]
    assert held.dtype == kind and held.numbers.tolist() == numbers
    assert run["values"][run["parts"][1]["out"][0][1]]["kind"] == kind


@dataclass
class Output:
    logits: object
    state: object = None


Pair = namedtuple("Pair", "first second")
ROW = torch.ones(1)


@pytest.mark.parametrize(
    ("output", "names"),
    [
        (None, []),
        ("words", []),
        (3, []),
        (Output, []),
        (Output("no", None), []),
        (Output(ROW, {"h": [ROW]}), ["output.logits", "output.state.h[0]"]),
        ({"a": ROW, 1: None, "b": "no"}, ["output.a"]),
        (Pair(ROW, Pair("no", ROW)), ["output.first", "output.second.second"]),
        ((np.ones(2), [None, ROW]), ["output[1][1]"]),
        ((), []),
        ({}, []),
    ],
    ids=str,
)
def test_outputs_that_are_no_tensors(output, names):
    view, run = opened(nn.Sequential(gives(lambda X: output), gives(lambda each: X)), X)
    assert [out[0] for out in run["parts"][1]["out"]] == names
    arrived = " = ".join(each[0] for each in run["parts"][2]["in"])  # one tensor, several names
    assert arrived == " = ".join(names).replace("output", "input")


def test_a_dataclass_that_lacks_a_field_and_a_list_that_holds_itself():
    broken = Output(ROW)
    del broken.logits
    broken.state = ROW
    endless = [ROW]
    endless.append(endless)
    _, run = opened(nn.Sequential(gives(lambda X: (broken, endless))), X)
    assert [out[0] for out in run["parts"][1]["out"]][:2] == ["output[0].state", "output[1][0]"]


def test_a_generator_is_not_used_up():
    model = nn.Sequential(gives(lambda X: iter([X])), gives(lambda rows: torch.cat(list(rows))))
    assert torch.equal(opened(model, X)[0]._parts[2].call.outputs[0].numbers, X)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_a_nested_input_and_its_words(layout):
    _, run = opened(nn.Sequential(nn.Linear(3, 4)), nested(layout), tokens=["one", "two"])
    (_, number, words) = run["parts"][0]["in"][0]
    assert run["values"][number]["shape"] == [2, "?", 3] and run["words"][words] == ["one", "two"]
    with pytest.raises(ValueError, match=r"4 words for .*, whose shape is \(2, '\?', 3"):
        look_inside(nn.Linear(3, 4), nested(layout), tokens=list("abcd"))


class Mapped(nn.Module):
    """Calls its parts on each row, by ``vmap``; behind it on all."""

    def __init__(self, transform):
        super().__init__()
        self.transform = transform
        self.linear, self.attention = nn.Linear(2, 2), DotProductAttention(0.0)
        self.heads, self.last = MultiHeadAttention(2, 1, 0.0), nn.ReLU()
        self.theirs = nn.MultiheadAttention(2, 1, batch_first=True)
        self.heads(X[None], X[None], X[None])  # its weights get their size

    def one(self, row):
        Y = self.linear(row)[None, None]
        return (self.attention(Y, Y, Y) + self.heads(Y, Y, Y) + self.theirs(Y, Y, Y)[0]).sum()

    def forward(self, X):
        return self.last(self.transform(self.one, X))


TRANSFORMS = {
    "vmap": lambda f, X: torch.func.vmap(f, randomness="same")(X),
    "vmap in vmap": lambda f, X: torch.func.vmap(
        torch.func.vmap(f, randomness="same"), randomness="same"
    )(X[None]),
    "grad": lambda f, X: torch.func.grad(f)(X[0]),
    "vmap of grad": lambda f, X: torch.func.vmap(torch.func.grad(f), randomness="same")(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_parts_inside_vmap_and_grad(name):
    model = Mapped(TRANSFORMS[name]).eval()
    with torch.no_grad():
        result = model(X)
    view, run = opened(model, X, tokens=["a", "b"])
    parts = {part["name"]: part for part in run["parts"]}
    assert [*parts][1:6] == ["linear", "attention", "heads", "theirs", "last"]
    inside = run["values"][parts["linear"]["out"][0][1]]
    assert (inside["shape"], inside["x"]) == ([2], "")  # of one row: so the part sees it
    last = view._parts[view._parts[0].below[-1]].call.outputs[0]
    assert torch.equal(last.numbers.flatten(), result.flatten())


def test_an_attention_that_keeps_its_weights_inside_vmap():
    class MyAttention(nn.Module):
        def forward(self, X):
            self.attention_weights = (X @ X.mT).softmax(-1)
            return self.attention_weights @ X, self.attention_weights

    def mapped(self, X):
        return torch.func.vmap(lambda one: self.mine(one[None])[0])(X[None])

    _, run = opened(Made(mapped, mine=MyAttention()), X)
    assert run["looks"] == [] and run["parts"][1]["name"] == "mine"


def models_on_meta():
    translator = MODELS["transformer"](17, 19, 8).to("meta")
    numbers = torch.zeros(1, 4, dtype=torch.int64, device="meta")
    yield translator, (numbers, numbers)
    Y = torch.empty(1, 3, 4, device="meta")
    yield DotProductAttention(0.0), (Y, Y, Y)
    yield nn.MultiheadAttention(4, 2, batch_first=True, device="meta"), (Y, Y, Y)
    yield nn.Sequential(nn.Linear(4, 5, device="meta"), nn.ReLU()), (Y,)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("default", ["cpu", "meta"])
def test_whole_models_on_meta(number, default):
    model, inputs = list(models_on_meta())[number]
    with torch.device(default):
        view, run = opened(model, *inputs)
    assert {value["x"] for value in run["values"]} == {""} and run["looks"] == []
    assert {value["kind"].partition(", ")[2] for value in run["values"]} == {"meta"}


def test_a_model_of_fake_tensors():
    with FakeTensorMode():
        Y = torch.empty(1, 3, 4)
        for model, inputs in (
            (nn.Sequential(nn.Linear(4, 5), nn.ReLU()), (Y,)),
            (DotProductAttention(0.0), (Y, Y, Y)),
        ):
            _, run = opened(model, *inputs, tokens=["a", "b", "c"])
            kinds = {value["kind"] for value in run["values"]}
            assert kinds == {"float32, FakeTensor"} and run["looks"] == []


def test_no_numbers_of_a_complex_tensor_are_half_of_it():
    """Converted to float32 the imaginary parts would be gone, with no more than a warning."""
    import warnings

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        view, _ = opened(nn.Sequential(gives(lambda X: torch.view_as_complex(X))), X)
    assert not view._parts[1].call.outputs[0].numbers.numel() and not told
