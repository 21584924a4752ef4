"""``look_inside`` as a view: what is sent, how much, where one may go, and its pictures."""

import io
import json
from base64 import b64decode

import numpy as np
import pytest
import torch
from made import Made
from matplotlib.colors import same_color
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from PIL import Image
from torch import nn
from traitlets import TraitError

from d2l_attention import DotProductAttention, MultiHeadAttention
from d2l_attention.training.presets import MODELS
from d2l_attention.views import look_inside
from d2l_attention.views.inside.places import find
from d2l_attention.views.inside.sending import MOST_TEXT
from d2l_attention.views.inside.still import draw
from d2l_attention.views.palette import GROUND, INK

SOURCE, TARGET = ["he", "sees", "her", "<eos>"], ["<bos>", "il", "la", "voit"]


def view(**options):
    torch.manual_seed(0)
    model = MODELS["transformer"](17, 19, 8)
    inputs = torch.randint(17, (1, 4)), torch.randint(19, (1, 4))
    tokens = {"source": SOURCE, "target": TARGET}
    return model.eval(), inputs, look_inside(model, *inputs, tokens=tokens, **options)


def sent(shown):
    return json.loads(shown.run_text)


def floats(text):
    return torch.tensor(np.frombuffer(b64decode(text), "<f4"))


def part(run, *names):
    found = run["parts"][0]
    for name in names:
        found = next(run["parts"][i] for i in found["below"] if run["parts"][i]["name"] == name)
    return found


def test_the_numbers_that_are_sent_are_the_models_own():
    model, inputs, shown = view()
    run = sent(shown)
    with torch.no_grad():
        logits = model(*inputs)
    [[name, number, words]] = part(run, "decoder")["out"]  # no state that is only handed on
    value = run["values"][number]
    assert value["shape"] == [1, 4, 19] and run["words"][words] == TARGET
    assert torch.equal(floats(value["x"]), logits.flatten())

    cross = part(run, "decoder", "block 2", "cross-attention")
    look = run["looks"][cross["look"]]
    attention = model.decoder.blks[1].attention2
    weights = floats(look["weights"]).view(look["sent"])
    torch.testing.assert_close(weights, attention.attention_weights[0])
    q, k = (floats(look[name]).view(4, 4, 2) for name in ("queries", "keys"))
    scores = floats(look["scores"]).view(4, 4, 4)
    torch.testing.assert_close(q @ k.mT / look["size"] ** 0.5, scores)
    torch.testing.assert_close(scores.softmax(-1), weights)
    assert run["words"][look["kwords"]] == SOURCE


def test_the_mask_the_formula_the_chapter_and_the_code_come_along():
    run = sent(view()[2])
    look = run["looks"][part(run, "decoder", "block 1", "self-attention")["look"]]
    assert look["visible"][:16] == "1000110011101111"
    about = run["about"][part(run, "encoder", "block 1", "self-attention")["about"]]
    assert "softmax" in about["formula"] and about["chapter"] == "Chapter 6, Multi-head attention"
    assert about["code"].startswith("def forward(") and "self.W_o" in about["code"]


def test_parameters_are_counted_and_parts_that_are_never_called_are_named():
    parts = {"used": nn.Linear(2, 3), "unused": nn.Linear(2, 3), "block": nn.Linear(3, 3)}
    parts |= {"weight": nn.Parameter(torch.zeros(5)), "lazy": nn.LazyLinear(3)}
    model = Made(lambda self, X: self.block(self.used(X)), **parts)
    run = sent(look_inside(model, torch.zeros(1, 2)))
    whole = run["parts"][0]
    assert whole["params"] == 9 + 9 + 12 + 5
    assert whole["never"] == ["unused", "lazy"] and whole["own"] == [["weight", [5]]]


def test_pytorchs_projection_inside_its_attention_is_said_to_be_no_part():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    run = sent(look_inside(layer, *[torch.randn(1, 3, 4)] * 3))
    assert run["parts"][0]["never"] == ["out_proj"] and "look" in run["parts"][0]


def stated(shown):
    """The characters of the view in a saved notebook, its code and its picture included."""
    state = shown.get_state()
    return len(json.dumps({key: state[key] for key in ("run_text", "_esm", "_css", "alt")}))


