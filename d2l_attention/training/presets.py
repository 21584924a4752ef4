"""The models that can be trained by name, in the sizes of the course."""

from torch import nn

from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqDecoder, Seq2SeqEncoder
from d2l_attention.models.transformer import TransformerDecoder, TransformerEncoder


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


def transformer(
    source_words: int, target_words: int, num_hiddens: int, *, num_heads: int = 4, num_blks: int = 2
) -> nn.Module:
    """Two blocks a side, four heads, networks twice as wide as the model (chapter 8)."""
    sizes = num_hiddens, 2 * num_hiddens, num_heads, num_blks
    return EncoderDecoder(
        TransformerEncoder(source_words, *sizes, dropout=0.0),
        TransformerDecoder(target_words, *sizes, dropout=0.0),
    )


# Each makes a model from two vocabulary sizes and a number of hidden units.
MODELS = {"bahdanau": bahdanau, "seq2seq": seq2seq, "transformer": transformer}
# With which it learns well on the course's corpus. A Transformer does not survive larger ones.
LEARNING_RATES = {"bahdanau": 0.01, "seq2seq": 0.01, "transformer": 0.004}
