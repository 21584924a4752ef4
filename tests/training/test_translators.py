"""The translators that come with the package: what is stored is what the cards say."""

import dataclasses
import json
import shutil
import subprocess
import sys

import pytest
import torch

from d2l_attention.data import Vocab, grammar, load
from d2l_attention.data.vocabulary import SPECIAL
from d2l_attention.training.evaluation import evaluate, translate
from d2l_attention.training.metrics import exact_match
from d2l_attention.training.translators import HERE, NAMES, __main__, model_card, translator

SENTENCES = {
    "he sees her": "il la voit",
    "the dog sleeps": "le chien dort",
    "the old doctor took the good orange and ate it": (
        "le vieux médecin a pris la bonne orange et l' a mangée"
    ),
    "the old doctor took the good cake and ate it": (
        "le vieux médecin a pris le bon gâteau et l' a mangé"
    ),
}


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def loaded(name):
    return translator(name)


@pytest.fixture(scope="module")
def corpus():
    return load("grammar")


@pytest.fixture
def copy(tmp_path):
    """The files in a folder of their own, to be spoilt."""
    for path in [*HERE.glob("*.json"), *HERE.glob("*.float16")]:
        shutil.copy(path, tmp_path)
    return tmp_path


def french(loaded, sentences):
    model, src_vocab, tgt_vocab = loaded
    return translate(model, sentences, src_vocab, tgt_vocab)


@pytest.mark.parametrize("english", SENTENCES)
def test_translates(loaded, english):
    assert french(loaded, [english.split()]) == [SENTENCES[english].split()]


def test_reaches_what_its_card_says(name, loaded, corpus):
    """On sixty sentences of the test split; the command measures all of them."""
    first, reached = corpus.test[: __main__.FIRST], model_card(name)["test"]
    found = french(loaded, [pair.source for pair in first])
    share = exact_match(found, [pair.targets for pair in first])
    assert share * len(first) == pytest.approx(reached["exact_of_first_60"])
    assert reached["sentences"] == len(corpus.test) and reached["bleu"] > 97


def test_knows_every_word_of_the_corpus(loaded, corpus):
    """And the grammar's English is all of it there: no more, no less."""
    _, src_vocab, tgt_vocab = loaded
    pairs = corpus.train + corpus.valid + corpus.test + corpus.compositional
    english = {word for pair in pairs for word in pair.source}
    french = {word for pair in pairs for word in pair.target}
    assert set(src_vocab.idx_to_token) == english | set(SPECIAL)
    assert tgt_vocab.unknown(french) == []


def in_half_precision(weights):
    return all(torch.equal(weight, weight.half().float()) for weight in weights.values())


def test_is_ready_and_in_half_precision(name):
    model, *_ = translator(name)
    assert not any(module.training for module in model.modules())
    weights = model.state_dict()
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert in_half_precision(weights)
    card = model_card(name)
    assert card["parameters"] == sum(weight.numel() for weight in weights.values())
    assert (HERE / f"{name}.float16").stat().st_size == 2 * card["parameters"]


def test_all_files_together_are_small():
    assert sum(path.stat().st_size for path in HERE.iterdir() if path.is_file()) < 1_500_000


def test_loading_draws_nothing_and_shares_nothing(name, loaded):
    before = torch.get_rng_state()
    model, *_ = translator(name)
    assert torch.equal(torch.get_rng_state(), before)
    kept = loaded[0].decoder.dense.bias.clone()
    torch.nn.init.zeros_(model.decoder.dense.bias)
    assert torch.equal(loaded[0].decoder.dense.bias, kept)


def test_the_card_says_how_many_heads_there_are(copy):
    card = model_card("transformer")
    card["sizes"]["num_heads"] = 2
    (copy / "transformer.json").write_text(json.dumps(card), "utf-8")
    for folder, heads in ((HERE, 4), (copy, 2)):
        model, *_ = translator("transformer", folder)
        assert model.encoder.blks.block0.attention.num_heads == heads


