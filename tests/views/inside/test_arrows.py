"""The arrows of ``look_inside`` are the true flow of the tensors, worked out by hand."""

import random
import threading

import pytest
import torch
from made import Made, flow, names
from torch import nn

from d2l_attention import AdditiveAttention, MultiHeadAttention
from d2l_attention.training.presets import MODELS
from d2l_attention.views.inside.lanes import lanes
from d2l_attention.views.inside.recording import record
from d2l_attention.views.inside.sending import parts_of

X = torch.tensor([[[1.0, -2.0], [3.0, 0.5]]])


def called(model, *inputs, **named):
    return record(model, inputs, named, None).call


def linear(count=3):
    return {name: nn.Linear(2, 2) for name in "abcdefgh"[:count]}


def test_queries_and_keys_meet_in_the_heads():
    call = called(MultiHeadAttention(4, 2, 0.0), *torch.randn(3, 1, 3, 5))
    assert flow(call) == {
        "W_q": "queries", "W_k": "keys", "W_v": "values", "heads": "W_k W_q W_v", "W_o": "heads",
        "out": "W_o",
    }  # fmt: skip


def test_lengths_reach_the_heads_that_they_mask():
    call = called(MultiHeadAttention(4, 2, 0.0), *torch.randn(3, 1, 3, 5), torch.tensor([2]))
    assert "valid_lens" in flow(call)["heads"] and flow(call)["W_q"] == "queries"


def test_an_attention_that_is_not_of_heads():
    call = called(AdditiveAttention(4, 0.0), *torch.randn(3, 1, 3, 5))
    assert flow(call) == {
        "W_q": "queries", "W_k": "keys", "w_v": "", "heads": "W_k W_q values w_v", "out": "heads",
    }  # fmt: skip
    call = called(nn.MultiheadAttention(4, 2), *torch.randn(3, 3, 1, 4))
    assert flow(call) == {"heads": "key query value", "out": "heads", "out 1": "key query"}


def test_an_attention_of_a_student_that_keeps_its_weights():
    """The heads are where the weights are: the values come in behind them."""

    def attend(self, X):
        self.attention_weights = (self.a(X) @ self.b(X).mT).softmax(-1)
        return self.d(self.attention_weights @ self.c(X))

    call = called(Made(attend, **linear(4)), X)
    assert flow(call) == {
        "a": "input", "b": "input", "c": "input", "heads": "a b", "d": "c heads", "out": "d",
    }  # fmt: skip


ENCODER_BLOCK = {
    "self-attention": "X", "add and norm 1": "X self-attention", "network": "add and norm 1",
    "add and norm 2": "add and norm 1 network", "out": "add and norm 2",
}  # fmt: skip
DECODER_BLOCK = {
    "self-attention": "X", "add and norm 1": "X self-attention",
    "cross-attention": "add and norm 1 state[0]",
    "add and norm 2": "add and norm 1 cross-attention", "network": "add and norm 2",
    "add and norm 3": "add and norm 2 network", "out": "add and norm 3",
}  # fmt: skip


def test_the_translator_and_its_blocks():
    inputs = torch.randint(17, (1, 4)), torch.randint(19, (1, 3))
    call = called(MODELS["transformer"](17, 19, 8), *inputs)
    assert flow(call) == {"encoder": "source", "decoder": "encoder target", "out": "decoder"}
    encoder, decoder = call.calls
    assert flow(encoder.calls[2]) == ENCODER_BLOCK and flow(decoder.calls[3]) == DECODER_BLOCK


def test_a_residual_goes_past_the_part():
    def residual(self, X):
        X = X + self.a(X)
        return X + self.b(X)

    call = called(Made(residual, **linear(2)), X)
    # The second sum is of the first one, which is none of the parts: its sources are.
    assert flow(call) == {"a": "input", "b": "a input", "out": "a b input"}


def test_a_part_that_is_called_twice_and_a_loop():
    call = called(Made(lambda self, X: self.b(self.a(self.a(X)) * X), **linear(2)), X)
    assert flow(call) == {"a": "input", "a (call 2)": "a", "b": "a (call 2) input", "out": "b"}


