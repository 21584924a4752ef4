"""The views without a browser: what they check, what they send, what stands in for them."""

import asyncio
import base64
import io
import re

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image
from traitlets import TraitError

from d2l_attention.views import AttentionView, explore, explore_view
from d2l_attention.views.picture import draw_weights, with_palette

F, H, Q, K = 2, 3, 5, 7  # all different: a swapped axis cannot pass
PNG_START = b"\x89PNG"


@pytest.fixture
def weights():
    return torch.rand(F, H, Q, K).softmax(-1)


def sent(view, name="weights") -> torch.Tensor:
    """The numbers as the browser reads them."""
    numbers = [float(number) for number in getattr(view, f"{name}_text").split()]
    shape = view.shape if name == "weights" else view.compare_shape
    return torch.tensor(numbers).reshape(shape)


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_weights_arrive_whatever_their_axes(weights, axes):
    weights = weights[(0,) * (4 - axes)]
    view = AttentionView(weights)
    assert view.shape == [1] * (4 - axes) + list(weights.shape)
    torch.testing.assert_close(sent(view).reshape(weights.shape), weights, rtol=5e-4, atol=0)


@pytest.mark.parametrize(
    "convert",
    [
        torch.Tensor.numpy,
        torch.Tensor.bfloat16,
        lambda weights: weights.clone().requires_grad_(),
        lambda weights: [list(frame) for frame in weights.numpy()],
    ],
    ids=["numpy", "bfloat16", "with-gradient", "list-of-arrays"],
)
def test_weights_may_come_in_many_forms(weights, convert):
    rtol = 1e-2 if convert is torch.Tensor.bfloat16 else 5e-4
    torch.testing.assert_close(sent(AttentionView(convert(weights))), weights, rtol=rtol, atol=0)


def test_by_hand(weights):
    view = AttentionView([[0.25, 0.75], [1, 1e-7]], ["a", "b"], ["c", "d"])
    assert view.weights_text == "0.25 0.75 1 1e-07"
    assert (view.shape, view.largest) == ([1, 1, 2, 2], 1.0)
    assert (view.query_labels, view.key_labels) == (["a", "b"], ["c", "d"])
    view = AttentionView(weights)  # labels are numbers
    assert view.query_labels == ["0", "1", "2", "3", "4"]
    assert view.head_labels == ["head 1", "head 2", "head 3"]
    assert view.frame_labels == ["frame 1", "frame 2"]


@pytest.mark.parametrize("shape", [(Q, K), (H, Q, K), (F, 1, Q, K), (F, H, Q, K), (1, K)])
def test_compare_broadcasts(weights, shape):
    compare = (torch.rand(shape) > 0.5).float()
    view = AttentionView(weights, compare=compare)
    torch.testing.assert_close(sent(view, "compare").expand(F, H, Q, K), compare.expand(F, H, Q, K))


