"""What parts do, the course's and some of PyTorch's: a sentence, the formula, the chapter.

A formula is the one that ran, or there is none: many depend on how the part was made, and what a
subclass does nobody knows.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from d2l_attention.attention import layers, multi_head
from d2l_attention.attention.positional import AddedPositions, PositionalEncoding, Positions
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


Said = str | Callable[[Any], str]  # of all parts of a class, or of this one


@dataclass(frozen=True)
class Known:
    """What a kind of part does. ``formula`` and ``chapter`` are the course's; else "" and None.

    ``inputs`` says what those inputs are whose names in the code do not.
    """

    does: Said
    formula: Said = ""
    chapter: int | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)


NORMS = nn.LayerNorm, nn.RMSNorm
SOFTMAX = "softmax(q · k / √d) v"


def are(kind: type, *parts: nn.Module) -> bool:
    return all(type(part) is kind for part in parts)


def is_pre_norm(*residuals: Any) -> bool | None:
    """Of a block's residual connections; ``None`` where they are not of one kind."""
    usual = are(transformer_blocks.AddNorm, *residuals) and all(
        type(each.ln) in NORMS for each in residuals
    )
    kinds = {each.pre_norm for each in residuals} if usual else set()
    return kinds.pop() if len(kinds) == 1 else None


def stack(model: Any, *ends: str) -> str:
    """The formula of an encoder or decoder; ``ends`` are the steps behind its blocks."""
    added = {AddedPositions.forward: " + positions", Positions.forward: ""}
    positions = added.get(type(model.pos_encoding).forward)
    norm = {nn.Identity: [], **dict.fromkeys(NORMS, ["norm"])}.get(type(model.ln))
    if positions is None or norm is None:
        return ""
    *steps, last = "block after block", *norm, *ends
    return ", ".join([f"X = embedding(tokens) · √D{positions}", *steps, f"then {last}"])


def encoder_block(block: Any) -> str:
    return {
        False: "X = norm(X + attention(X, X, X)),  X = norm(X + network(X))",
        True: "Y = norm(X),  X = X + attention(Y, Y, Y),  X = X + network(norm(X))",
        None: "",
    }[is_pre_norm(block.addnorm1, block.addnorm2)]


def decoder_block(block: Any) -> str:
    return {
        False: "X = norm(X + attention(X, X, X)),  X = norm(X + attention(X, source, source)), "
        " X = norm(X + network(X))",
        True: "Y = norm(X),  X = X + attention(Y, Y, Y), "
        " X = X + attention(norm(X), source, source),  X = X + network(norm(X))",
        None: "",
    }[is_pre_norm(block.addnorm1, block.addnorm2, block.addnorm3)]


def multi_head_attention(layer: Any) -> str:
    """Of positions in the heads (rotary, ALiBi) it says nothing: then there is none."""
    projections = layer.W_q, layer.W_k, layer.W_v, layer.W_o
    kind = type(layer.positions)
    without = kind.transform is Positions.transform and kind.bias is Positions.bias
    if not without or not are(nn.Linear, *projections):
        return ""
    b_q, b_k, b_v, b_o = (
        "" if W.bias is None else f" + b_{letter}"
        for W, letter in zip(projections, "qkvo", strict=True)
    )
    inside = SOFTMAX if are(layers.DotProductAttention, layer.attention) else "attention(q, k, v)"
    return (
        f"W_o · [head 1; ...; head H]{b_o},  head i = {inside}  "
        f"of W_q X{b_q}, W_k X{b_k}, W_v X{b_v}"
    )


def additive(layer: Any, query: str = "q", key: str = "k", value: str = "v") -> str:
    usual = are(nn.Linear, layer.W_q, layer.W_k, layer.w_v)
    if not usual or layer.W_q.bias is not None or layer.W_k.bias is not None:
        return ""
    return f"softmax(w_v · tanh(W_q {query} + W_k {key})) {value}"


def context(decoder: Any) -> str:
    formula = additive(decoder.attention, "s", "h", "h")
    return f"context = Σ {formula}" if formula else ""