LARGE = {
    "a thousand parts": lambda: (nn.Sequential(*[nn.Linear(4, 4) for _ in range(1000)]), 4),
    "a layer 4,096 wide": lambda: (nn.Sequential(nn.Linear(4096, 4096), nn.ReLU()), 4096),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_model_is_sent_in_part_and_says_so(name):
    model, width = LARGE[name]()
    shown = look_inside(model, torch.randn(3, width))
    assert stated(shown) < 400_000 and len(shown.run_text) <= MOST_TEXT
    run = sent(shown)
    if len(model) > 2:
        assert run["left_out"] == run["parts"][0]["more"] == 1000 - len(run["parts"]) + 1
        figure = draw(shown._parts, find(shown._parts, ""), "")
        assert "...  489 more" in [text.get_text() for text in figure.texts]
    else:
        value = run["values"][run["parts"][0]["out"][0][1]]
        assert value["all"] == [3, 4096] and value["sent"] == [3, 64]
        assert shown._parts[0].call.outputs[0].numbers.shape == (3, 64)  # no more is kept


def test_many_long_heads_are_sent_in_part():
    attention = MultiHeadAttention(1024, 64, 0.0)
    X = torch.randn(1, 200, 1024)
    shown = look_inside(attention, X, X, X, is_causal=True)
    assert stated(shown) < 400_000
    (look,) = sent(shown)["looks"]
    assert look["all"] == [64, 200, 200] and look["sent"][1] == look["sent"][2] < 200
    assert "values" not in look  # a part of the weighted sum would be no sum


@pytest.mark.parametrize(
    ("at", "place"),
    [
        ("", ""),
        ("encoder/block 2", "encoder/block 2"),
        ("decoder/block 1/cross-attention/head 2", "decoder/block 1/cross-attention/head 2"),
        (
            "decoder/block 1/cross-attention/head 2/voit, sees",
            "decoder/block 1/cross-attention/head 2/query 3, key 1",
        ),
    ],
)
def test_a_view_opens_where_it_was_asked_to(at, place):
    shown = view(at=at, title="Two languages")[2]
    assert shown.place == place
    data, metadata = shown._repr_mimebundle_()
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= data.keys()
    picture = Image.open(io.BytesIO(b64decode(data["image/png"])))
    assert picture.width >= 900 and len(data["image/png"]) < 150_000
    assert "EncoderDecoder" in metadata["image/png"]["alt"]
    assert repr(shown) == "look_inside(EncoderDecoder, 78 parts)"


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("encoder/block 3", "encoder has no part called 'block 3'; it has embedding, positions"),
        ("decoder/block 1/cross-attention/head 5", "it has W_q, W_k, W_v, W_o, head 1"),
        ("decoder/block 1/cross-attention/head 1/sees", "named by its query and its key"),
        ("decoder/block 1/cross-attention/head 1/query 4, key 0", "4 queries and 4 keys"),
    ],
)
def test_a_place_that_is_not_there_is_an_error_that_lists_those_that_are(at, words):
    with pytest.raises(ValueError, match=words):
        view(at=at)
    shown = view()[2]
    with pytest.raises(TraitError, match=words):
        shown.place = at
    assert shown.place == ""


def test_the_pictures_are_the_same_from_run_to_run_and_others_at_other_places():
    first, again = (view(at="decoder/block 1/self-attention")[2] for _ in range(2))
    pictures = {first.still(), again.still()}
    assert len(pictures) == 1
    first.place = "decoder/block 1/self-attention/head 1/il, voit"  # hidden by the mask
    assert len(pictures | {first.still()}) == 2


def test_the_picture_of_a_cell_ends_with_the_answer_that_the_weights_and_values_give():
    _, _, shown = view()
    at = "decoder/block 2/cross-attention/head 1/la, sees"
    figure = draw(shown._parts, find(shown._parts, at), "")
    run = sent(shown)
    look = run["looks"][part(run, "decoder", "block 2", "cross-attention")["look"]]
    weights = floats(look["weights"]).view(look["sent"])[0, 2]
    answer = weights @ floats(look["values"]).view(4, 4, 2)[0]
    assert "answer" in [text.get_text() for text in figure.texts]
    *_, last = figure.axes
    written = [float(text.get_text()) for text in last.texts]
    assert written == pytest.approx(answer.tolist(), abs=0.006)


