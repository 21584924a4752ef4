"""Greedy and beam search, against tables of probabilities worked by hand, and against brute force.

A finished sentence is not forgotten, scores are the model's own, weights are those of the tokens.
"""

import itertools
import math
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from d2l_attention import TransformerDecoder, TransformerEncoder
from d2l_attention.models.decoding import beam_search, greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqDecoder, Seq2SeqEncoder

BOS, EOS, A, C = 0, 1, 2, 3
SEARCHES = [greedy_decode, beam_search]


class Table(nn.Module):
    """A decoder that looks the probabilities of the next word up: ``table(sentence, prefix)``.

    It says that it looked at the source word with the number of the target's last word; the state
    is the number of the source sentence and the words so far.
    """

    def __init__(self, table):
        super().__init__()
        self.table = table

    def init_state(self, encoded, lens=None):
        return [encoded, torch.empty(len(encoded), 0, dtype=torch.long)]

    def forward(self, X, state):
        sentence, tokens = state
        tokens = torch.cat((tokens, X), dim=1)
        rows = zip(sentence[:, 0].tolist(), tokens[:, 1:].tolist(), strict=True)
        probs = torch.tensor([self.table(number, tuple(row)) for number, row in rows])
        self.attention_weights = torch.eye(4)[X]  # (B, 1, 4)
        return probs.reshape(len(tokens), 1, -1).double().log(), [sentence, tokens]

    def select(self, state, index):
        return [part[index] for part in state]


class Numbers(nn.Module):
    """An encoder that gives the source back: the sentence's number is its only word."""

    def forward(self, source, lens=None):
        return source


def search_in(table, sentences=1, **options):
    source, lens = torch.arange(sentences)[:, None], torch.ones(sentences, dtype=torch.long)
    options = dict(bos=BOS, eos=EOS, need_weights=True) | options
    return beam_search(EncoderDecoder(Numbers(), Table(table)), source, lens, **options)


def decaying(sentence, prefix):
    """<bos>, <eos>, a, c: after one word two branches look good, after two all is a guess."""
    return {0: [0, 0.4, 0.5, 0.1], 1: [0, 0, 0.5, 0.5]}.get(len(prefix), [0.25] * 4)


