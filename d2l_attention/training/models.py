"""The models that can be trained by name, in the sizes of the course."""

from torch import nn

from d2l_attention.seq2seq import (
    EncoderDecoder,
    Seq2SeqAttentionDecoder,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
)


def bahdanau(source_words: int, target_words: int, num_hiddens: int) -> nn.Module:
    """One layer a side, encoder in both directions, attention (chapter 5)."""
    return EncoderDecoder(
        Seq2SeqEncoder(source_words, num_hiddens, num_hiddens, 1, bidirectional=True),
        Seq2SeqAttentionDecoder(target_words, num_hiddens, num_hiddens, 1),
    )


def seq2seq(source_words: int, target_words: int, num_hiddens: int) -> nn.Module:
    """The same encoder, and a decoder that sees its last state alone."""
    return EncoderDecoder(
        Seq2SeqEncoder(source_words, num_hiddens, num_hiddens, 1, bidirectional=True),
        Seq2SeqDecoder(target_words, num_hiddens, num_hiddens, 1),
    )


# Each makes a model from two vocabulary sizes and a number of hidden units.
MODELS = {"bahdanau": bahdanau, "seq2seq": seq2seq}
