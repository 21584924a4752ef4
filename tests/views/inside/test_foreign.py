"""``look_inside`` opens models of the ``transformers`` library down to single numbers."""

import pytest
import torch
import transformers
from made import flow, names

from d2l_attention.real_models import attention_maps, use_attention
from d2l_attention.views.inside.lanes import lanes
from d2l_attention.views.inside.looks import softmax_of
from d2l_attention.views.inside.recording import record
from d2l_attention.views.inside.sending import parts_of, scores_of

SMALL = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": 31,
}  # fmt: skip
GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 8}


def model_of(name):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")
    made = {
        "Llama": lambda: transformers.LlamaForCausalLM(config(**GROUPED)),
        "Gemma2": lambda: transformers.Gemma2ForCausalLM(config(**GROUPED)),
        "Bert": lambda: transformers.BertModel(config(**SMALL)),
        "T5": lambda: transformers.T5ForConditionalGeneration(
            config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=31)
        ),
    }[name]()
    return made.eval()


def looks(call):
    return [*([call.look] if call.look else []), *(each for c in call.calls for each in looks(c))]


@pytest.mark.parametrize("name", ["Llama", "Gemma2", "Bert", "T5"])
def test_weights_are_the_librarys_and_add_up(name):
    model, ids = model_of(name), torch.randint(1, 31, (1, 5))
    named = {"input_ids": ids}
    if name == "T5":
        named["decoder_input_ids"] = ids[:, :3]
    before = model(**named)[0]
    call = record(model, (), named, None).call
    maps = attention_maps(model, **named)
    if name == "T5":
        crossed = [
            each
            for pair in zip(maps["decoder"].values(), maps["cross"].values(), strict=True)
            for each in pair
        ]
        expected = [*maps["encoder"].values(), *crossed]
    else:
        expected = list(maps.values())
    found = looks(call)
    assert len(found) == len(expected)
    for look, weights in zip(found, expected, strict=True):
        torch.testing.assert_close(look.weights, weights[0])
        assert look.kind == ("weights" if name == "Gemma2" else "dot")
        if look.kind == "dot":
            again = softmax_of(scores_of(look), look.bias, look.visible)
            torch.testing.assert_close(again, look.weights)
        assert look.values is not None
    torch.testing.assert_close(model(**named)[0], before)


def test_words_stand_at_the_heads_and_the_layers_have_names():
    model = model_of("Llama")
    words = ["once", "upon", "a", "time"]
    run = record(model, (torch.randint(31, (1, 4)),), {}, words)
    parts = {part.name: part for part in parts_of(run)}
    look = parts["self-attention"].call.look
    assert look.query_words == look.key_words == tuple(words)
    assert {"model", "layer 1", "layer 2", "lm_head"} <= parts.keys()


def test_the_arrows_of_a_llama():
    """Its rotary part is no link of the chain, and residuals go past the parts."""
    call = record(model_of("Llama"), (torch.randint(31, (1, 4)),), {}, None).call.calls[0]
    whole, (layer, attention) = flow(call), (call.calls[2], call.calls[2].calls[1])
    assert whole["rotary_emb"] == "" and whole["layer 1"] == "embed_tokens rotary_emb"
    assert whole["norm"] == "layer 2" and parts_of_lanes(call)[1] == ["embed_tokens", "rotary_emb"]
    inside = flow(layer)
    assert inside["input_layernorm"] == "hidden_states"
    assert inside["post_attention_layernorm"] == "hidden_states self-attention"
    assert inside["out"] == "hidden_states network self-attention"
    rotary = "position_embeddings[0] position_embeddings[1]"
    heads = f"attention_mask k_proj {rotary} q_proj v_proj"
    projections = dict.fromkeys(["q_proj", "k_proj", "v_proj"], "hidden_states")
    assert flow(attention) == projections | {"heads": heads, "o_proj": "heads", "out": "o_proj"}


def test_the_position_bias_of_a_t5_goes_to_the_heads():
    """Each first block makes it in a part of its own and gives it to the second."""
    inputs = dict.fromkeys(["input_ids", "decoder_input_ids"], torch.randint(31, (1, 4)))
    parts = parts_of(record(model_of("T5"), (), inputs, None))
    heads = [flow(part.call)["heads"] for part in parts if part.name == "SelfAttention"]
    assert heads[:2] == ["k q relative_attention_bias v", "k position_bias q v"]


def parts_of_lanes(call):
    placed = lanes(len(call.inputs), len(call.calls), len(call.outputs), call.arrows)
    return [[names(call)[row] for row in line] for line in placed.lines]


def test_a_function_that_was_put_in_is_the_one_that_is_shown():
    def uniform(queries, keys, values, *, mask=None):
        mask = torch.ones(1, 1, queries.shape[-2], keys.shape[-2]).bool() if mask is None else mask
        weights = mask.float().expand(*queries.shape[:3], -1)
        weights = weights / weights.sum(-1, keepdim=True)
        return weights @ values, weights

    model, ids = model_of("Llama"), torch.randint(31, (1, 4))
    with use_attention(model, uniform):
        (first, _) = looks(record(model, (ids,), {}, None).call)
        assert first.weights[0, 3].tolist() == [0.25] * 4 and first.kind == "weights"
        assert attention_maps(model, input_ids=ids)  # the library's, as before
    assert model.config._attn_implementation == "sdpa"
