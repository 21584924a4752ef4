"""A function of one's own in models of the library: the same numbers, the same text."""

import copy
import gc
import weakref

import pytest
import torch
from plain_attention import plain, uniform, whole
from small_models import (
    BART,
    DEMANDING,
    LENGTHS,
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

from d2l_attention import DotProductAttention
from d2l_attention.real_models import use_attention
from d2l_attention.variants import SinkAttention

TEXT = {**WRITERS, **DEMANDING, **READERS, **MORE}
CLOSE = {"atol": 1e-4, "rtol": 0}


def last(model, **inputs):
    output = model(**inputs)
    return output.logits if "logits" in output else output.last_hidden_state


def both(model, attention, **inputs):
    with torch.no_grad():
        own = last(model, **inputs)
        with use_attention(model, attention):
            return own, last(model, **inputs)


def written(model, **inputs):
    """Six words, the most likely each time, and the logits from which they were chosen."""
    how = {"max_new_tokens": 6, "do_sample": False, "output_logits": True}
    result = model.generate(**inputs, **how, return_dict_in_generate=True)
    return result.sequences, torch.stack(result.logits)


def named(model):
    return {
        part.config._attn_implementation
        for part in model.modules()
        if hasattr(part, "set_attn_implementation")
    }


@pytest.mark.parametrize("name", TEXT)
def test_the_same_logits(name):
    model, inputs = TEXT[name](), padded_on_both_sides()
    words = inputs["attention_mask"].bool()
    own, mine = both(model, plain if name not in DEMANDING else whole, **inputs)
    assert_close(mine[words], own[words], **CLOSE)
    assert mine.isfinite().all()
    _, other = both(model, uniform if name not in DEMANDING else plain_but, **inputs)
    assert (other - own)[words].abs().max() > 0.01  # the function is used


def plain_but(queries, keys, values, *, mask=None, softcap=None, sinks=None):
    return uniform(queries, keys, values, mask=mask)


@pytest.mark.parametrize("name", {**WRITERS, **DEMANDING})
def test_the_same_text_with_the_cache(name):
    model = {**WRITERS, **DEMANDING}[name]()
    inputs = {"input_ids": ids(), "attention_mask": padding("left")}
    words, logits = written(model, **inputs)
    with use_attention(model, plain if name in WRITERS else whole):
        mine = written(model, **inputs)
    assert torch.equal(mine[0], words)
    assert_close(mine[1], logits, **CLOSE)


@pytest.mark.parametrize("make", [BART, T5], ids=["BART", "T5"])
def test_encoder_decoder(make):
    model, mask = make(), padding("right")
    inputs = {"input_ids": ids(), "attention_mask": mask}
    own, mine = both(model, whole, **inputs, decoder_input_ids=ids(5))
    assert_close(mine, own, **CLOSE)
    words, logits = written(model, **inputs)
    with use_attention(model, whole):
        mine = written(model, **inputs)
    assert torch.equal(mine[0], words)
    assert_close(mine[1], logits, **CLOSE)


def test_pictures():
    def without_a_mask(queries, keys, values):
        return plain(queries, keys, values)

    own, mine = both(VIT(), without_a_mask, pixel_values=torch.randn(2, 3, 12, 12))
    assert_close(mine, own, **CLOSE)


def test_a_mask_of_floats_that_adds_more_than_it_hides():
    """The library lets a caller give such a mask: what it adds is a bias."""
    model, words = WRITERS["Llama"](), ids()
    future = torch.ones(7, 7).triu(1).bool()
    mask = torch.randn(2, 1, 7, 7).masked_fill(future, torch.finfo(torch.float32).min)
    own, mine = both(model, whole, input_ids=words, attention_mask=mask)
    assert_close(mine, own, **CLOSE)
    with use_attention(model, whole, layers=[0]):  # layer 1 is handed the floats again
        assert_close(model(input_ids=words, attention_mask=mask).logits, own, **CLOSE)
    with use_attention(model, plain), pytest.raises(TypeError, match="needs a bias"):
        model(input_ids=words, attention_mask=mask)
    hides_only = torch.zeros(2, 1, 7, 7).masked_fill(future, torch.finfo(torch.float32).min)
    own, mine = both(model, plain, input_ids=words, attention_mask=hides_only)
    assert_close(mine, own, **CLOSE)


def test_what_the_function_gets():
    """Groups are repeated, the model's own scale is in the queries, the mask is boolean."""
    seen = []

    def attention(queries, keys, values, *, mask=None):
        seen.append((queries, keys, values, mask))
        return plain(queries, keys, values, mask)

    model = WRITERS["Qwen3"]()
    with use_attention(model, attention), torch.no_grad():
        model(input_ids=ids(), attention_mask=padding("right"))
    assert len(seen) == 2
    for queries, keys, values, mask in seen:
        assert queries.shape == keys.shape == values.shape == (2, 4, 7, 12)
        assert torch.equal(keys[:, 0], keys[:, 1]) and not torch.equal(keys[:, 1], keys[:, 2])
        assert mask.dtype == torch.bool and mask.shape == (2, 1, 7, 7)
        assert torch.equal(mask[0, 0], torch.ones(7, 7).tril().bool())
        assert not mask[1, 0, :, LENGTHS[1] :].any()


def test_a_layer_of_the_course_is_a_function_too():
    model, mask = WRITERS["Llama"](), padding("left")
    own, mine = both(model, DotProductAttention(0.0), input_ids=ids(), attention_mask=mask)
    assert_close(mine[mask.bool()], own[mask.bool()], **CLOSE)


def test_the_courses_sinks_are_theirs():
    def with_sinks(queries, keys, values, *, mask=None, sinks=None):
        layer = SinkAttention(len(sinks), 0.0)
        layer.sinks = nn.Parameter(sinks)
        return layer(queries, keys, values, mask=mask)

    model, mask = DEMANDING["gpt-oss"](), padding("left")
    own, mine = both(model, with_sinks, input_ids=ids(), attention_mask=mask)
    assert_close(mine[mask.bool()], own[mask.bool()], **CLOSE)


def test_weights_reach_who_asks_the_model_for_them():
    model, words = WRITERS["Llama"](), ids()
    with use_attention(model, whole):
        attentions = model(input_ids=words, output_attentions=True).attentions
    model.set_attn_implementation("eager")
    assert_close(attentions, model(input_ids=words, output_attentions=True).attentions)


@pytest.mark.parametrize("name", ["Llama", "DeepSeek-V3", "GPT-2", "gpt-oss"])
def test_gradients(name):
    model = {**WRITERS, **DEMANDING}[name]()
    inputs = {"input_ids": ids(), "attention_mask": padding("left")}
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    gradients = []
    for attention in (None, plain if name in WRITERS else whole):
        use_attention(model, attention)
        model.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    own, mine = gradients
    assert all(grad is not None and grad.isfinite().all() for grad in mine.values())
    assert_close(mine, own, **CLOSE)


@pytest.mark.parametrize("name", ["Llama", "gpt-oss"])  # whose own are sdpa and eager
def test_some_layers_only(name):
    model = {**WRITERS, **DEMANDING}[name]()
    inputs = {"input_ids": ids(), "attention_mask": padding("left")}
    keep = inputs["attention_mask"].bool()
    calls = []

    def counted(queries, keys, values, *, mask=None, sinks=None):
        calls.append(1)
        return whole(queries, keys, values, mask=mask, sinks=sinks)

    with torch.no_grad():
        own = model(**inputs).logits
        with use_attention(model, counted, layers=[1]):
            assert_close(model(**inputs).logits[keep], own[keep], **CLOSE)
        assert len(calls) == 1
        last_only, first_only = (
            model_with(model, inputs, plain_but, layers=[layer]) for layer in (1, 0)
        )
    assert (last_only - first_only)[keep].abs().max() > 0.01


def model_with(model, inputs, attention, **options):
    with use_attention(model, attention, **options):
        return model(**inputs).logits


# ---- What was there before ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Llama", "gpt-oss"])
def test_none_gives_the_librarys_own_back(name):
    model = {**WRITERS, **DEMANDING}[name]()
    before, words = named(model), ids()
    own = model(input_ids=words).logits
    use_attention(model, whole)
    assert named(model) == {"d2l_attention"}
    use_attention(model, None)
    assert named(model) == before
    assert torch.equal(model(input_ids=words).logits, own)
    use_attention(model, None)  # nothing to give back: nothing happens
    assert named(model) == before


def test_after_an_error_too():
    def broken(queries, keys, values, *, mask=None):
        raise ZeroDivisionError

    model, words = T5(), ids()
    own = last(model, input_ids=words, decoder_input_ids=words)
    with (
        pytest.raises(ZeroDivisionError),
        use_attention(model, whole),
        use_attention(model, lambda q, k, v, *, mask=None, bias=None: broken(q, k, v)),
    ):
        model(input_ids=words, decoder_input_ids=words)
    assert named(model) == {"sdpa"}
    assert torch.equal(last(model, input_ids=words, decoder_input_ids=words), own)


def test_what_the_user_chose_meanwhile_is_the_own_from_then_on():
    model, words = WRITERS["Llama"](), ids()
    use_attention(model, uniform)
    model.set_attn_implementation("eager")
    own = model(input_ids=words).logits
    with use_attention(model, uniform):
        assert (model(input_ids=words).logits - own).abs().max() > 0.01
    assert named(model) == {"eager"}
    use_attention(model, plain)
    use_attention(model, None)
    assert named(model) == {"eager"}


def test_one_within_another():
    model, words = WRITERS["Llama"](), ids()
    with torch.no_grad():
        use_attention(model, uniform)
        outer = model(input_ids=words).logits
        with use_attention(model, plain):
            assert not torch.equal(model(input_ids=words).logits, outer)
        assert torch.equal(model(input_ids=words).logits, outer)
        use_attention(model, None)
        assert named(model) == {"sdpa"}


def test_the_inner_model_and_the_whole_are_one_and_another_model_is_none_of_it():
    model, other, words = WRITERS["Llama"](), WRITERS["Llama"](), ids()
    own = model(input_ids=words).logits
    use_attention(model.model, uniform)
    with use_attention(other, plain):
        assert_close(other(input_ids=words).logits, own, **CLOSE)
        assert (model(input_ids=words).logits - own).abs().max() > 0.01
    assert torch.equal(other(input_ids=words).logits, own)
    use_attention(model, None)
    assert torch.equal(model(input_ids=words).logits, own)


def test_a_model_that_is_forgotten_is_not_kept_alive():
    model = WRITERS["Llama"]()
    use_attention(model, plain)
    with use_attention(model, uniform):
        model(input_ids=ids())
    gone = weakref.ref(model.model.layers[0].self_attn)
    del model
    gc.collect()
    assert gone() is None


def test_a_copy_says_that_it_has_no_function():
    model, words = WRITERS["Llama"](), ids()
    own = model(input_ids=words).logits
    use_attention(model, uniform)
    copied = copy.deepcopy(model)
    with pytest.raises(RuntimeError, match="call use_attention on the copy"):
        copied(input_ids=words)
    use_attention(copied, None)
    assert torch.equal(copied(input_ids=words).logits, own)


def test_saved_and_loaded(tmp_path):
    model, words = WRITERS["Llama"](), ids()
    own = model(input_ids=words).logits
    with use_attention(model, plain):
        model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert named(loaded) == {"sdpa"}
    assert_close(loaded(input_ids=words).logits, own)
    _, mine = both(loaded, plain, input_ids=words)
    assert_close(mine, own, **CLOSE)


# ---- Errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "keyword", "layer"),
    [
        (DEMANDING["Gemma 2"], "softcap", "Gemma2Attention"),
        (DEMANDING["gpt-oss"], "sinks", "GptOssAttention"),
        (T5, "bias", "T5Attention"),
    ],
)
def test_a_keyword_that_the_model_needs(make, keyword, layer):
    model = make()
    with pytest.raises(TypeError, match=rf"{layer} needs .*: .* keyword {keyword}, as in"):
        use_attention(model, plain)
    assert "d2l_attention" not in named(model)


