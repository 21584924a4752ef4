"""The weights of a model, as the library's own ``eager`` gives them."""

import pytest
import torch
from plain_attention import uniform, whole
from small_models import (
    BART,
    DEMANDING,
    MINIMAX_M3,
    MORE,
    READERS,
    T5,
    VIT,
    WRITERS,
    ids,
    padded_on_both_sides,
    padding,
)
from torch import nn
from torch.testing import assert_close

from d2l_attention.real_models import attention_maps, maps, use_attention

TEXT = {**WRITERS, **DEMANDING, **READERS, **MORE}


def eager(model, **inputs):
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**inputs, output_attentions=True)


@pytest.mark.parametrize("name", TEXT)
def test_equal_to_eager(name):
    model, inputs = TEXT[name](), padded_on_both_sides()
    found = attention_maps(model, **inputs)
    assert all(weights.shape[:3] == (3, 4, 7) for weights in found.values())
    expected = [one for one in eager(model, **inputs).attentions if one is not None]
    assert_close(list(found.values()), expected)


def test_the_numbers_are_those_of_the_layers():
    """Of the other layers one has a state, the other a convolution."""
    assert list(attention_maps(WRITERS["Qwen3-Next"](), input_ids=ids())) == [1]
    assert list(attention_maps(MORE["LFM3"](), input_ids=ids())) == [1, 2]


@pytest.mark.parametrize("make", [BART, T5], ids=["BART", "T5"])
def test_encoder_decoder(make):
    model = make()
    inputs = {"input_ids": ids(), "attention_mask": padding("right"), "decoder_input_ids": ids(5)}
    found = attention_maps(model, **inputs)
    output = eager(model, **inputs)
    for kind in ("encoder", "decoder", "cross"):
        assert list(found[kind]) == [0, 1]
        assert_close(list(found[kind].values()), list(output[f"{kind}_attentions"]))
    assert found["cross"][0].shape == (2, 4, 5, 7)


def test_pictures():
    model, inputs = VIT(), {"pixel_values": torch.randn(2, 3, 12, 12)}
    found = attention_maps(model, **inputs)
    assert_close(list(found.values()), list(eager(model, **inputs).attentions))


def test_only_what_is_asked_for():
    model, words = WRITERS["Llama"](num_hidden_layers=3), ids()
    whole = attention_maps(model, input_ids=words)
    assert list(whole) == [0, 1, 2]
    found = attention_maps(model, layers=[2, 0], input_ids=words)
    assert list(found) == [2, 0]
    assert_close(found[2], whole[2])
    assert_close(attention_maps(model, layers=1, input_ids=words)[1], whole[1])


def test_the_model_is_left_as_it_was():
    model, words = WRITERS["Llama"](attention_dropout=0.5), ids()
    plain = attention_maps(model, input_ids=words)
    model.train()
    model.lm_head.eval()
    modes = [part.training for part in model.modules()]
    state = torch.get_rng_state()
    found = attention_maps(model, input_ids=words)
    assert_close(found, plain)  # without dropout
    assert [part.training for part in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert model.config._attn_implementation == "sdpa"
    assert not any(weights.requires_grad for weights in found.values())


def test_a_function_of_ones_own_stays_and_is_not_what_is_shown():
    model, words = WRITERS["Llama"](), ids()
    own = attention_maps(model, input_ids=words)
    with use_attention(model, uniform):
        before = model(input_ids=words).logits
        assert_close(attention_maps(model, input_ids=words)[0], own[0])
        assert torch.equal(model(input_ids=words).logits, before)


def test_a_layer_that_is_not_asked_for_attends_as_it_was_told_to():
    model, words, seen = WRITERS["Llama"](), ids(), []

    def seeing(queries, keys, values, *, mask=None):
        outputs, weights = whole(queries, keys, values, mask=mask)
        seen.append(weights)
        return outputs

    own = attention_maps(model, input_ids=words)
    with use_attention(model, uniform, layers=[0]), use_attention(model, seeing, layers=[1]):
        model(input_ids=words)
        assert_close(attention_maps(model, layers=[1], input_ids=words)[1], seen[0])
    assert (seen[0] - own[1]).abs().max() > 0.01
    assert torch.equal(attention_maps(model, input_ids=words)[1], own[1])


def test_after_an_error_the_model_is_as_it_was():
    model = WRITERS["Llama"]().train()
    with pytest.raises(ValueError, match="input_ids"):
        attention_maps(model)
    assert model.config._attn_implementation == "sdpa" and model.lm_head.training


def test_a_map_too_large_to_keep(monkeypatch):
    model = WRITERS["Llama"]()
    one = 2 * 4 * 7 * 7 * 4  # bytes
    monkeypatch.setattr(maps, "MOST_BYTES", 3 * one - 1)
    made = []
    monkeypatch.setattr(maps, "library_attention", lambda *_: made.append(1))
    message = rf"would take {3 * one:,} bytes.* 2 layers of shape \(2, 4, 7, 7\) at 4 bytes"
    with pytest.raises(ValueError, match=message):
        attention_maps(model, input_ids=ids())
    assert made == []
    monkeypatch.undo()
    monkeypatch.setattr(maps, "MOST_BYTES", 3 * one - 1)
    attention_maps(model, layers=[1], input_ids=ids())


def test_a_layer_that_attends_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = WRITERS["Llama"]()

        def forward(self, words):
            return self.model(words), self.model(words)

    with pytest.raises(ValueError, match="LlamaAttention attends more than once in one pass"):
        attention_maps(Twice(), words=ids())


def test_errors():
    with pytest.raises(TypeError, match="Linear has no layer that attends through"):
        attention_maps(nn.Linear(2, 3))
    with pytest.raises(ValueError, match=r"layers must be some of \[0, 1\]"):
        attention_maps(WRITERS["Llama"](), layers=[5], input_ids=ids())
    with pytest.raises(NotImplementedError, match="by number"):
        attention_maps(MINIMAX_M3(), input_ids=ids())
