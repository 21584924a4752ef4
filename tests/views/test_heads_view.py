"""``HeadsView``: what is sent of many heads, how much, which is open, and its pictures."""

import json
from base64 import b64decode

import numpy as np
import pytest
import torch
from torch import nn
from traitlets import TraitError

from d2l_attention.views import HeadsView

WORDS = ["the", "dog", "sleeps"]
ONES = torch.ones(1, 2, 2)


def weights(layers=2, heads=3, queries=3, keys=3):
    torch.manual_seed(0)
    return torch.randn(layers, heads, queries, keys).softmax(-1)


def test_the_weights_are_sent_to_a_255th_of_the_largest():
    given = weights()
    view = HeadsView(given, WORDS)
    sent = json.loads(view.heads_text)
    assert sent["queries"] == sent["keys"] == WORDS
    for layer, expected in zip(sent["layers"], given, strict=True):
        levels = np.frombuffer(b64decode(layer["x"]), np.uint8) / 255 * sent["largest"]
        assert np.abs(levels - expected.flatten().numpy()).max() <= sent["largest"] / 255 / 2 + 1e-6
    assert sent["largest"] == pytest.approx(given.max().item())
    assert repr(view) == "HeadsView(2 layers, 6 heads, 3 x 3)"


def test_the_maps_of_a_model_by_layer_the_first_sequence_of_each():
    maps = {0: torch.ones(2, 3, 4, 5) / 5, 7: torch.ones(2, 1, 4, 5) / 5}
    view = HeadsView(maps, list("abcd"))
    sent = json.loads(view.heads_text)
    assert [(layer["name"], layer["heads"]) for layer in sent["layers"]] == [("0", 3), ("7", 1)]
    assert len(b64decode(sent["layers"][0]["x"])) == 3 * 4 * 5
    assert sent["keys"] == ["0", "1", "2", "3", "4"]  # four words do not fit five keys
    assert view.still().startswith(b"\x89PNG")


def test_24_layers_of_16_heads_of_32_tokens_stay_below_1_mb():
    view = HeadsView(weights(24, 16, 32, 32))
    bundle, _ = view._repr_mimebundle_()
    state = view.get_state()
    parts = [bundle["image/png"], *(state[key] for key in ("heads_text", "_esm", "_css", "alt"))]
    assert sum(len(json.dumps(part)) for part in parts) < 1_000_000


def test_another_place_another_picture_and_the_same_place_the_same():
    view = HeadsView(weights(), WORDS, title="All")
    every = view.still()
    assert every == HeadsView(weights(), WORDS, title="All").still()
    view.head, view.layer = 1, 1
    assert view.still() != every


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({},), ValueError, "must have a layer"),
        (({1: ONES, 2: torch.ones(1, 3, 3)},), ValueError, "as many queries and keys"),
        ((ONES,), ValueError, r"weights of layer 1 must have heads, got shape \(2, 2\)"),
        ((-torch.ones(1, 1, 2, 2),), ValueError, "weights of layer 1 must be from 0 up"),
        ((torch.ones(1, 1, 2, 2), ["a"]), ValueError, "queries must have 2 labels"),
        ((torch.ones(1, 1, 2, 2), "ab"), TypeError, "queries must be a list of str"),
        (({1: "no"},), TypeError, "weights of layer 1"),
    ],
)
def test_bad_arguments_are_said(arguments, error, words):
    with pytest.raises(error, match=words):
        HeadsView(*arguments)


def test_only_what_is_there_can_be_opened():
    view = HeadsView(weights())
    for name, value in (("layer", 2), ("layer", -2), ("head", 3)):
        with pytest.raises(TraitError, match=f"{name} must be from"):
            setattr(view, name, value)


def test_layers_with_one_name_as_text_are_an_error_that_says_so():
    ones = torch.ones(1, 3, 3)
    with pytest.raises(ValueError, match="different names as text, got 2 layers '1'"):
        HeadsView({1: ones, "1": ones, 2: ones})
    layers = nn.ReLU(), nn.ReLU()  # equal modules read alike
    with pytest.raises(ValueError, match=r"got 2 layers 'ReLU\(\)'"):
        HeadsView(dict.fromkeys(layers, ones))