def test_a_function_without_a_mask():
    def attention(queries, keys, values):
        raise AssertionError("before any number")

    with pytest.raises(TypeError, match="LlamaAttention needs a mask.*keyword mask, as in"):
        use_attention(WRITERS["Llama"](), attention)
    model = READERS["BERT"]()  # which needs one only where there is padding
    with (
        use_attention(model, attention),
        pytest.raises(TypeError, match="BertSelfAttention needs a mask"),
    ):
        model(input_ids=ids(), attention_mask=padding("right"))


@pytest.mark.parametrize(
    ("attention", "error", "words"),
    [
        (lambda q, k, v, mask: None, TypeError, r"of shape \(2, 4, 7, 8\), got NoneType"),
        (lambda q, k, v, mask: v[:, :, 1:], ValueError, r"\(2, 4, 7, 8\), got \(2, 4, 6, 8\)"),
        (lambda q, k, v, mask: v.double(), TypeError, "torch.float32, got torch.float64"),
        (lambda q, k, v, mask: (v, v), ValueError, r"weights .*\(2, 4, 7, 7\), got \(2, 4, 7, 8\)"),
        (lambda q, k, v, mask: (v, v, v), TypeError, "a pair of outputs and weights, got 3 things"),
    ],
)
def test_a_wrong_return(attention, error, words):
    model = WRITERS["Llama"]()
    with use_attention(model, attention), pytest.raises(error, match=words):
        model(input_ids=ids())