CASES = {
    "views and copies": (
        lambda self, X: self.b(self.a(X).transpose(0, 1).reshape(-1)[:2].clone()[None]),
        {"a": "input", "b": "a", "out": "b"},
    ),
    "the shape alone": (
        lambda self, X: self.b(torch.zeros_like(self.a(X)) + self.a(X).new_ones(2)),
        {"a": "input", "a (call 2)": "input", "b": "", "out": "b"},
    ),
    "the size of a tensor": (
        lambda self, X: self.b(torch.ones(self.a(X).shape[-1])),
        {"a": "input", "b": "", "out": "b"},
    ),
    "a number of it": (
        lambda self, X: self.b(X[0, 0, :1].expand(2)),
        {"b": "input", "out": "b"},
    ),
    "overwritten": (
        lambda self, X: self.b(self.a(X).copy_(self.c(X))),
        {"a": "input", "c": "input", "b": "c", "out": "b"},
    ),
    "changed in place": (
        lambda self, X: self.b(self.a(X).add_(self.c(X))),
        {"a": "input", "c": "input", "b": "a c", "out": "b"},
    ),
    "written through a view": (
        lambda self, X: change(self.a(X), lambda Y: Y[..., 0].copy_(self.c(X)[..., 0]), self.b),
        {"a": "input", "c": "input", "b": "a c", "out": "b"},
    ),
    "two in one": (
        lambda self, X: self.b(torch.cat([self.a(X), self.c(X)])),
        {"a": "input", "c": "input", "b": "a c", "out": "b"},
    ),
    "columns of one, changed": (
        lambda self, X: apart(self.a(X), lambda one, two: one.add_(self.c(X)[..., :1]), self.b),
        {"a": "input", "c": "input", "b": "a", "out": "b"},
    ),
    "NumPy": (
        lambda self, X: self.b(torch.from_numpy(self.a(X).numpy().copy())),
        {"a": "input", "b": "", "out": "b"},  # nobody saw it
    ),
    "nothing": (lambda self, X: X, {"out": "input"}),
    "a constant": (lambda self, X: torch.ones(1), {"out": ""}),
    "kept aside": (
        lambda self, X: aside(self, self.a(X)),
        {"a": "input", "memory": "a", "out": "memory"},
    ),
    "in vmap": (
        lambda self, X: self.b(torch.func.vmap(lambda row: row * 2)(self.a(X))),
        {"a": "input", "b": "a", "out": "b"},
    ),
}  # fmt: skip


def change(Y, work, then):
    work(Y)
    return then(Y)


def apart(Y, work, then):
    """One column of the memory is changed, and the other is read."""
    one, two = Y.chunk(2, dim=-1)
    work(one, two)
    return then(two.expand(*two.shape[:-1], 2))


def aside(self, Y):
    """A part that reads what is no argument of it."""
    self.memory.kept = Y
    return self.memory()


@pytest.mark.parametrize("name", CASES)
def test_what_went_where(name):
    run, expected = CASES[name]
    memory = Made(lambda self: self.kept * 1)
    call = called(Made(run, **linear(3), memory=memory), X.clone())
    assert flow(call) == expected


class Part(nn.Module):
    """Reads what it is given, all or the first."""

    def __init__(self, first=False, changes=False):
        super().__init__()
        self.first, self.changes = first, changes

    def forward(self, *inputs):
        if self.changes:
            return inputs[0].add_(1)
        return inputs[0] * 2 if self.first else torch.stack(inputs).sum(0)


def test_an_input_that_is_not_read_has_no_arrow():
    """As the embeddings that a Llama's rotary part is given for their dtype."""

    def run(self, X):
        Y = self.all(X)
        return self.all(Y, self.first(X, Y))

    call = called(Made(run, first=Part(first=True), all=Part()), X)
    assert flow(call)["first"] == "input"
    hands_on = Made(lambda self, X, Y: self.first(X, Y), first=Part(first=True))
    call = called(Made(lambda self, X, Y: self.inner(X, Y), inner=hands_on), X, X + 1)
    assert flow(call)["inner"] == "input 0"
    call = called(Made(run, first=Part(changes=True), all=Part()), X.clone())
    assert flow(call)["first"] == "input" and flow(call)["all (call 2)"] == "all first"


