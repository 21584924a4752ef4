"""``TranslatorView`` in Python: what it shows, sends and refuses."""

import json
from io import BytesIO
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from d2l_attention import AdditiveAttention, ALiBi, Positions
from d2l_attention.data import Vocab
from d2l_attention.training import translators
from d2l_attention.training.presets import MODELS
from d2l_attention.views import TranslatorView
from d2l_attention.views.translator.translator_view import (
    GUIDED,
    HERE,
    MODEL_FILES,
    MOST_WORDS,
    stored_script,
)

ROOT = Path(__file__).parents[3]
ENGLISH, FRENCH = Vocab([["he", "sees", "her"]]), Vocab([["il", "la", "voit", "bien"]])


def own_model(name="transformer", **sizes):
    torch.manual_seed(0)
    return MODELS[name](len(ENGLISH), len(FRENCH), 16, **sizes)


@pytest.mark.parametrize("name", translators.NAMES)
def test_it_says_what_it_translates(name):
    view = TranslatorView(name, sentence="he sees her")
    assert repr(view) == f"TranslatorView({name}, 'he sees her')"
    assert view.alt == "A translator: he sees her becomes il la voit."
    bundle, about = view._repr_mimebundle_()
    assert bundle["image/png"] and about["image/png"]["alt"] == view.alt
    with Image.open(BytesIO(view.still())) as picture:
        assert picture.width > 300


def test_a_stored_translator_is_a_name_in_the_notebook_and_no_weights():
    state = TranslatorView("transformer").get_state()
    rest = {name: value for name, value in state.items() if name not in ("_esm", "_css")}
    assert state["stored"] == "transformer" and len(json.dumps(rest, default=str)) < 4_000
    assert len(state["_esm"]) < 90_000


@pytest.mark.parametrize("name", translators.NAMES)
def test_the_guided_cuts_are_of_words_that_it_knows(name):
    for guide in GUIDED[name]:
        TranslatorView(name, sentence=guide["sentence"], cuts=guide["cuts"])


@pytest.mark.parametrize("name", translators.NAMES)
def test_a_model_of_ones_own_is_sent_once_it_is_asked_for(name):
    model = own_model(name)
    view = TranslatorView(model, ENGLISH, FRENCH, sentence="he sees her")
    sent = []
    view.send = lambda content, buffers: sent.append((content, buffers))
    view._answer(view, {"kind": "another"}, [])
    view._answer(view, {"kind": "model, please"}, [])
    [(content, [bits])] = sent
    assert content["name"] == name and sorted(content["source"][4:]) == ["he", "her", "sees"]
    first = next(iter(content["shapes"]))
    weights = model.state_dict()
    assert list(content["shapes"]) == list(weights)
    numbers = torch.frombuffer(bytearray(bits), dtype=torch.float32)
    assert len(numbers) == sum(tensor.numel() for tensor in weights.values())
    assert torch.equal(numbers[: weights[first].numel()], weights[first].flatten())
    assert view.stored == "" and json.loads(view.guided_text) == []


def test_the_model_stays_in_its_mode():
    model = own_model().train()
    TranslatorView(model, ENGLISH, FRENCH, sentence="he sees her").still()
    assert model.training and all(part.training for part in model.modules())


def test_the_script_holds_the_bytes_of_the_file():
    text = stored_script(["bahdanau"])
    start, end = "globalThis.storedTranslators = ", ";\n"
    assert text.startswith(start) and text.endswith(end)
    held = json.loads(text.removeprefix(start).removesuffix(end))
    assert held.keys() == {"bahdanau", "vocabularies"}
    size = (translators.HERE / "bahdanau.float16").stat().st_size
    assert len(held["bahdanau"]["base64"]) == -(-size // 3) * 4
    assert held["vocabularies"]["source"][:2] == ["<pad>", "<bos>"]
    assert len(stored_script()) < 1_500_000


def test_what_it_cannot_show_is_said():
    with pytest.raises(ValueError, match="name must be one of bahdanau, transformer, got 'gpt'"):
        TranslatorView("gpt")
    with pytest.raises(ValueError, match="needs src_vocab and tgt_vocab"):
        TranslatorView(own_model())
    with pytest.raises(ValueError, match="does not know 'well', 'flies'"):
        TranslatorView("transformer", sentence="she sings well and flies")
    with pytest.raises(ValueError, match=f"1 to {MOST_WORDS} words, got 0"):
        TranslatorView("transformer", sentence=" ")
    for cut in ("cross 1 2 3", "nowhere * * * *", "cross a * * *"):
        with pytest.raises(ValueError, match="such as 'cross \\* \\* \\* 2', got"):
            TranslatorView("transformer", cuts=[cut])


@pytest.mark.parametrize(
    "options",
    [{"pre_norm": True}, {"use_bias": True}, {"positions": ALiBi(2)}, {"positions": Positions()}],
    ids=lambda options: str(*options.values()),
)
def test_a_model_that_the_page_cannot_compute_is_refused(options):
    from d2l_attention.models.encoder_decoder import EncoderDecoder
    from d2l_attention.models.transformer import TransformerDecoder, TransformerEncoder

    sizes = (16, 32, 4, 2, 0.0)
    both = {name: value for name, value in options.items() if name != "use_bias"}
    model = EncoderDecoder(
        TransformerEncoder(len(ENGLISH), *sizes, **options),
        TransformerDecoder(len(FRENCH), *sizes, **both),
    )
    with pytest.raises(TypeError, match="got EncoderDecoder"):
        TranslatorView(model, ENGLISH, FRENCH, sentence="he sees her")
    with pytest.raises(TypeError, match="got Linear"):
        TranslatorView(torch.nn.Linear(2, 3), ENGLISH, FRENCH)


@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
def test_parts_with_the_same_weights_that_compute_something_else_are_refused(name):
    model = own_model(name)
    if name == "transformer":
        model.encoder.blks[0].ffn.relu = nn.GELU()
    else:
        model.decoder.attention.__class__ = type("Mine", (AdditiveAttention,), {})
    with pytest.raises(TypeError, match="the page computes the translators of chapters 5"):
        TranslatorView(model, ENGLISH, FRENCH, sentence="he sees her")


def test_the_model_in_the_page_is_short():
    lines = sum(len((HERE / name).read_text("utf-8").splitlines()) for name in MODEL_FILES)
    assert lines < 400
