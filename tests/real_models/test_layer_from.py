"""The course's layers with the weights of real ones: equal outputs."""

import pytest
import torch
import transformers
from small_models import DEMANDING, LENGTHS, READERS, WRITERS, ids, padding
from torch import nn
from torch.testing import assert_close

from d2l_attention import KeyValueCache, MultiHeadAttention
from d2l_attention.real_models import delta_net, layer_from
from d2l_attention.real_models.delta_net import ConvolvedDeltaNet, delta_rule
from d2l_attention.real_models.layers import MAKERS
from d2l_attention.variants import GroupedQueryAttention, MultiHeadLatentAttention

LENS = torch.tensor(LENGTHS)
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 10000.0,
}
LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 500000.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
LLAMA, MISTRAL, DEEPSEEK = (WRITERS[name] for name in ("Llama", "Mistral", "DeepSeek-V3"))
OTHER_ORDER = {"q_lora_rank": None, "rope_interleave": False, "attention_bias": True}
DEEPSEEKS_YARN = YARN | {"mscale": 1.0, "mscale_all_dim": 0.7}
BY_LAYER = {"scale_attn_by_inverse_layer_idx": True}
# A model, its layer, and what is changed in the model.
CASES = {
    "BERT": (READERS["BERT"], "BertAttention", {}),
    "BERT's inner": (READERS["BERT"], "BertSelfAttention", {}),
    "GPT-2": (WRITERS["GPT-2"], "GPT2Attention", {}),
    "GPT-2, scaled by layer": (WRITERS["GPT-2"], "GPT2Attention", BY_LAYER),
    "Llama": (LLAMA, "LlamaAttention", {}),
    "Llama with YaRN": (LLAMA, "LlamaAttention", {"rope_parameters": YARN}),
    "Llama 3.1": (LLAMA, "LlamaAttention", {"rope_parameters": LLAMA_3}),
    "Mistral": (MISTRAL, "MistralAttention", {}),
    "Mistral without a window": (MISTRAL, "MistralAttention", {"sliding_window": None}),
    "gpt-oss": (DEMANDING["gpt-oss"], "GptOssAttention", {}),
    "DeepSeek-V3": (DEEPSEEK, "DeepseekV3Attention", {}),
    "DeepSeek-V3 with YaRN": (DEEPSEEK, "DeepseekV3Attention", {"rope_parameters": DEEPSEEKS_YARN}),
    "DeepSeek-V3, other order": (DEEPSEEK, "DeepseekV3Attention", OTHER_ORDER),
    "Qwen3-Next": (WRITERS["Qwen3-Next"], "Qwen3NextGatedDeltaNet", {}),
}
OURS = {
    "BertAttention": MultiHeadAttention,
    "BertSelfAttention": MultiHeadAttention,
    "GPT2Attention": MultiHeadAttention,
    "DeepseekV3Attention": MultiHeadLatentAttention,
    "Qwen3NextGatedDeltaNet": ConvolvedDeltaNet,
}


def layers_of(model, name):
    return [part for part in model.modules() if type(part).__name__ == name]


def what_they_do(model, name):
    """Each layer of this name with what went into it and what came out."""
    seen, hooks = [], []

    def note(layer, given, named, output):
        X = named["hidden_states"] if "hidden_states" in named else given[0]
        seen.append((layer, X, output[0] if isinstance(output, tuple) else output))

    for layer in layers_of(model, name):
        hooks.append(layer.register_forward_hook(note, with_kwargs=True))
    with torch.no_grad():
        model(input_ids=ids(), attention_mask=padding("right"))
    for hook in hooks:
        hook.remove()
    return seen


def run(layer, X, name, **options):
    if isinstance(layer, ConvolvedDeltaNet):
        return layer(X, LENS)
    given = [X] if isinstance(layer, MultiHeadLatentAttention) else [X, X, X]
    return layer(*given, LENS, is_causal="Bert" not in name, **options)


@pytest.mark.parametrize("case", CASES)
def test_equal_outputs(case):
    make, name, changes = CASES[case]
    seen = what_they_do(make(**changes), name)
    assert seen
    real = padding("right").bool()
    for theirs, X, output in seen:
        ours = layer_from(theirs)
        assert type(ours) is OURS.get(name, GroupedQueryAttention) and not ours.training
        mine = run(ours, X, name)
        if name == "BertAttention":  # its residual and norm are not part of ours
            mine = theirs.output.LayerNorm(mine + X)
        assert_close(mine[real], output[real], atol=5e-6, rtol=0)