NAN, MINUS, INF = (torch.tensor([[0.5, value]]) for value in (float("nan"), -0.5, float("inf")))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"weights": torch.ones(3)}, ValueError, r"weights must have 2 to 4 axes.*\(3,\)"),
        ({"weights": torch.ones(0, 3)}, ValueError, r"weights must not be empty.*\(0, 3\)"),
        ({"weights": NAN}, ValueError, "weights must not be NaN, got 1 NaN"),
        ({"weights": np.ma.masked_array([[1, 9]], [[0, 1]])}, ValueError, "NaN, got 1 NaN"),
        ({"weights": MINUS}, ValueError, "weights must be from 0 up and finite, got -0.5 to 0.5"),
        ({"weights": INF}, ValueError, "weights must be from 0 up and finite, got 0.5 to inf"),
        ({"weights": "no"}, TypeError, "weights must be a tensor or array of numbers, got str"),
        ({"weights": [[1.0], [1.0, 2.0]]}, TypeError, "weights must be a tensor.*got list"),
        ({"queries": ["a"]}, ValueError, "queries must have 2 labels, got 1"),
        ({"keys": ["a"] * 4}, ValueError, "keys must have 3 labels, got 4"),
        ({"heads": ["a", "b"]}, ValueError, "heads must have 1 labels, got 2"),
        ({"frames": []}, ValueError, "frames must have 1 labels, got 0"),
        ({"queries": "ab"}, TypeError, "queries must be a list of str, got str"),
        ({"keys": ["a", 2, "c"]}, TypeError, "keys must be a list of str, got 2 at 1"),
        ({"compare": torch.ones(3, 2)}, ValueError, r"compare.*\(1, 1, 2, 3\).*\(1, 1, 3, 2\)"),
        ({"compare": -torch.ones(2, 3)}, ValueError, "compare must be from 0 up"),
    ],
)
def test_bad_input_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        AttentionView(**({"weights": torch.ones(2, 3)} | arguments))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("frame", 2, "frame must be from 0 to 1, got 2"),
        ("frame", -1, "frame must be from 0 to 1, got -1"),
        ("head", 3, "head must be from -1 to 2, got 3"),
        ("mode", "pie", "mode"),
    ],
)
def test_state_out_of_range_is_named(weights, name, value, message):
    view = AttentionView(weights)
    with pytest.raises(TraitError, match=message):
        setattr(view, name, value)


def test_update_shows_other_weights_in_the_same_view_or_changes_nothing(weights):
    view = AttentionView(weights, title="old", compare=torch.ones(Q, K))
    view.frame, view.head = 1, 2
    before = view.get_state()
    with pytest.raises(ValueError, match="queries"):
        view.update(torch.eye(2), ["a"])
    assert view.get_state() == before
    view.update(torch.eye(2), ["a", "b"], ["a", "b"], title="new")
    assert (view.frame, view.head, view.shape) == (0, 0, [1, 1, 2, 2])
    assert (view.title, view.compare_text, view.query_labels) == ("new", "", ["a", "b"])


def _picture(view) -> bytes:
    return base64.b64decode(view._repr_mimebundle_()[0]["image/png"])


def test_text_form_has_no_address(weights):
    view = AttentionView(weights, title="Who looks where")
    assert repr(view) == "AttentionView(2 frames, 3 heads, 5 x 7)"
    assert repr(AttentionView([[1.0]])) == "AttentionView(1 frame, 1 head, 1 x 1)"
    data, metadata = view._repr_mimebundle_()
    sentence = "Who looks where. Attention weights, 5 queries by 7 keys, 3 heads, 2 frames."
    assert data["text/plain"] == f"AttentionView(2 frames, 3 heads, 5 x 7): {sentence}"
    assert view.alt == metadata["image/png"]["alt"] == sentence
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id


def test_picture_is_the_same_from_run_to_run(weights):
    view, again = (AttentionView(weights, compare=weights) for _ in range(2))
    view.head = again.head = -1
    first = _picture(view)
    assert first == _picture(again) and first.startswith(PNG_START)
    view.frame = 1
    assert _picture(view) != first
    assert plt.get_fignums() == []


def test_many_tokens_and_weights_of_zero_can_be_drawn():
    tokens = ["$", r"$\frac$", "<b>", "注意", "", "a" * 99] * 10
    view = AttentionView(torch.zeros(60, 60), tokens, tokens, compare=torch.zeros(60, 60))
    assert _picture(view).startswith(PNG_START)


@pytest.mark.parametrize(
    ("heads", "word", "n", "rows"),
    [
        (2, "orange", 13, 1),
        (3, "orange", 13, 2),
        (4, "orange", 13, 2),
        (4, "l'", 13, 1),
        (4, "orange", 21, 1),
        (7, "orange", 13, 2),
    ],
    ids=["two", "three", "four", "short", "too-many-to-label", "seven"],
)
def test_rows_of_heads(heads, word, n, rows):
    names = [f"head {h}" for h in range(heads)]
    weights, words = torch.rand(heads, n, n), [word] * n
    figure = draw_weights(weights, words, words, largest=1.0, panel_titles=names, title="")
    panels = [ax for ax in figure.axes if ax.get_title() in names]
    assert len(panels) == heads
    assert len({ax.get_subplotspec().rowspan.start for ax in panels}) == rows


