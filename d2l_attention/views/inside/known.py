"""What parts do, the course's and some of PyTorch's: a sentence, the formula, the chapter."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from d2l_attention.attention import layers, multi_head, positional
from d2l_attention.models import encoder_decoder, seq2seq, transformer, transformer_blocks

CHAPTERS = {
    3: "Scoring functions",
    5: "Bahdanau attention",
    6: "Multi-head attention",
    7: "Self-attention and positional encoding",
    8: "The Transformer",
    9: "Attention in all its forms",
    11: "Attention in today's models",
}


@dataclass(frozen=True)
class Known:
    """What a kind of part does. ``formula`` and ``chapter`` are the course's; else "" and None.

    ``inputs`` says what those inputs are whose names in the code do not.
    """

    does: str
    formula: str = ""
    chapter: int | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)


READ = {"state[0]": "the encoder's output"}
KNOWN: dict[type[nn.Module], Known] = {
    encoder_decoder.EncoderDecoder: Known(
        "The encoder reads the source. The decoder scores the next word after each word so far.",
        "logits = decoder(target, encoder(source))",
        5,
    ),
    transformer.TransformerEncoder: Known(
        "Each token becomes a vector that knows its sentence.",
        "X = embedding(tokens) · √D + positions, then block after block",
        8,
    ),
    transformer.TransformerDecoder: Known(
        "Each word so far becomes a vector, and each vector a score for every word.",
        "X = embedding(tokens) · √D + positions, block after block, then a linear layer",
        8,
        READ,
    ),
    transformer_blocks.TransformerEncoderBlock: Known(
        "The tokens look at each other, then a network works on each of them.",
        "X = norm(X + attention(X, X, X)),  X = norm(X + network(X))",
        8,
    ),
    transformer_blocks.TransformerDecoderBlock: Known(
        "Each word looks at the words before it, then at the source; then a network works on it.",
        "X = norm(X + attention(X, X, X)),  X = norm(X + attention(X, source, source)), "
        " X = norm(X + network(X))",
        8,
        READ,
    ),
    transformer_blocks.AddNorm: Known(
        "Adds what a part found to what came in, and brings each token back to one scale.",
        "norm(X + Y)",
        8,
    ),
    transformer_blocks.PositionWiseFFN: Known(
        "A small network, the same for each token.", "W₂ · max(0, W₁ x + b₁) + b₂", 8
    ),
    multi_head.MultiHeadAttention: Known(
        "Several attentions side by side, each on its own projection.",
        "W_o · [head 1; ...; head H],  head i = softmax(q · k / √d) v  of W_q X, W_k X, W_v X",
        6,
    ),
    layers.DotProductAttention: Known(
        "Each query takes a weighted average of the values.", "softmax(q · k / √d) v", 3
    ),
    layers.AdditiveAttention: Known(
        "Each query takes a weighted average of the values.",
        "softmax(w_v · tanh(W_q q + W_k k)) v",
        3,
    ),
    positional.Positions: Known("Tells each token where it stands.", "", 7),
    positional.PositionalEncoding: Known(
        "Adds sines and cosines of the position to each token.",
        "x + p,  p of column 2j = sin(position / 10000^(2j / D)), of column 2j + 1 its cosine",
        7,
    ),
    seq2seq.Seq2SeqEncoder: Known("A GRU reads the source, word by word.", "", 5),
    seq2seq.Seq2SeqAttentionDecoder: Known(
        "A GRU writes. Before each word its state asks all states of the encoder.",
        "context = Σ softmax(w_v · tanh(W_q s + W_k h)) h",
        5,
        READ,
    ),
    nn.Linear: Known("Multiplies each token by a matrix."),
    nn.Embedding: Known("Gives each token number its learned vector."),
    nn.LayerNorm: Known("Brings the numbers of each token to mean 0 and deviation 1, then scales."),
    nn.RMSNorm: Known("Divides the numbers of each token by their size, then scales."),
    nn.ReLU: Known("Sets what is negative to 0."),
    nn.Dropout: Known("Does nothing here: it sets numbers to 0 in training only."),
    nn.GRU: Known("Reads the sequence one step after the other."),
    nn.MultiheadAttention: Known("Several attentions side by side (PyTorch's own layer)."),
    nn.TransformerEncoderLayer: Known("The tokens look at each other; a network works on each."),
    nn.TransformerDecoderLayer: Known(
        "Each word looks at the words before it, then at the source; a network works on it."
    ),
}


def known(module: nn.Module) -> Known | None:
    """What is known of this part, from its own class or the nearest above it."""
    return next((KNOWN[kind] for kind in type(module).__mro__ if kind in KNOWN), None)


def source_of(module: nn.Module) -> str:
    """The code of its ``forward``, if it is the course's; else nothing."""
    if not type(module).__module__.startswith("d2l_attention."):
        return ""
    try:
        return inspect.cleandoc("\n" + inspect.getsource(type(module).forward)).rstrip()
    except (OSError, TypeError):
        return ""