def network(ffn: Any) -> str:
    usual = are(nn.Linear, ffn.dense1, ffn.dense2) and are(nn.ReLU, ffn.relu)
    return "W₂ · max(0, W₁ x + b₁) + b₂" if usual else ""


READ = {"state[0]": "the encoder's output"}
KNOWN: dict[type[nn.Module], Known] = {
    encoder_decoder.EncoderDecoder: Known(
        "The encoder reads the source. The decoder scores the next word after each word so far.",
        "logits = decoder(target, encoder(source))",
        5,
    ),
    transformer.TransformerEncoder: Known(
        "Each token becomes a vector that knows its sentence.",
        stack,
        8,
    ),
    transformer.TransformerDecoder: Known(
        "Each word so far becomes a vector, and each vector a score for every word.",
        lambda decoder: stack(decoder, "a linear layer"),
        8,
        READ,
    ),
    transformer_blocks.TransformerEncoderBlock: Known(
        "The tokens look at each other, then a network works on each of them.",
        encoder_block,
        8,
    ),
    transformer_blocks.TransformerDecoderBlock: Known(
        "Each word looks at the words before it, then at the source; then a network works on it.",
        decoder_block,
        8,
        READ,
    ),
    transformer_blocks.AddNorm: Known(
        lambda part: (
            "Adds what a part found to what came in"
            + {False: ", and brings each token back to one scale."}.get(is_pre_norm(part), ".")
        ),
        lambda part: {True: "X + Y", False: "norm(X + Y)", None: ""}[is_pre_norm(part)],
        8,
    ),
    transformer_blocks.PositionWiseFFN: Known(
        "A small network, the same for each token.", network, 8
    ),
    multi_head.MultiHeadAttention: Known(
        "Several attentions side by side, each on its own projection.",
        multi_head_attention,
        6,
    ),
    layers.DotProductAttention: Known(
        "Each query takes a weighted average of the values.", SOFTMAX, 3
    ),
    layers.AdditiveAttention: Known(
        "Each query takes a weighted average of the values.", additive, 3
    ),
    Positions: Known("Tells each token where it stands.", "", 7),
    PositionalEncoding: Known(
        "Adds sines and cosines of the position to each token.",
        "x + p,  p of column 2j = sin(position / 10000^(2j / D)), of column 2j + 1 its cosine",
        7,
    ),
    seq2seq.Seq2SeqEncoder: Known("A GRU reads the source, word by word.", "", 5),
    seq2seq.Seq2SeqAttentionDecoder: Known(
        "A GRU writes. Before each word its state asks all states of the encoder.",
        context,
        5,
        READ,
    ),
    nn.Linear: Known("Multiplies each token by a matrix."),
    nn.Embedding: Known("Gives each token number its learned vector."),
    nn.LayerNorm: Known("Brings the numbers of each token to mean 0 and deviation 1, then scales."),
    nn.RMSNorm: Known("Divides the numbers of each token by their size, then scales."),
    nn.ReLU: Known("Sets what is negative to 0."),
    nn.Dropout: Known("Sets some numbers to 0, in training only."),
    nn.GRU: Known("Reads the sequence one step after the other."),
    nn.MultiheadAttention: Known("Several attentions side by side (PyTorch's own layer)."),
    nn.TransformerEncoderLayer: Known("The tokens look at each other; a network works on each."),
    nn.TransformerDecoderLayer: Known(
        "Each word looks at the words before it, then at the source; a network works on it."
    ),
}


def known(module: nn.Module) -> Known | None:
    """What is known of this part. Of subclasses nothing, but of positions, which are one each."""
    kind = type(module)
    found = KNOWN.get(kind, KNOWN[Positions] if isinstance(module, Positions) else None)
    if found is None:
        return None
    does, formula = (
        said if isinstance(said, str) else said(module) for said in (found.does, found.formula)
    )
    return replace(found, does=does, formula=formula)


def source_of(module: nn.Module) -> str:
    """The code of its ``forward``, if it is the course's; else nothing."""
    if not type(module).__module__.startswith("d2l_attention."):
        return ""
    try:
        return inspect.cleandoc("\n" + inspect.getsource(type(module).forward)).rstrip()
    except (OSError, TypeError):
        return ""