def test_no_function_of_python():
    with pytest.raises(TypeError, match="attention must be a function of Python"):
        use_attention(WRITERS["Llama"](), nn.functional.scaled_dot_product_attention)


def test_layers_that_do_not_exist():
    with pytest.raises(ValueError, match=r"layers must be some of \[0, 1\].*got \[2\]"):
        use_attention(WRITERS["Llama"](), plain, layers=[2])
    with pytest.raises(ValueError, match=r"layers must be some of \[1\].*got \[0\]"):
        use_attention(WRITERS["Qwen3-Next"](), plain, layers=[0])  # layer 0 is of a linear form
    with pytest.raises(ValueError, match="leave out layers"):
        use_attention(WRITERS["Llama"](), None, layers=[0])


def test_a_model_without_the_interface():
    with pytest.raises(TypeError, match="Linear has no layer that attends through"):
        use_attention(nn.Linear(2, 3), plain)
    with pytest.raises(TypeError, match="this needs the model that holds"):
        use_attention(WRITERS["Llama"]().model.layers[0], plain)


def test_attention_to_blocks_by_their_numbers():
    model = MINIMAX_M3()
    with use_attention(model, plain), pytest.raises(NotImplementedError, match="by number"):
        model(input_ids=ids())
    with use_attention(model, plain, layers=[0]), pytest.raises(NotImplementedError):
        model(input_ids=ids())