def test_loading_needs_torch_alone():
    code = """
import sys
from d2l_attention.training import translator
translator("transformer")
print(*sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "torch" in loaded
    assert loaded & {"accelerate", "sacrebleu", "safetensors", "matplotlib"} == set()


# ---- Errors ---------------------------------------------------------------------------------


def test_there_is_no_other():
    for ask in (translator, model_card):
        with pytest.raises(ValueError, match="one of bahdanau, transformer, got 'source'"):
            ask("source")


@pytest.mark.parametrize("file", ["source.json", "target.json", "{}.json", "{}.float16"])
def test_a_missing_file(copy, name, file):
    path = copy / file.format(name)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"is missing: python -m .* makes it") as raised:
        translator(name, copy)
    assert str(path) in str(raised.value)


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "spoil", "words"),
    [
        ("source.json", cut, "holds no vocabulary"),
        ("{}.json", cut, "holds no model card"),
        ("{}.json", lambda path: path.write_text("[]", "utf-8"), "holds no model card"),
        ("{}.json", lambda path: path.write_text("{}", "utf-8"), "holds no model card"),
        ("{}.float16", cut, "is damaged, or not the file of its model card"),
        ("{}.float16", change_a_byte, "is damaged, or not the file of its model card"),
    ],
)
def test_a_damaged_file(copy, name, file, spoil, words):
    path = copy / file.format(name)
    spoil(path)
    with pytest.raises(ValueError, match=words) as raised:
        translator(name, copy)
    assert str(path) in str(raised.value)


def test_files_that_do_not_fit(copy, name):
    Vocab([["one", "word"]]).save(copy / "target.json")
    with pytest.raises(ValueError, match=f"{name}.json does not fit its weights or words"):
        translator(name, copy)


# ---- The command ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(corpus, tmp_path_factory):
    """What the command writes in three steps on a small corpus, and this corpus.

    What it measures has to be what it stores, the rounded weights.
    """
    reached = __main__.reached

    def reached_by_rounded(model, *arguments):
        assert in_half_precision(model.state_dict())
        return reached(model, *arguments)

    few = dataclasses.replace(
        corpus, train=corpus.train[:200], test=corpus.test[:7], compositional=corpus.test[7:9]
    )
    folder = tmp_path_factory.mktemp("translators")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(__main__, "load", lambda source: few)
        patch.setattr(__main__, "DRAWN", 200)
        patch.setattr(__main__, "reached", reached_by_rounded)
        patch.setattr(sys, "argv", ["translators", "--steps", "3", "--out", str(folder)])
        __main__.main()
    return folder, few


def test_the_command_writes_what_the_loader_reads(made, name):
    folder, few = made
    names = {f"{each}.{kind}" for each in NAMES for kind in ("json", "float16")}
    assert {path.name for path in folder.iterdir()} == names | {"source.json", "target.json"}
    model, src_vocab, tgt_vocab = translator(name, folder)
    result, card = evaluate(model, few.test, src_vocab, tgt_vocab), model_card(name, folder)
    assert card["training"]["steps"] == 3 and card["test"]["sentences"] == 7
    pairs = few.train  # what is drawn, and nothing of it is held out
    assert src_vocab.idx_to_token == Vocab((p.source for p in pairs), min_freq=2).idx_to_token
    assert tgt_vocab.idx_to_token == Vocab((p.target for p in pairs), min_freq=2).idx_to_token
    assert card["test"]["bleu"] == round(result.bleu, 2)
    assert card["test"]["alignment_error_rate"] == round(result.alignment_error_rate, 4)


def test_what_is_measured_was_not_trained_on():
    corpus = grammar.splits(train=50, valid=20, test=10)
    pairs = __main__.training_pairs(corpus, 200)
    assert len(pairs) == 170 and set(corpus.train) <= set(pairs)
    held_out = corpus.valid + corpus.test + corpus.compositional
    assert not {pair.source for pair in pairs} & {pair.source for pair in held_out}
