"""Every model on the device: outputs, losses, gradients, and the sentences that it writes."""

import pytest
import torch
from both import moved, same_on
from parts import MODELS, SOURCE_WORDS, TARGET_WORDS, B

from d2l_attention.data import Vocab
from d2l_attention.models.decoding import beam_search, greedy_decode
from d2l_attention.models.encoder_decoder import guidance_loss, sequence_loss
from d2l_attention.training.evaluation import translate

S, T = 7, 5
BOS, EOS = 1, 2
SOURCE_LENS, TARGET_LENS = torch.tensor([S, 2, 4]), torch.tensor([T, 1, 3])
WITH_WEIGHTS = [name for name in MODELS if name != "seq2seq"]


def batch():
    return torch.randint(SOURCE_WORDS, (B, S)), torch.randint(TARGET_WORDS, (B, T))


@pytest.mark.parametrize("lens", [SOURCE_LENS, None], ids=["padded", "whole"])
@pytest.mark.parametrize("name", MODELS)
def test_teacher_forcing(device, name, lens):
    same_on(device, lambda model, *inputs: model(*inputs), MODELS[name](), *batch(), lens)


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_both_losses(device, name):
    def run(model, source, target, source_lens, target_lens, links):
        logits, weights = model(source, target, source_lens, need_weights=True)
        return sequence_loss(logits, target, target_lens), guidance_loss(weights, links), weights

    links = torch.arange(B * T * S).reshape(B, T, S) % 3 == 0
    same_on(device, run, MODELS[name](), *batch(), SOURCE_LENS, TARGET_LENS, links)


@pytest.mark.parametrize("search", [greedy_decode, beam_search])
@pytest.mark.parametrize("name", MODELS)
def test_writing_a_sentence(device, name, search):
    """Greedy and beam search, with the caches of a Transformer and the states of a GRU."""
    need_weights = name in WITH_WEIGHTS

    def run(model, source, lens):
        found = search(
            model.eval(), source, lens, bos=BOS, eos=EOS, max_len=6, need_weights=need_weights
        )
        assert (found.weights is not None) == need_weights
        return [part for part in vars(found).values() if part is not None]

    same_on(device, run, MODELS[name](), batch()[0], SOURCE_LENS)


@pytest.mark.parametrize("name", ["Transformer", "Bahdanau"])
def test_translations(device, name):
    words = Vocab([("a", "b", "c"), ("d", "e", "f", "g")])
    model, sentences = MODELS[name](), [("a", "b"), ("d",), ("g", "f", "e")]
    there = translate(moved(model, device), sentences, words, words)
    assert there == translate(model, sentences, words, words)
