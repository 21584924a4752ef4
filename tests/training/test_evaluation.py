"""The evaluation against what its parts say, one pair at a time."""

from contextlib import nullcontext

import pytest
import torch
from accelerate import Accelerator

from d2l_attention.data import Pair, Vocab, grammar, link_matrix, make_batch
from d2l_attention.training import MODELS
from d2l_attention.training.evaluation import align, evaluate, has_weights, translate
from d2l_attention.training.loop import validation_loss
from d2l_attention.training.metrics import (
    IBMModel1,
    align_by_attention,
    alignment_error_rate,
    bleu,
    exact_match,
)

PAIRS = grammar.corpus(67)  # more than one batch, the last not full
SRC = Vocab(pair.source for pair in PAIRS)
TGT = Vocab(pair.target for pair in PAIRS)


def model_named(name):
    torch.manual_seed(3)
    return MODELS[name](len(SRC), len(TGT), 8)


def test_aligns_each_pair_as_if_it_were_alone():
    model = model_named("bahdanau").eval()
    found = align(model, PAIRS, SRC, TGT)
    assert len(found) == len(PAIRS)
    for links, pair in zip(found, PAIRS, strict=True):
        batch = make_batch([pair], SRC, TGT)
        _, weights = model(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
        assert links == align_by_attention(weights[0], len(pair.source), len(pair.target))


def test_a_translation_without_an_end_is_as_long_as_its_own_source_allows():
    model = model_named("seq2seq")
    with torch.no_grad():
        model.decoder.dense.bias[TGT["<eos>"]] = -1e4  # it never ends
    sources = [("the", "cat"), ("the",) * 20, ()]
    assert [len(found) for found in translate(model, sources, SRC, TGT)] == [14, 50, 10]


def test_is_what_the_metrics_say():
    model = model_named("bahdanau")
    result = evaluate(model, PAIRS, SRC, TGT)
    assert result.translations == translate(model, [pair.source for pair in PAIRS], SRC, TGT)
    references = [pair.targets for pair in PAIRS]
    assert result.bleu == bleu(result.translations, references)
    assert result.exact_match == exact_match(result.translations, references)
    sure, possible = [pair.sure for pair in PAIRS], [pair.possible for pair in PAIRS]
    expected = alignment_error_rate(align(model, PAIRS, SRC, TGT), sure, possible)
    assert result.alignment_error_rate == expected
    assert f"alignment error rate {expected:.3f}" in str(result)


@pytest.mark.parametrize("case", ["no attention", "no alignments"])
def test_no_error_rate_where_there_is_nothing_to_compare(case):
    name = "seq2seq" if case == "no attention" else "bahdanau"
    pairs = PAIRS if case == "no attention" else [Pair(p.source, p.targets) for p in PAIRS]
    result = evaluate(model_named(name), pairs, SRC, TGT)
    assert result.alignment_error_rate is None
    assert "alignment" not in str(result)


@pytest.mark.parametrize(("name", "expected"), [("bahdanau", True), ("seq2seq", False)])
def test_a_compiled_decoder_has_the_weights_of_the_decoder(name, expected):
    model = model_named(name)
    model.decoder = torch.compile(model.decoder, backend="eager")
    assert has_weights(model) is expected


def test_pairs_without_an_alignment_do_not_count_in_its_error_rate():
    model, unknown = model_named("bahdanau"), [Pair(p.source, p.targets) for p in PAIRS[:5]]
    mixed = evaluate(model, [*unknown, *PAIRS], SRC, TGT)
    assert mixed.alignment_error_rate == evaluate(model, PAIRS, SRC, TGT).alignment_error_rate


def test_of_nothing():
    with pytest.raises(ValueError, match="pairs must not be empty"):
        evaluate(model_named("seq2seq"), [], SRC, TGT)


@pytest.mark.parametrize("ask", [translate, align, evaluate, "validation_loss"])
@pytest.mark.parametrize("fails", [False, True])
def test_leaves_each_module_in_its_mode(ask, fails, monkeypatch):
    model, sources = model_named("bahdanau"), [pair.source for pair in PAIRS[:3]]
    model.encoder.eval()
    before = [module.training for module in model.modules()]
    seen = []

    def init_state(*arguments):
        seen.append(model.training or model.decoder.training)
        if fails:
            raise ArithmeticError
        return type(model.decoder).init_state(model.decoder, *arguments)

    monkeypatch.setattr(model.decoder, "init_state", init_state)
    with pytest.raises(ArithmeticError) if fails else nullcontext():
        if ask == "validation_loss":
            validation_loss(model, PAIRS[:3], SRC, TGT, 2, Accelerator(cpu=True))
        else:
            ask(model, sources if ask is translate else PAIRS[:3], SRC, TGT)
    assert seen and not any(seen)
    assert [module.training for module in model.modules()] == before


def test_links_as_a_matrix():
    pair = Pair(("a", "b", "c"), (("x", "y"),), sure=((0, 0),), possible=((0, 0), (2, 1)))
    assert link_matrix(pair).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.5]]


@pytest.mark.parametrize(
    "call",
    [
        lambda model: translate(model, ["he sees her"], SRC, TGT),
        lambda model: translate(model, "he", SRC, TGT),
        lambda model: make_batch([Pair("he sees", (("il",),))], SRC, TGT),
        lambda model: align(model, [Pair(("he",), "il")], SRC, TGT),
        lambda model: evaluate(model, [Pair(("he",), (("il",), "elle"))], SRC, TGT),
        lambda model: IBMModel1([("he sees", ["il"])]),
        lambda model: IBMModel1([(["he"], ["il"])]).align(["he"], "il"),
        lambda model: SRC.unknown("he sees"),
    ],
)
def test_text_is_no_sequence_of_tokens(call):
    with pytest.raises(TypeError, match="must be sequences of tokens, got text: '(he|il|elle)"):
        call(model_named("bahdanau"))
