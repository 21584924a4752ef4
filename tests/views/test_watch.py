"""``watch``: what it keeps of a run, what it leaves alone, what it sends and draws."""

import base64
import functools
import json
import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn
from traitlets import TraitError

from d2l_attention import MultiHeadAttention, masked_softmax
from d2l_attention.views import watch
from d2l_attention.views.recorder import MOST_STEPS
from d2l_attention.views.watch_drawing import MOST_TEXT, SIDE

B, H, Q, K, D = 2, 3, 5, 7, 11  # all different: a swapped axis cannot pass
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


def value_of(view, step, name):
    run = sent(view)
    return run["values"][run["steps"][step]["c"][name]]


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
    first, *_ = softmax_in_steps.__code__.co_firstlineno, None
    assert [step.line - first for step in view.steps] == [0, 5, 6, 7, 8]
    # Values as they were then: a later change in place does not reach them.
    torch.testing.assert_close(view.steps[0].changed["scores"], scores)
    torch.testing.assert_close(
        view.steps[2].changed["weights"], view.steps[1].changed["scores"].exp()
    )
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

    view = watch(tidy, torch.ones(2, 3), into=[stops])
    assert view.error is None
    view = watch(tidy, torch.ones(3), into=[stops])
    assert view.steps[-1].error and "done" in view.steps[-1].names


def test_a_caught_exception_is_told_and_the_run_goes_on():
    def careful(text):
        try:
            number = int(text)
        except ValueError:
            number = -1
        return number

    view = watch(careful, "x")
    assert [step.error is not None for step in view.steps].count(True) == 1
    assert view.result == -1 and view.steps[-1].changed == {"return": -1}


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


@pytest.mark.parametrize("n", [1000, 10])
def test_at_most_500_steps_then_a_sentence(n):
    view = watch(loop, n)
    assert view.result == sum(range(n))
    if n == 10:
        assert sent(view)["note"] == ""
    else:
        assert len(view.steps) == MOST_STEPS
        assert sent(view)["note"] == "The run is longer than the first 500 steps, kept here."


def test_an_exception_after_the_last_step_kept_is_still_told():
    def late(n):
        for i in range(n):
            i += 1
        raise ValueError(f"after {n}")

    view = watch(late, 1000)
    assert len(view.steps) == MOST_STEPS + 1
    assert view.steps[-1].error == "ValueError: after 1000"
    endless = watch(lambda: recurse())
    assert isinstance(endless.error, RecursionError)


def recurse():
    return recurse()


def test_the_cap_holds_for_copies_too(monkeypatch):
    monkeypatch.setattr("d2l_attention.views.recorder.MOST_BYTES", 1000)
    view = watch(loop_of_tensors, 50)
    assert len(view.steps) < 20 and "fills a gigabyte" in sent(view)["note"]
    assert view.result.sum() == 50 * 100


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


def loop_of_tensors(n):
    total = torch.zeros(100)
    for _ in range(n):
        total = total + 1
    return total


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
        (len, "no Python function"),
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


def test_our_own_layer_can_be_watched():
    layer = MultiHeadAttention(4, 2, 0.0)
    X = torch.randn(B, 3, 4)
    view = watch(layer, X, X, X, valid_lens=torch.tensor([1, 3]))
    torch.testing.assert_close(view.result, layer(X, X, X, torch.tensor([1, 3])))
    assert view.steps[0].source.startswith("def forward(")


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


@pytest.mark.parametrize("error", [False, True])
def test_a_debuggers_own_trace_is_put_back(error):
    seen = []

    def debugger(frame, event, arg):
        seen.append(frame.f_code.co_name)
        return None

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        watch(stops, torch.ones(2, 3), torch.ones(2 if error else 3, 3))
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
        (np.ones((1, 2)), {"s": [1, 2], "d": "float64", "m": [1, 1, 2], "x": "1 1"}),
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


def test_a_notebook_with_a_watch_stays_small():
    def heads(X, W, num_heads):
        outputs = []
        for h in range(num_heads):
            q, k, v = (X @ W[:, h::num_heads] for _ in range(3))
            weights = (q @ k.mT).softmax(-1)
            outputs.append(weights @ v)
        return torch.cat(outputs, -1)

    view = watch(heads, torch.randn(1, 5, 8), torch.randn(8, 8), 2)
    assert len(view.run_text) < 10_000


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