@pytest.mark.parametrize("length_penalty", [1.0, 0.75])
def test_a_finished_sentence_that_was_pushed_out_comes_back(length_penalty):
    # 1. The beam holds a, log 0.5 = -0.693, and the empty sentence, log 0.4 = -0.916.
    # 2. a a and a c, log 0.25 = -1.386, are -0.693 by length 2, or -0.824 by 2^0.75: both better.
    # 3. Whatever follows has log(0.25 * 0.25) = -2.773: -0.924 by 3, or -1.216 by 3^0.75.
    options = dict(max_len=3, beam_size=2, length_penalty=length_penalty)
    found = search_in(decaying, **options)
    assert found.sentences() == [[]] and found.lens.tolist() == [0]
    assert found.scores.tolist() == pytest.approx([math.log(0.4)])
    assert found.tokens.tolist() == [[EOS] * 3]
    # It looked at <bos> when it ended, and at nothing after that.
    assert found.weights.tolist() == [[[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]]
    # After two words the branches are still the better ones.
    found = search_in(decaying, **options | dict(max_len=2))
    assert found.scores.tolist() == pytest.approx([math.log(0.25) / 2**length_penalty])
    assert found.sentences() in ([[A, A]], [[A, C]])


def test_each_sentence_of_a_batch_keeps_its_own():
    """Sentence 1 ends after the others, sentence 2 goes on for certain to the longest length."""

    def table(sentence, prefix):
        if sentence == 2:
            return [0, 0, 0, 1]
        if sentence == 1 and not prefix:
            return [0.1, 0.1, 0.5, 0.3]
        return decaying(sentence, prefix[sentence:])

    found = search_in(table, 3, max_len=4, beam_size=2, length_penalty=1.0)
    # Sentence 1: the empty one, 0.1, is never in the beam of a and c. Then a a has log 0.25 / 2 and
    # a <eos> log 0.2 / 2 = -0.805. After three words two branches have log 0.125 / 3 = -0.693, at
    # the end log(1 / 32) / 4 = -0.866.
    assert found.sentences() == [[], [A], [C, C, C, C]]
    assert found.scores.tolist() == pytest.approx([math.log(0.4), math.log(0.2) / 2, 0])
    assert found.tokens.tolist() == [[EOS] * 4, [A, EOS, EOS, EOS], [C] * 4]
    for weights, fed in zip(found.weights, ([BOS], [BOS, A], [BOS, C, C, C]), strict=True):
        assert_close(weights, F.pad(torch.eye(4)[fed], (0, 0, 0, 4 - len(fed))))


def random_table(seed, words):
    """Probabilities for every prefix, sharp ones first and flat ones later: branches decay."""
    drawn = {}

    def table(sentence, prefix):
        if (sentence, prefix) not in drawn:
            draw = random.Random(f"{seed} {sentence} {prefix}")
            power = 3 if len(prefix) < 3 else 0.1
            weights = [draw.random() ** power + 1e-3 for _ in range(words)]
            drawn[sentence, prefix] = [weight / sum(weights) for weight in weights]
        return drawn[sentence, prefix]

    return table


def log_prob(table, sentence, tokens):
    steps = range(len(tokens))
    return sum(math.log(table(sentence, tokens[:i])[tokens[i]]) for i in steps)


def plain_beam_search(table, sentence, words, max_len, beam_size, length_penalty):
    """The beam at the end; and the scores of it and of all finished ones that ever were in it."""

    def score(tokens):
        return log_prob(table, sentence, tokens) / len(tokens) ** length_penalty

    beam, finished = [()], {}
    for _ in range(max_len):
        open_ones = [tokens for tokens in beam if tokens[-1:] != (EOS,)]
        closed = [tokens for tokens in beam if tokens[-1:] == (EOS,)]
        longer = [(*tokens, word) for tokens in open_ones for word in range(words)]
        beam = sorted(closed + longer, key=score, reverse=True)[:beam_size]
        finished |= {tokens: score(tokens) for tokens in beam if tokens[-1] == EOS}
    return beam, finished | {tokens: score(tokens) for tokens in beam}


@pytest.mark.parametrize("length_penalty", [0.0, 0.75, 1.0, 2.0])
@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_nothing_finished_is_ever_better_than_what_is_returned(beam_size, length_penalty):
    words, max_len, sentences = 4, 6, 200
    table, came_back = random_table(1, words), 0
    options = dict(max_len=max_len, beam_size=beam_size, length_penalty=length_penalty)
    found = search_in(table, sentences, **options)
    for b, tokens in enumerate(found.tokens.tolist()):
        beam, every = plain_beam_search(table, b, words, **options)
        best = max(every, key=every.get)
        assert found.scores[b].item() == pytest.approx(every[best], rel=1e-5)
        padding = len(tokens) - len(best)
        assert tuple(tokens) == best + (EOS,) * padding
        looks = F.pad(torch.eye(4)[[BOS, *best[:-1]]], (0, 0, 0, padding))
        assert torch.equal(found.weights[b], looks)
        came_back += best not in beam
    if beam_size == 2 and length_penalty <= 1:
        assert came_back > 0, "no sentence was ever pushed out: the test sees nothing"


@pytest.mark.parametrize("length_penalty", [0.0, 0.75, 1.0, 2.0])
def test_a_beam_for_all_sentences_finds_the_best_of_all(length_penalty):
    words, max_len, sentences = 3, 4, 10
    table = random_table(2, words)
    options = dict(max_len=max_len, beam_size=words**max_len, length_penalty=length_penalty)
    found = search_in(table, sentences, **options)
    for b in range(sentences):
        every = {}
        for tokens in itertools.product(range(words), repeat=max_len):
            if EOS in tokens:
                tokens = tokens[: tokens.index(EOS) + 1]
            every[tokens] = log_prob(table, b, tokens) / len(tokens) ** length_penalty
        best = max(every, key=every.get)
        assert found.sentences()[b] == [word for word in best if word != EOS]
        assert found.scores[b].item() == pytest.approx(every[best], rel=1e-5)


@pytest.mark.parametrize("length_penalty", [0.0, 0.75, 2.0])
def test_a_beam_of_one_is_greedy(length_penalty):
    options = dict(bos=BOS, eos=EOS, max_len=6, need_weights=True)
    model = EncoderDecoder(Numbers(), Table(random_table(3, 4)))
    given = model, torch.arange(20)[:, None], torch.ones(20, dtype=torch.long)
    greedy = greedy_decode(*given, **options)
    beam = beam_search(*given, beam_size=1, length_penalty=length_penalty, **options)
    assert beam.tokens.tolist() == greedy.tokens.tolist() and len(set(beam.lens.tolist())) > 2
    lengths = (beam.lens + 1).clamp(max=6)
    assert_close(beam.scores * lengths**length_penalty, greedy.scores, check_dtype=False)
    assert torch.equal(beam.weights, greedy.weights)


B, S, H, M, N = 4, 6, 12, 9, 7
LENS = torch.tensor([6, 1, 4, 2])


def bahdanau():
    sizes = (H, H, 2)
    return EncoderDecoder(Seq2SeqEncoder(M, *sizes), Seq2SeqAttentionDecoder(N, *sizes))


def one_vector():
    sizes = (H, H, 2)
    return EncoderDecoder(Seq2SeqEncoder(M, *sizes), Seq2SeqDecoder(N, *sizes))


def transformer():
    sizes = (H, 2 * H, 3, 2, 0.0)
    return EncoderDecoder(TransformerEncoder(M, *sizes), TransformerDecoder(N, *sizes))


def restless(make):
    """Weights large enough that sentences change, branch and end."""
    torch.manual_seed(4)
    model = make().double().eval()
    with torch.no_grad():
        model.decoder.dense.weight.mul_(6)
    return model


@pytest.mark.parametrize("search", SEARCHES)
def test_half_precision_takes_the_larger_of_two_close_logits(search):
    class Half(Table):
        def forward(self, X, state):
            logits, state = super().forward(X, state)
            return logits.bfloat16(), state

    model = EncoderDecoder(Numbers(), Half(lambda *_: [1.0, 1.0, 1.010, 1.012]))
    found = search(model, torch.zeros(1, 1).long(), None, bos=BOS, eos=EOS, max_len=1)
    assert found.tokens.tolist() == [[C]]
    assert_close(found.scores, torch.tensor([math.log(1.012 / 4.022)]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("make", [bahdanau, transformer])
@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_scores_and_weights_are_those_of_teacher_forcing(make, beam_size):
    model, source, lengths = restless(make), torch.randint(M, (B, S)), set()
    ends = itertools.product(range(1, N), (0.0, 0.75, 1.5))
    for eos, length_penalty in ends:
        found = beam_search(
            model, source, LENS, bos=0, eos=eos, max_len=8, need_weights=True,
            beam_size=beam_size, length_penalty=length_penalty,
        )  # fmt: skip
        if beam_size == 1:
            greedy = greedy_decode(model, source, LENS, bos=0, eos=eos, max_len=8)
            assert torch.equal(found.tokens, greedy.tokens)
        fed = torch.cat((torch.zeros(B, 1, dtype=torch.long), found.tokens[:, :-1]), dim=1)
        with torch.no_grad():
            logits, weights = model(source, fed, LENS, need_weights=True)
        each = logits.log_softmax(dim=-1).gather(2, found.tokens[..., None])[..., 0]
        for b, length in enumerate(found.lens.tolist()):
            end = min(length + 1, found.tokens.shape[1])  # <eos> counts
            expected = each[b, :end].sum() / end**length_penalty
            assert_close(found.scores[b], expected, rtol=1e-5, atol=1e-6)
            assert_close(found.weights[b, :end], weights[b, :end])
            assert (found.weights[b, end:] == 0).all() and (found.tokens[b, length:] == eos).all()
            lengths.add(length)
    assert len(lengths) > 2


WRONG = [
    *[("max_len", wrong, "a whole number") for wrong in (0, 2.5, "2", None, True, float("nan"))],
    *[(end, wrong, "a whole number from 0 on") for end in ("bos", "eos") for wrong in (-1, 1.0)],
    *[(end, N, "below the size of the vocabulary, 7") for end in ("bos", "eos")],
]


@pytest.mark.parametrize("search", SEARCHES)
class TestArguments:
    ENDS = dict(bos=1, eos=2, max_len=3)

    @pytest.mark.parametrize(("name", "wrong", "words"), WRONG)
    def test_numbers(self, search, name, wrong, words):
        model, source = restless(one_vector), torch.randint(M, (B, S))
        with pytest.raises(ValueError, match=f"{name} must be {words}.* got {wrong!r}"):
            search(model, source, LENS, **self.ENDS | {name: wrong})

    def test_integers_of_numpy(self, search):
        model, source = restless(transformer), torch.randint(M, (B, S))
        numbers = dict(bos=np.int64(1), eos=np.int32(2), max_len=np.uint8(3))
        found, expected = (search(model, source, LENS, **ends) for ends in (numbers, self.ENDS))
        assert torch.equal(found.tokens, expected.tokens)

    @pytest.mark.parametrize("make", [bahdanau, one_vector, transformer])
    def test_sources(self, search, make):
        model, source = restless(make), torch.randint(M, (B, S))
        for wrong in (torch.rand(B, S), source[0], source.tolist()):
            with pytest.raises(ValueError, match="X must hold token numbers"):
                search(model, wrong, LENS, **self.ENDS)
        for lens in (LENS[:0], None):
            found = search(model, source[:0], lens, **self.ENDS)
            assert found.sentences() == [] and found.scores.shape == (0,)
        without = search(model, source, None, **self.ENDS)  # all words count
        found = search(model, source, torch.full((B,), S), **self.ENDS)
        assert without.tokens.tolist() == found.tokens.tolist()
        assert_close(without.scores, found.scores)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, 2.5, "2", None, True])
def test_beam_size(wrong):
    with pytest.raises(ValueError, match=f"beam_size must be a whole number .* got {wrong!r}"):
        search_in(decaying, max_len=3, beam_size=wrong)
    assert search_in(decaying, max_len=3, beam_size=np.int64(2)).sentences() == [[]]


def test_nan_is_not_hidden():
    def table(sentence, prefix):
        return [math.nan] * 4 if prefix else decaying(sentence, prefix)

    # The empty sentence is finished, and what stands beside it is not a number.
    assert search_in(table, max_len=2, beam_size=2).scores.isnan().all()