def test_words_of_four_heads_are_as_large_as_their_rows_allow():
    weights, words = torch.rand(4, 13, 13), ["mangée"] * 13
    figure = draw_weights(weights, words, words, largest=1.0, panel_titles="abcd", title="")
    figure.draw_without_rendering()
    panel = figure.axes[0]
    label = panel.get_yticklabels()[0]
    assert label.get_fontsize() == 12
    assert label.get_window_extent().height <= panel.get_window_extent().height / 13


def test_browser_code_reads_no_text_as_html_and_fetches_nothing():
    view = AttentionView([[1.0]])
    code = view._esm + view._css
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", code)
    assert not re.findall(r"fetch\(|import |@import|url\(", code)
    assert re.findall(r"\w+://[^\"]*", code) == ["http://www.w3.org/2000/svg"]


class Calls(list):
    """A ``draw`` that writes down the values it gets."""

    def draw(self, fig, width=1.0, kernel="boxcar", *, log=False, times=1):
        self.append((width, kernel, log, times))
        fig.subplots().plot([0, width])


CONTROLS = {
    "width": (0.5, 2.0, 0.5),
    "kernel": ["gaussian", "boxcar"],
    "log": True,
    "times": ipywidgets.BoundedIntText,
}


@pytest.fixture
def calls():
    return Calls()


@pytest.fixture
def view(calls):
    return explore(calls.draw, alt="a line", **(CONTROLS | {"times": CONTROLS["times"](3)}))


def test_controls_follow_their_abbreviations_and_the_defaults(calls, view):
    kinds = [type(control).__name__ for control in view.controls.values()]
    assert kinds == ["FloatSlider", "ToggleButtons", "Checkbox", "BoundedIntText"]
    assert calls == [(1.0, "boxcar", True, 3)]
    assert view.controls["width"].continuous_update


def test_labels_are_words():
    view = explore(lambda fig, held_out_error: None, held_out_error=(1, 3))
    assert view.controls["held_out_error"].description == "held out error"
    mine = ipywidgets.IntSlider(description="how many")
    assert explore(lambda fig, n: None, n=mine).controls["n"].description == "how many"


def test_without_a_loop_every_change_draws_at_once(calls, view):
    before = view.image.value
    view.controls["width"].value = 2.0
    assert calls[1:] == [(2.0, "boxcar", True, 3)]
    assert view.image.value != before
    view.controls["width"].value = 1.0
    assert view.image.value == before


def test_a_burst_of_changes_is_one_drawing_of_the_last(calls, view):
    async def burst():
        for value in [0.5, 1.0, 1.5, 2.0]:
            view.controls["width"].value = value
            view.controls["times"].value += 1
        assert len(calls) == 1
        while len(calls) == 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)

    asyncio.run(burst())
    assert calls[1:] == [(2.0, "boxcar", True, 7)]


def _size(png: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(png)).size


def test_a_moving_picture_is_coarse_and_the_one_at_rest_is_sharp(view, monkeypatch):
    monkeypatch.setattr(explore_view, "REST_SECONDS", 0.05)
    sizes = []
    view.image.observe(lambda change: sizes.append(_size(change["new"])), "value")

    async def move():
        view.controls["width"].value = 2.0
        while len(sizes) < 2:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(move(), 60))
    assert sizes == [(900, 400), (1800, 800)]


def test_a_view_that_is_shown_while_it_moves_has_a_sharp_picture(view):
    async def move():
        view.controls["width"].value = 2.0
        return view._repr_mimebundle_()

    data, metadata = asyncio.run(move())
    assert _size(base64.b64decode(data["image/png"])) == (1800, 800)
    assert (metadata["image/png"]["width"], metadata["image/png"]["height"]) == (900, 400)


