"""The figures of a published language model, made of a tiny Llama that the test saves."""

import json
import math
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import transformers
from tokenizers import ByteLevelBPETokenizer
from torch.testing import assert_close

from d2l_attention.experiments import smollm2
from d2l_attention.real_models.ablation import Heads, mean_outputs, number_of
from d2l_attention.real_models.published import plain
from notebooks.publish.course import texts

LAYERS, HEADS, SIZE = 3, 4, 8
TEXT = (
    smollm2.SENTENCE.format(smollm2.NAMES)
    + " which other heads read while the words come once more and then again"
)
PREVIOUS, INDUCING = ["1.2"], ["2.3", "3.1"]
KINDS = "previous-token heads", "induction heads"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama of three layers with random weights, whose tokenizer knows the words of a text."""
    folder = tmp_path_factory.mktemp("smollm2")
    pieces = ByteLevelBPETokenizer()
    pieces.train_from_iterator([TEXT] * 3, vocab_size=600, min_frequency=1, show_progress=False)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HEADS * SIZE,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def loaded(folder):
    return smollm2.load(folder)


@pytest.fixture
def chosen(monkeypatch):
    """Heads of random weights have no habit: these get the scores of one."""
    rows = [[[0.1] * HEADS for _ in range(LAYERS)] for _ in range(2)]
    for table, heads in zip(rows, (PREVIOUS, INDUCING), strict=True):
        for score, head in enumerate(heads):
            layer, number = number_of(head)
            table[layer][number] = 0.9 - score / 10
    tables = dict(zip(("token before", "token after the copy"), rows, strict=True))
    monkeypatch.setattr(smollm2, "scores_of_heads", lambda model, ids: tables)


@pytest.fixture
def found(folder, chosen):
    return smollm2.measure(folder)


@pytest.fixture
def ids(loaded):
    return smollm2.twice(smollm2.word_tokens(loaded[1]), 3)


@pytest.fixture
def heads(loaded, ids):
    return Heads(loaded[0], plain, mean_outputs(loaded[0], plain, ids.flip(0, 1)))


def run(model, ids):
    with torch.no_grad():
        return model(input_ids=ids).logits


def test_words_are_a_space_and_three_letters_or_more():
    texts = [" cat", "cat", " ox", " c4t", " été", "cat ", " a cat", " Oslo", "\tcat"]
    tokenizer = SimpleNamespace(decode=lambda ids: texts[ids[0]])
    tokenizer_of = type("Tokenizer", (), {"__len__": lambda self: len(texts)})()
    tokenizer_of.decode = tokenizer.decode
    assert smollm2.word_tokens(tokenizer_of).tolist() == [0, 7]


def test_texts_are_words_and_the_same_once_more():
    words = torch.tensor([3, 5, 7, 11])
    ids = smollm2.twice(words, 6)
    half = smollm2.WORDS
    assert ids.shape == (6, 2 * half) and torch.equal(ids[:, :half], ids[:, half:])
    assert set(ids.flatten().tolist()) == {3, 5, 7, 11}
    assert torch.equal(smollm2.twice(words, 6)[:4], ids[:4])
    assert not torch.equal(smollm2.twice(words, 6, seed=1), ids)


def test_right_and_loss_by_hand():
    """A model that always says token 2, with a logit of log 3 among 4 tokens."""
    logits = torch.tensor([0.0, 0.0, 1.0, 0.0]) * torch.tensor(3.0).log()

    def model(input_ids):
        return SimpleNamespace(logits=logits.expand(*input_ids.shape, 4))

    first = torch.zeros(2, smollm2.WORDS, dtype=torch.long)
    first[0, -6:] = 2  # 6 of the 48 words to predict
    first[1, 0] = 2  # nobody can know the first word of a half
    ids = torch.cat((first, first), dim=1)
    loss = round(math.log(6) - math.log(3) / 8, 2)  # the softmax has 1/6, 1/6, 1/2, 1/6
    half = {f"loss in the {name} half": loss for name in ("first", "second")}
    assert smollm2.on_repeats(model, ids) == {"right": 0.125, **half}


def test_heads_above_the_highest_first():
    assert smollm2.heads_above(0.5, [[0.2, 0.6, 0.5], [0.9, 0.1, 0.6]]) == ["2.1", "1.2", "2.3"]
    assert number_of("17.1") == (16, 0)


def test_others_are_of_the_same_layers_and_none_twice(loaded):
    for seed in range(9):
        drawn = smollm2.others(["2.3", "2.1", "3.1"], loaded[0], seed)
        assert {drawn[0], drawn[1]} == {"2.2", "2.4"} and drawn[2] in ("3.2", "3.3", "3.4")


def before_W_o(model, ids, layers):
    """What goes into W_o of these layers, heads end to end. Shape: -> (B, n, H * d) each."""
    kept = {}
    projections = {layer: model.model.layers[layer].self_attn.o_proj for layer in layers}
    hooks = [
        W_o.register_forward_pre_hook(lambda m, given, at=layer: kept.update({at: given[0]}))
        for layer, W_o in projections.items()
    ]
    run(model, ids)
    for hook in hooks:
        hook.remove()
    return kept


def test_the_mean_output_is_over_texts_and_tokens_but_the_first(heads, ids):
    expected = before_W_o(heads.model, ids.flip(0, 1), range(LAYERS))
    assert heads.means.keys() == expected.keys()
    for layer, outputs in expected.items():
        mean = outputs[:, 1:].reshape(-1, HEADS, SIZE).mean(dim=0)
        assert_close(heads.means[layer], mean)


def test_a_head_that_is_away_writes_its_mean(heads, ids):
    """The same is put into W_o by hooks; the first token keeps what it had."""
    away, hooks = ["2.3", "2.1", "1.2"], []
    own = run(heads.model, ids)
    with heads.away(away):
        found = run(heads.model, ids)
    for head in away:
        layer, number = number_of(head)

        def put(_, given, layer=layer, number=number):
            outputs = given[0].clone()
            outputs[:, 1:, number * SIZE : (number + 1) * SIZE] = heads.means[layer][number]
            return outputs

        W_o = heads.model.model.layers[layer].self_attn.o_proj
        hooks.append(W_o.register_forward_pre_hook(put))
    expected = run(heads.model, ids)
    for hook in hooks:
        hook.remove()
    assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert (found - own).abs().max() > 1e-2
    assert torch.equal(run(heads.model, ids), own)


@pytest.mark.parametrize("into", [[], ["1.2"]], ids=["damaged", "mended"])
@pytest.mark.parametrize("part", ["queries", "keys", "values"])
def test_a_part_of_another_run(heads, ids, part, into):
    """What a projection returns in the one run, put in its place in the other."""
    model, layers, source = heads.model, [1, 2], [] if into else ["1.2"]
    kept, logits = {}, []
    projections = [getattr(model.model.layers[n].self_attn, f"{part[0]}_proj") for n in layers]
    hooks = [p.register_forward_hook(lambda m, i, o: kept.update({m: o})) for p in projections]
    with heads.away(source):
        run(model, ids)
    from_there = dict(kept)
    hooks += [p.register_forward_hook(lambda m, i, o: from_there[m]) for p in projections]
    with heads.away(into):
        expected = run(model, ids)
    for hook in hooks:
        hook.remove()

    def calls():
        logits.append(run(model, ids))
        return len(logits)

    order = heads.patched(calls, layers, into, source)
    assert order == {"queries": 2, "keys": 3, "values": 4}  # after the other run
    assert_close(logits[order[part] - 1], expected, atol=1e-4, rtol=1e-4)
    with heads.away(into):
        assert (logits[order[part] - 1] - run(model, ids)).abs().max() > 1e-3


def test_names_by_hand(loaded):
    """A model that always says the token after the one it reads, in the order of its numbers."""
    tokens = {" Zindravel": [5, 6, 9], " Quistorpe": [3, 4]}

    def tokenizer(text, return_tensors):
        ends = next(name for name in tokens if text.endswith(name[1:]))
        sentence = [1, 2] if text.startswith("Professor") else []
        return {"input_ids": torch.tensor([sentence + tokens[ends]])}

    def model(input_ids):
        return SimpleNamespace(logits=torch.eye(12)[input_ids + 1])

    tokenizer_of = type("Tokenizer", (), {"__call__": staticmethod(tokenizer)})()
    tokenizer_of.decode = lambda ids: ids.tolist()
    heads = SimpleNamespace(model=model, away=lambda names: nullcontext())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smollm2, "NAMES", "Zindravel Quistorpe")
        found = smollm2.Names(tokenizer_of).right(heads, [])
    # After 5 it says 6, which is right, after 6 it says 7; after 3 it says 4. First: 3, 6, 7.
    assert found == {"right": 2, "of": 3, "first": [3, 6, 7]}


def test_all_that_is_stored_is_measured(found, folder):
    stored = smollm2.stored()
    assert stored.keys() == found.keys()
    assert found["the same"] and stored["the same"]
    assert found["previous-token heads"] == PREVIOUS and found["induction heads"] == INDUCING
    assert found["needed"] == [PREVIOUS[0], min(INDUCING, key=found["alone"].__getitem__)]
    assert found["layers"] == [2, 3] and len(found["scores without it"]) == len(INDUCING)
    assert len(found["each"]) == 1 + LAYERS * HEADS and len(stored["each"]) == 1 + 270
    assert len(found["as many others away"]) == 1 + len(found["other words"]) == smollm2.DRAWS
    assert {head.split(".")[0] for head in found["alone"]} >= {"1", found["needed"][1][0]}
    assert "without head 1.2" in found["names"] and len(found["names"]) == 4
    assert len(stored["scores without it"]) == 4
    assert json.dumps(smollm2.measure(folder)) == json.dumps(found)


def test_the_chapter_says_what_is_stored():
    stored = smollm2.stored()
    chapter = next(path for path in texts() if path.name.startswith("13"))
    text = chapter.read_text("utf-8").replace("\n# ", " ")
    for kind, table in zip(KINDS, stored["scores"].values(), strict=True):
        assert stored[kind] == smollm2.heads_above(smollm2.HIGH, table)
    assert all(head in text for head in stored["previous-token heads"])
    assert all(f"head **{head}**" in text.lower() for head in stored["needed"])
    assert "layers {} and {}".format(*stored["layers"]) in text


def test_a_model_without_such_heads_is_refused(folder):
    with pytest.raises(ValueError, match="no head of this model has a score above 0.5"):
        smollm2.measure(folder)


def test_a_file_of_gguf_is_named_to_the_library(tmp_path, monkeypatch):
    (tmp_path / "small.gguf").touch()
    asked = []

    class Auto:
        def from_pretrained(self, folder, **options):
            asked.append(options["gguf_file"])
            return self

        def eval(self):
            return self

    library = SimpleNamespace(AutoTokenizer=Auto(), AutoModelForCausalLM=Auto())
    monkeypatch.setattr(smollm2, "transformers", lambda: library)
    smollm2.load(tmp_path)
    assert asked == ["small.gguf", "small.gguf"]


def test_the_command_prints_and_writes(folder, chosen, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(smollm2, "STORED", tmp_path / "figures.json")
    monkeypatch.setattr(sys, "argv", ["smollm2", str(folder), "--write"])
    smollm2.main()
    printed = capsys.readouterr().out
    for line in smollm2.lines(smollm2.stored()):
        assert line in printed
    assert "damaged keys, by head 1.2" in printed
