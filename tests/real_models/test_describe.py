"""A configuration in the course's words, compared with what models of it do and keep."""

import inspect

import pytest
import torch
import transformers
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
    padding,
)

from d2l_attention.real_models import attention_maps, describe, known
from d2l_attention.real_models.cache_numbers import layer_kinds
from d2l_attention.real_models.facts import KINDS
from d2l_attention.real_models.who_uses_what import DEEPSEEK_V4_FLASH

CACHED = {**WRITERS, **DEMANDING, **MORE, "MiniMax-M3": MINIMAX_M3}


def numbers(layer):
    """How many different numbers a layer of the library's cache holds for one text.

    Without what DeepSeek-V4 keeps of an entry that is not complete yet.
    """
    found = {}

    def look(given):
        if isinstance(given, torch.Tensor) and given.is_floating_point():
            found[given.data_ptr()] = given.numel()  # keys may be the values
        elif isinstance(given, dict):
            for each in given.values():
                look(each)

    for name, given in vars(layer).items():
        if not name.startswith(("buffer", "overlap")):
            look(given)
    return sum(found.values())


@pytest.mark.parametrize("name", CACHED)
def test_the_cache_is_what_the_library_keeps(name):
    """Of 24 and of 32 tokens: beyond every window, and whole entries where tokens share one."""
    model = CACHED[name]()
    told = describe(model)
    kept = []
    for length in (24, 32):
        with torch.no_grad():
            cache = model(input_ids=ids(length)[:1], use_cache=True).past_key_values
        kept.append([numbers(layer) for layer in cache.layers])
    assert len(told.caches) == len(kept[0]) == told["layers"]
    for before, after, expected in zip(*kept, told.caches, strict=True):
        assert after - before == 8 * expected.grows
        # The library drops the oldest token of a window early: the next one will not see it.
        dropped = expected.per_token if expected.window else 0
        assert after == expected.numbers(32) - dropped
    assert told["cache, all layers"] == sum(cache.grows for cache in told.caches)


@pytest.mark.parametrize("decoder_layers", [1, 2, 3])
@pytest.mark.parametrize(
    ("make", "name"),
    [(BART, "decoder_layers"), (T5, "num_decoder_layers")],
    ids=["BART", "T5"],
)
def test_the_cache_of_an_encoder_decoder(make, name, decoder_layers):
    model = make(**{name: decoder_layers})
    told = describe(model.config)
    with torch.no_grad():
        cache = model(input_ids=ids(7), decoder_input_ids=ids(5), use_cache=True).past_key_values
    own = sum(map(numbers, cache.self_attention_cache.layers))
    source = sum(map(numbers, cache.cross_attention_cache.layers))
    assert own == 2 * sum(layer.numbers(5) for layer in told.caches)
    assert source == 2 * 7 * told["cache, source"]
    assert told["decoder layers"] == decoder_layers


def test_an_encoder_and_a_decoder_with_other_heads():
    model = BART(encoder_attention_heads=2, decoder_attention_heads=8)
    told = describe(model.config)
    parts = model.model.encoder, model.model.decoder
    heads = tuple(part.layers[0].self_attn.num_heads for part in parts)
    assert (told["heads"], told["decoder heads"]) == heads
    assert "decoder heads" not in describe(BART().config)


@pytest.mark.parametrize("name", ["Swin", "DeformableDetr", "Blenderbot"])
def test_layers_of_other_kinds_are_no_error(name):
    assert describe(getattr(transformers, f"{name}Config")()).unknown


@pytest.mark.parametrize("name", CACHED)
def test_what_is_known_of_a_model_stands_in_its_code(name):
    model = CACHED[name]()
    kind = model.config.model_type
    told = describe(model.config)
    assert told.known and not told.unknown
    parts = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    normed = bool(
        parts & {"q_norm", "k_norm", "qk_norm", "q_layernorm", "q_b_norm"} - indexers(model)
    )
    assert ("QK-norm" in told) == normed
    sinks = any(
        parameter.rpartition(".")[2] == "sinks" for parameter, _ in model.named_parameters()
    )
    assert ("sinks" in told) == sinks == (kind in known.SINKS)
    delta = any("delta" in inspect.getsource(part) for part in set(map(type, model.modules())))
    assert ("linear form" in told) == delta
    rotary = any("rotary" in part for part in parts)
    assert (told["positions"] == "rotary") == rotary