def test_parts_that_change_their_input_in_place():
    def run(self, X):
        Y = self.a(X)
        self.relu(Y)  # what it gives back is not used
        return self.b(Y)

    for relu in (nn.ReLU(inplace=True), Made(lambda self, Y: (Y.relu_(), None)[1])):
        call = called(Made(run, **linear(2), relu=relu), X)
        assert flow(call) == {"a": "input", "relu": "a", "b": "relu", "out": "b"}


def test_a_buffer_that_is_filled_row_by_row():
    def run(self, X):
        rows = torch.zeros(3, 2)
        for i in range(1, 3):
            rows[i] = self.a(rows[i - 1] + X[0, 0])
        return self.b(rows[1])

    call = called(Made(run, **linear(2)), X)
    assert flow(call) == {"a": "input", "a (call 2)": "a input", "b": "a", "out": "b"}


def test_parts_in_other_threads_and_parts_that_raise():
    def run(self, X):
        found = []
        thread = threading.Thread(target=lambda: found.append(self.a(X)))
        thread.start()
        thread.join()
        try:
            self.raises(X)
        except ValueError:
            return self.b(found[0])

    def raises(self, X):
        raise ValueError(X + 1)

    call = called(Made(run, **linear(2), raises=Made(raises)), X)
    assert flow(call) == {"a": "input", "raises": "input", "b": "a", "out": "b"}


class Program(nn.Module):
    """A random run of parts and operations, which keeps what each tensor was made of."""

    def __init__(self, seed, length=25):
        super().__init__()
        self.choose, self.length = random.Random(seed), length
        self.parts = nn.ModuleList(Part() for _ in range(length))

    def forward(self, X):
        values, self.truth = [(X, {"X"})], {}
        for i, part in enumerate(self.parts):
            (Y, of), (Z, also) = self.choose.choices(values, k=2)
            step = self.choose.randrange(10)
            if step == 0:
                new = Y + Z, of | also
            elif step == 1:
                new = torch.cat([Y, Z]).chunk(2)[1].clone(), of | also
            elif step == 2:
                new = Y.mT.mT[:, :1].expand_as(Z), of
            elif step == 3:
                new = torch.ones_like(Y), set()
            elif step == 4:
                new = torch.zeros(1, 2, 2).copy_(Y).mul_(Z), of | also
            else:
                self.truth[f"parts {i + 1}"] = of | also
                new = part(Y, Z), {f"parts {i + 1}"}
            values.append(new)
        self.truth["out"] = values[-1][1]
        return values[-1][0]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    model = Program(seed)
    call = called(model, X)
    expected = {name: " ".join(sorted(sources)) for name, sources in model.truth.items()}
    assert flow(call) == expected


def test_a_run_is_the_same_with_arrows():
    model = MODELS["bahdanau"](17, 19, 8).eval()
    inputs = torch.randint(17, (1, 4)), torch.randint(19, (1, 3))
    with torch.no_grad():
        expected = model(*inputs)
    assert torch.equal(record(model, inputs, {}, None).result, expected)


def test_parts_that_read_the_same_stand_side_by_side():
    run = record(MultiHeadAttention(4, 2, 0.0), tuple(torch.randn(3, 1, 3, 5)), {}, None)
    found = parts_of(run)[0].lanes
    assert found.lines == [[0, 1, 2], [3, 4, 5], [6], [7], [8]] and not found.tracks
    rows = names(run.call)
    assert [rows[row] for row in found.lines[1]] == ["W_q", "W_k", "W_v"]


def test_arrows_past_parts_have_tracks_of_their_own():
    # 0 is read by 1 and 2, 1 by 2 and 4: their ways past meet nowhere but at line 2.
    arrows = [(0, 1), (0, 2), (1, 2), (1, 4), (2, 3), (3, 4), (0, 4), (4, 5)]
    found = lanes(1, 4, 1, arrows)
    assert found.lines == [[0], [1], [2], [3], [4], [5]]
    assert found.tracks == {0: 0, 1: 1}
    assert lanes(1, 4, 1, [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4), (4, 5)]).tracks == {
        0: 0, 2: 0,
    }  # fmt: skip


def test_inputs_that_nothing_reads_stand_first_and_no_line_is_long():
    found = lanes(5, 4, 1, [(0, 5), (1, 6), (2, 7), (4, 8)])
    assert found.lines == [[3, 0], [1, 2, 4], [5, 6, 7], [8], [9]]