def test_the_picture_of_a_cell_of_weights_alone_has_the_weights():
    def attend(self, X):
        self.attention_weights = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]])
        return X

    shown = look_inside(Made(attend), torch.zeros(1, 2, 3))
    figure = draw(shown._parts, find(shown._parts, "head 1/query 0, key 1"), "")
    texts = [text.get_text() for text in figure.texts]
    assert texts[-8:] == ["0", "", "", "0.250", "1", "", "", "0.750"]


def test_a_part_whose_name_has_a_slash_can_be_opened():
    model = Made(lambda self, X: getattr(self, "a/b")(X), **{"a/b": nn.ReLU()})
    shown = look_inside(model, torch.zeros(1, 2))
    shown.place = sent(shown)["parts"][1]["name"]
    assert shown.place == "a∕b"


def test_no_axis_and_no_number_are_drawn_too():
    odd = torch.tensor([float("nan"), float("inf")])
    model = nn.Sequential(Made(lambda self, X: (X.sum(), torch.empty(0, 2), odd, X > 0)))
    shown = look_inside(model, torch.eye(3))
    figure = draw(shown._parts, find(shown._parts, ""), "")
    hatches = {patch.get_hatch() for ax in figure.axes for patch in ax.patches}
    assert hatches == {"xxx", "///", None}  # a square has none
    assert shown.still().startswith(b"\x89PNG")


def test_the_picture_has_the_arrows_and_the_squares_of_the_view():
    X = torch.tensor([[4.0, -1.0, 0.0]])
    model = Made(lambda self, X: X + self.a(X) + self.b(X), a=nn.ReLU(), b=nn.Identity())
    shown = look_inside(model, X)
    place = find(shown._parts, "")
    figure = draw(shown._parts, place, "")
    lines = [artist for artist in figure.artists if isinstance(artist, Line2D)]
    assert len(lines) == len(place.part.lanes.arrows) == 3
    filled, hollow = figure.axes[0].patches  # and none for 0
    assert same_color(filled.get_facecolor(), INK) and same_color(hollow.get_facecolor(), GROUND)
    assert filled.get_width() == pytest.approx(2 * hollow.get_width())


def test_whole_numbers_are_written_into_the_picture():
    shown = look_inside(nn.Identity(), torch.arange(100, 104)[None])
    figure = draw(shown._parts, find(shown._parts, ""), "")
    assert [text.get_text() for text in figure.axes[0].texts] == ["100", "101", "102", "103"]


class Difference(DotProductAttention):
    """One map less a part of another, as in the Differential Transformer: weights below 0."""

    def attend(self, q, k, v, visible, bias=None, need_weights=False):
        _, weights = super().attend(q, k, v, visible, bias, True)
        self.difference = weights - 0.8 * weights.flip(1)
        return self.difference @ v, self.difference if need_weights else None

    def _weights(self, *last):
        return self.difference.detach()


def test_the_scale_of_a_map_begins_at_the_lowest_weight():
    torch.manual_seed(0)
    layer, X = MultiHeadAttention(8, 2, 0.0, attention=Difference(0.0)), torch.randn(1, 5, 8)
    shown = look_inside(layer, X, X, X)
    weights = shown._parts[0].call.look.weights
    lowest, highest = weights.min().item(), weights.max().item()
    assert lowest < -0.1
    [image, _] = draw(shown._parts, find(shown._parts, "head 1"), "").axes
    assert image.images[0].get_clim() == (lowest, highest)
    maps = draw(shown._parts, find(shown._parts, ""), "").axes
    scales = [ax.images[0].get_clim() for ax in maps]
    assert scales.count((lowest, highest)) == 2
    place = "head 1/query {}, key {}".format(*divmod(weights[0].argmin().item(), 5))
    figure = draw(shown._parts, find(shown._parts, place), "")
    bars = [bar.get_width() for bar in figure.artists if isinstance(bar, Rectangle)]
    assert len(bars) == 5 and min(bars) == 0.0  # a weight below 0 has no bar


def test_the_scale_of_a_map_of_weights_from_0_up_begins_at_0():
    torch.manual_seed(0)
    layer, X = MultiHeadAttention(8, 2, 0.0), torch.randn(1, 5, 8)
    shown = look_inside(layer, X, X, X)
    [image, _] = draw(shown._parts, find(shown._parts, "head 1"), "").axes
    assert image.images[0].get_clim() == (0.0, shown._parts[0].call.look.weights.max().item())