def indexers(model):
    """Names of norms that belong to an indexer only."""
    attention = [path for path, _ in model.named_modules() if path.endswith(("q_norm", "k_norm"))]
    outside = {path.rpartition(".")[2] for path in attention if "indexer" not in path}
    return {"q_norm", "k_norm"} - outside


def test_what_is_called_known_is_tested_here():
    tested = [make().config for make in (*CACHED.values(), *READERS.values(), BART, T5, VIT)]
    assert {config.model_type for config in tested} == known.KNOWN
    sets = (known.QK_NORM, known.DELTA_RULE, known.LEARNED_POSITIONS, known.NO_POSITIONS)
    assert set().union(*sets, known.SINKS, known.DOUBLED_GROUPS) <= known.KNOWN


def test_positions_that_are_learned_are_in_the_model():
    for make in (WRITERS["GPT-2"], READERS["BERT"], BART, VIT):
        names = [name for name, _ in make().named_parameters()]
        assert any(".wpe." in name or "position" in name for name in names)
        assert describe(make())["positions"] == "learned"
    assert describe(T5())["positions"] == "a bias"


def test_values_by_hand():
    """Of published models whose configuration is their class's own."""
    mistral = describe(transformers.MistralConfig())
    sizes = tuple(mistral[name] for name in ("layers", "heads", "groups", "head size"))
    assert sizes == (32, 32, 8, 128)
    assert mistral["window"] == 4096
    assert mistral["cache, sliding attention"] == 2 * 8 * 128
    assert mistral.caches[31].numbers(10_000) == 4096 * 2 * 8 * 128
    deepseek = describe(transformers.DeepseekV3Config())
    assert deepseek["latent"] + deepseek["latent, beside it"] == 512 + 64
    assert deepseek["cache, all layers"] == 61 * 576
    gemma = describe(transformers.Gemma2Config())
    assert (gemma["softcap"], gemma["scale"], gemma["head size"]) == (50.0, 256, 256)
    assert gemma["full attention"] == gemma["sliding attention"] == "13 of 26 layers"
    oss = describe(transformers.GptOssConfig())
    assert (oss["longer texts"], oss["rotary base"]) == ("yarn, 32 times", 150_000)
    assert oss["sinks"] == "in all heads" and "QK-norm" not in oss
    v4 = describe(transformers.DeepseekV4Config(**DEEPSEEK_V4_FLASH))
    assert v4["cache, heavily compressed attention, old tokens"] == 512 / 128
    assert v4["cache, compressed sparse attention, old tokens"] == (512 + 128) / 4
    assert v4["cache, sliding attention"] == 2 * 512  # the library keeps the one vector twice here
    assert v4["cache, all layers"] == 21 * 160 + 20 * 4
    next_one = describe(transformers.Qwen3NextConfig())
    assert next_one["cache, linear attention"] == 32 * 128 * 128 + (2 * 16 + 32) * 128 * 4
    assert next_one["rotary share"] == 0.25 and next_one["linear form"] == "delta rule"


def test_layers_that_differ():
    gemma = describe(transformers.Gemma4TextConfig())
    assert gemma["head size"] == "256 and 512"
    assert (gemma["cache, sliding attention"], gemma["cache, full attention"]) == (2048, 4096)
    assert gemma["rotary base, full attention"] == 1_000_000
    mimo = describe(transformers.MiMoV2FlashConfig())
    assert (mimo["groups"], mimo["groups, sliding attention"]) == (4, 8)
    assert mimo["cache, sliding attention"] == 8 * (192 + 128)
    shared = describe(MORE["Gemma 4"]())
    assert shared.caches[3].kind == "keys and values of an earlier layer"
    assert shared.caches[3].numbers(100) == 0
    llama = describe(transformers.Llama4TextConfig())
    assert llama["layers without positions"] == 12 and llama["stretch"] == 8192