@pytest.mark.parametrize("case", ["Llama", "Mistral", "gpt-oss", "DeepSeek-V3"])
def test_with_a_cache_token_by_token(case):
    make, name, changes = CASES[case]
    for theirs in layers_of(make(**changes), name):
        ours, cache, X = layer_from(theirs), KeyValueCache(), torch.randn(2, 7, 32)
        once = isinstance(ours, MultiHeadLatentAttention)
        whole = ours(*[X] * (1 if once else 3), is_causal=True)
        steps = [
            ours(*[x] * (1 if once else 3), is_causal=True, cache=cache) for x in X.split(1, dim=1)
        ]
        assert_close(torch.cat(steps, dim=1), whole, atol=5e-6, rtol=0)


def test_weights_within_the_window_and_beside_the_sink():
    with_window, without = layers_of(DEMANDING["gpt-oss"](), "GptOssAttention")
    X = torch.randn(2, 7, 32)
    weights = []
    for theirs in (with_window, without):
        ours = layer_from(theirs)
        _, given = ours(X, X, X, is_causal=True, need_weights=True)
        assert_close(given, ours.attention_weights)
        assert given.shape == (2, 4, 7, 7) and (given.sum(-1) < 1).all()
        weights.append(given)
    assert ((weights[0] > 0).sum(-1) == torch.tensor([1, 2, 3, 3, 3, 3, 3])).all()
    assert ((weights[1] > 0).sum(-1) == torch.arange(1, 8)).all()


def test_latents_are_never_made_into_keys():
    theirs = layers_of(WRITERS["DeepSeek-V3"](), "DeepseekV3Attention")[0]
    ours, X = layer_from(theirs), torch.randn(2, 7, 32)
    absorbed = ours(X, is_causal=True, absorbed=True)
    assert_close(absorbed, ours(X, is_causal=True), atol=5e-6, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_the_weights_are_copies(case):
    make, name, changes = CASES[case]
    theirs = layers_of(make(**changes), name)[0].train()
    ours = layer_from(theirs)
    assert ours.training
    stored = {parameter.untyped_storage().data_ptr() for parameter in theirs.parameters()}
    assert not stored & {each.untyped_storage().data_ptr() for each in ours.parameters()}
    assert all(parameter.requires_grad for parameter in ours.parameters())


def test_padding_that_is_not_a_number():
    """What stands behind a text's end changes nothing, in the delta rule as well."""
    for case in ("gpt-oss", "Mistral", "Qwen3-Next"):
        make, name, changes = CASES[case]
        ours, X = layer_from(layers_of(make(**changes), name)[0]), torch.randn(2, 7, 32)
        clean = run(ours, X, name)
        X[1, LENGTHS[1] :] = torch.nan
        real = padding("right").bool()
        assert torch.equal(run(ours, X, name)[real], clean[real])


def test_half_precision_and_devices_come_with_the_weights():
    for case in ("Llama", "gpt-oss", "DeepSeek-V3", "Qwen3-Next"):
        make, name, changes = CASES[case]
        ours = layer_from(layers_of(make(**changes).bfloat16(), name)[0])
        assert {each.dtype for each in ours.parameters()} == {torch.bfloat16}
        assert run(ours, torch.randn(2, 7, 32).bfloat16(), name).dtype == torch.bfloat16


def test_the_delta_rule_forgets_slowly_in_half_precision_too(monkeypatch):
    """In bfloat16 a decay of 0.999 would be 1."""
    make, name, changes = CASES["Qwen3-Next"]
    ours, decays = layer_from(layers_of(make(**changes), name)[0]).bfloat16(), []
    nn.init.constant_(ours.log_rates, -8.0)
    spy = lambda *given: decays.append(given[4]) or delta_rule(*given)  # noqa: E731
    monkeypatch.setattr(delta_net, "delta_rule", spy)
    ours(torch.randn(2, 7, 32).bfloat16())
    assert (decays[0] < 1).all()


def test_what_is_not_known():
    with pytest.raises(TypeError, match=f"knows the layers {', '.join(MAKERS)} .*, got Linear"):
        layer_from(nn.Linear(2, 3))
    theirs = layers_of(WRITERS["Llama"](), "LlamaAttention")[0]
    theirs.config.rope_parameters = {"sliding_attention": {}, "full_attention": {}}
    with pytest.raises(ValueError, match="differ from layer to layer"):
        layer_from(theirs)
    lengths = {"rope_theta": 1e4, "factor": 4.0, "short_factor": [1.0], "long_factor": [2.0]}
    for kind in ("dynamic", "longrope"):
        theirs.config.rope_parameters = {"rope_type": kind, **lengths}
        with pytest.raises(ValueError, match="change with the length of the text"):
            layer_from(theirs)
    config = transformers.GPT2Config(n_embd=32, n_head=4)
    crossing = transformers.models.gpt2.modeling_gpt2.GPT2Attention(config, is_cross_attention=True)
    with pytest.raises(TypeError, match="got cross-attention"):
        layer_from(crossing)