def test_ticks_are_few_unless_they_were_chosen():
    def draw(fig, n=1):
        left, right = fig.subplots(1, 2)
        left.plot([0, 97])
        right.set(xticks=range(12))

    view = explore(draw, n=[1, 2])
    left, right = view._figure.axes
    assert len(left.get_yticks()) <= 6
    assert len(right.get_xticks()) == 12


def test_redraw_is_at_once_and_answers_what_waits(calls, view):
    async def change_and_redraw():
        view.controls["width"].value = 2.0
        view.redraw()
        assert len(calls) == 2
        await asyncio.sleep(0.05)

    asyncio.run(change_and_redraw())
    assert len(calls) == 2


def test_an_error_is_shown_as_text_and_the_view_lives_on():
    def draw(fig, n):
        fig.subplots().plot([n])
        if n == 2:
            raise ValueError("no <b>keys</b>")

    view = explore(draw, n=[1, 2, 3])
    good = view.image.value
    view.controls["n"].value = 2
    assert "ValueError: no &lt;b&gt;keys&lt;/b&gt;" in view.message.value
    assert view.image.value == good
    view.controls["n"].value = 3
    assert view.message.value == "" and view.image.value != good


def test_an_error_in_the_first_drawing_too():
    def draw(fig, n):
        return 1 / n

    view = explore(draw, n=[0, 1])
    assert "ZeroDivisionError: division by zero" in view.message.value
    assert _picture(view).startswith(PNG_START)


def test_one_figure_for_all_drawings_and_axes_that_stay():
    figures, boxes = [], []

    def draw(fig, scale):
        assert fig.axes == []
        ax = fig.subplots(1, 2)[0]
        ax.plot([0, scale])
        figures.append(fig)
        boxes.append(ax)

    view = explore(draw, scale=[1, 1000])
    view.controls["scale"].value = 1000
    assert figures[0] is figures[1]
    assert boxes[0].get_position().bounds == boxes[1].get_position().bounds
    assert plt.get_fignums() == []


def test_explore_has_a_text_form_a_picture_and_no_output_widget(view):
    assert repr(view) == "explore(width=1.0, kernel=boxcar, log=True, times=3)"
    data, metadata = view._repr_mimebundle_()
    assert data["text/plain"] == f"{view!r}: a line"
    assert metadata["image/png"]["alt"] == view.image.tooltip == "a line"
    assert _picture(view) == view.image.value
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    parts = [view, *view.children, *view.children[0].children]
    assert not any(isinstance(part, ipywidgets.Output) for part in parts)
    assert (view.image.layout.width, view.image.layout.max_width) == ("900px", "100%")


@pytest.mark.parametrize(
    ("draw", "controls", "message"),
    [
        ("no", {}, r"draw must be a function \(fig, \*\*values\), got str"),
        (lambda fig, a: None, {"b": (0, 1)}, r"draw\(fig, a\) must take fig and the controls b"),
        (lambda fig, a: None, {}, "missing a required argument: 'a'"),
        (lambda fig, a: None, {"a": None}, "a must be .*got None"),
        (lambda fig, a: None, {"a": ipywidgets.fixed(3)}, "a must be"),
    ],
    ids=["no-function", "unknown", "missing", "no-abbreviation", "fixed"],
)
def test_bad_controls_are_named(draw, controls, message):
    with pytest.raises(TypeError, match=message):
        explore(draw, **controls)


def test_a_palette_is_taken_only_where_it_does_not_show():
    few = Image.new("RGB", (64, 64), "white")
    few.putpixel((3, 5), (10, 20, 30))
    assert with_palette(few).mode == "P"
    assert with_palette(few).convert("RGB").tobytes() == few.tobytes()
    torch.manual_seed(0)
    noise = torch.randint(256, (64, 64, 3), dtype=torch.uint8).numpy()
    assert with_palette(Image.fromarray(noise)).mode == "RGB"


def test_a_notebook_keeps_scripts_without_their_comments():
    lines = AttentionView._esm.splitlines()
    assert len(lines) > 400 and not [line for line in lines if line.strip().startswith("//")]