@pytest.mark.parametrize("name", ["Mistral", "Gemma 2", "Gemma 3", "gpt-oss", "LFM3", "OLMo 3"])
def test_the_window_is_as_many_tokens_as_are_seen(name):
    model = CACHED[name]()
    kinds = layer_kinds(model.config)
    for number, weights in attention_maps(model, input_ids=ids(16)).items():
        most = describe(model)["window"] if kinds[number] == "sliding_attention" else 16
        assert (weights > 0).sum(-1).max() == most


def test_the_window_of_both_sides():
    model = READERS["ModernBERT"]()
    for number, weights in attention_maps(model, input_ids=ids(16)).items():
        seen = (weights > 0).sum(-1).max()
        windowed = model.config.layer_types[number] == "sliding_attention"
        assert seen == (2 * describe(model)["window"] + 1 if windowed else 16)


def test_models_that_do_not_write_keep_nothing():
    for make in (*READERS.values(), VIT):
        told = describe(make())
        assert told["direction"] == "both" and told.known
        assert not [fact for fact in told.facts if fact.name.startswith("cache")]


def test_every_kind_of_layer_of_the_library_is_explained_or_said_to_be_unknown():
    told = describe(transformers.ModernBertConfig())
    assert told["sliding attention"].endswith("of 22 layers")
    assert set(KINDS) <= set(transformers.configuration_utils.ALLOWED_LAYER_TYPES) | {"mlp"}
    config = transformers.LlamaConfig(num_hidden_layers=2)
    config.layer_types = ["full_attention", "hybrid"]
    told = describe(config)
    assert "what hybrid is" in told.unknown and "the whole cache" in told.unknown


def test_a_model_that_is_not_known_says_so():
    told = describe(transformers.FalconConfig())
    assert not told.known and told["heads"] == 71
    assert "This course does not know the model falcon" in repr(told)
    mamba = describe(transformers.MambaConfig())
    assert mamba.unknown == ("heads", "head size", "positions", "the whole cache")
    assert "Not said by the configuration: heads, head size" in repr(mamba)

    class OwnConfig(transformers.PretrainedConfig):
        model_type = "one of my own"

    own = describe(OwnConfig())
    assert own.facts == () and "layers" in own.unknown
    assert "what" in repr(own) and "one of my own" in own._repr_html_()


def test_of_a_model_of_several_parts_the_one_that_writes():
    assert describe(transformers.Gemma3Config()).model == "gemma3_text"


def test_the_table():
    config = transformers.LlamaConfig(num_hidden_layers=2)
    told = describe(config)
    title, head, line, first, *rest = repr(told).splitlines()
    assert title == "llama" and set(line) == {"-", " "}
    assert head.split() == ["what", "here", "in", "this", "course's", "words", "chapter"]
    assert first.split() == ["layers", "2", "blocks,", "one", "after", "the", "other", "8"]
    assert len(rest) == len(told.facts) - 1
    page = told._repr_html_()
    assert page.count("<tr>") == len(told.facts) + 1
    config.layer_types = ["full_attention", "<b>&"]
    page = describe(config)._repr_html_()
    assert "&lt;b&gt;&amp;" in page and "<b>" not in page
    assert all(0 < fact.chapter <= 12 for fact in told.facts)
    with pytest.raises(KeyError, match="llama has no fact 'window', only layers, width"):
        told["window"]


def test_errors():
    with pytest.raises(TypeError, match="describe takes a configuration .*, got dict"):
        describe({"num_hidden_layers": 2})
    with pytest.raises(TypeError, match="describe takes a configuration .*, got type"):
        describe(transformers.LlamaConfig)


def test_small_models_are_what_they_should_be():
    """The padding that other tests use: 7 and 4 words, on either side."""
    assert padding("right").sum(1).tolist() == padding("left").sum(1).tolist() == [7, 4]
    assert padding("left")[1].tolist() == [0, 0, 0, 1, 1, 1, 1]
