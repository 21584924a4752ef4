"""A corpus and models so small that a test can train on them."""

import torch

from d2l_attention.data import Vocab, grammar
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder
from d2l_attention.training import MODELS, train

PAIRS = grammar.corpus(23)  # prime: the last batch is never full
SRC = Vocab(pair.source for pair in PAIRS)
TGT = Vocab(pair.target for pair in PAIRS)


def model_of(dropout=0.0, hidden=7):
    torch.manual_seed(1)
    sizes = (5, hidden, 2, dropout)
    return EncoderDecoder(
        Seq2SeqEncoder(len(SRC), *sizes), Seq2SeqAttentionDecoder(len(TGT), *sizes)
    )


def model_named(name, hidden=8):
    torch.manual_seed(1)
    return MODELS[name](len(SRC), len(TGT), hidden)


def train_on(model, pairs=PAIRS, **options):
    options = {"batch_size": 5, "steps": 7, "check_every": 3} | options
    return train(model, pairs, SRC, TGT, **options)


def stop_after(step):
    def on_step(history):
        if history.step == step:
            raise KeyboardInterrupt

    return on_step
