"""Every layer and model of the package, small, and the ways to call it."""

import torch

from d2l_attention import (
    AdditiveAttention,
    AddNorm,
    ALiBi,
    DotProductAttention,
    KeyValueCache,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionalEncoding,
    PositionWiseFFN,
    RotaryEncoding,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqDecoder, Seq2SeqEncoder
from d2l_attention.variants import (
    BigBirdAttention,
    ChosenBlocksAttention,
    GatedDeltaNet,
    GlobalLocalAttention,
    GroupedQueryAttention,
    HyenaOperator,
    IndexedAttention,
    LearnedQueries,
    LinearAttention,
    LinformerAttention,
    MultiHeadLatentAttention,
    MultiTokenAttention,
    SinkAttention,
    SlidingWindowAttention,
    WindowAttention,
    yarn_speeds,
)

B, Q, K, D, H = 3, 5, 7, 12, 3
SOURCE_WORDS, TARGET_WORDS = 13, 11


def heads(attention=None, positions=None):
    return MultiHeadAttention(D, H, 0.0, attention=attention, positions=positions)


def rotary():
    return RotaryEncoding(D // H, speeds=yarn_speeds(D // H, 2, 16))


# Called with queries, keys and values.
ATTENTION = {
    "dot product": lambda: DotProductAttention(0.0),
    "additive": lambda: AdditiveAttention(5, 0.0),
    "linear": LinearAttention,
    "heads": heads,
    "heads, additive": lambda: heads(AdditiveAttention(4, 0.0)),
    "heads, linear": lambda: heads(LinearAttention()),
    "heads, sinks": lambda: heads(SinkAttention(H, 0.0)),
    "grouped": lambda: GroupedQueryAttention(D, H, 1, 0.0),
    "multi-token": lambda: MultiTokenAttention(D, H, 0.0, query_size=2, key_size=3, mix_heads=H),
}
# Called with queries, keys and values of the same tokens.
SELF_ATTENTION = {
    "window": lambda: SlidingWindowAttention(2, 0.0),
    "window with gaps": lambda: SlidingWindowAttention(2, 0.0, dilation=2),
    "window and global": lambda: GlobalLocalAttention(1, 2, 0.0),
    "BigBird": lambda: BigBirdAttention(2, 0, 1, 1, 0.0, seed=0),
    "chosen blocks": lambda: ChosenBlocksAttention(2, 1, 0.0),
    "heads, rotary": lambda: heads(positions=rotary()),
    "heads, ALiBi": lambda: heads(positions=ALiBi(H)),
    "heads, window": lambda: heads(SlidingWindowAttention(1, 0.0)),
    "grouped, rotary": lambda: GroupedQueryAttention(D, H, 1, 0.0, positions=rotary()),
}
LENGTHS = torch.tensor([K, 2, 0])
# Arguments for Q queries: what hides keys, and how much of it there is to hide.
MODES = {
    "plain": lambda Q: {},
    "lengths": lambda Q: {"valid_lens": LENGTHS},
    "lengths by query": lambda Q: {"valid_lens": torch.arange(B * Q).reshape(B, Q) % (K + 1)},
    "mask": lambda Q: {"mask": torch.arange(B * Q * K).reshape(B, Q, K) % 3 > 0},
    "causal": lambda Q: {"is_causal": True},
    "causal, lengths": lambda Q: {"is_causal": True, "valid_lens": LENGTHS},
    "weights": lambda Q: {"need_weights": True, "is_causal": True},
    "weights, lengths": lambda Q: {"need_weights": True, "valid_lens": LENGTHS},
}
# Called with X (B, K, D) and the lengths.
OF_ONE_SEQUENCE = {
    "latent": (lambda: MultiHeadLatentAttention(D, H, 4, 6, 2), {"is_causal": True}),
    "latent, absorbed": (lambda: MultiHeadLatentAttention(D, H, 4, 6, 2), {"absorbed": True}),
    "delta rule": (lambda: GatedDeltaNet(D, H), {"need_state": True}),
    "indexer": (
        lambda: IndexedAttention(D, H, 2, index_heads=2, index_size=3),
        {"is_causal": True, "need_weights": True},
    ),
    "Hyena": (lambda: HyenaOperator(D, 11), {}),
    "learned queries": (lambda: LearnedQueries(Q, D, H, 0.0), {"need_weights": True}),
    "encoder block": (lambda: TransformerEncoderBlock(D, 16, H, 0.0), {}),
    "encoder block, pre-norm": (lambda: TransformerEncoderBlock(D, 16, H, 0.0, pre_norm=True), {}),
}
# What takes nothing but X, and the shape of X.
PLAIN = {
    "sinusoidal": (lambda: PositionalEncoding(D, 0.0, max_len=11), (B, K, D)),
    "learned": (lambda: LearnedPositionalEncoding(D, 0.0, max_len=11), (B, K, D)),
    "network": (lambda: PositionWiseFFN(16, D), (B, K, D)),
    "windows of a map": (lambda: WindowAttention(D, H, 3), (2, 4, 7, D)),
    "windows, shifted": (lambda: WindowAttention(D, H, 3, shift=1), (2, 4, 7, D)),
}
# Called in other ways: each has a test of its own.
APART = {
    "Linformer": lambda: LinformerAttention(D, H, K, 3, 0.0),
    "add and norm": lambda: AddNorm(D, 0.0),
    "decoder block": lambda: TransformerDecoderBlock(D, 16, H, 0.0, 0),
}
# Layers that decode behind a cache.
CACHED = {
    "heads": heads,
    "heads, rotary": lambda: heads(positions=rotary()),
    "heads, ALiBi": lambda: heads(positions=ALiBi(H)),
    "grouped": lambda: GroupedQueryAttention(D, H, 1, 0.0),
    "heads, window": lambda: heads(SlidingWindowAttention(1, 0.0)),
    "heads, sinks": lambda: heads(SinkAttention(H, 0.0)),
}


def gru(decoder, **options):
    return EncoderDecoder(
        Seq2SeqEncoder(SOURCE_WORDS, 4, 6, 2, **options), decoder(TARGET_WORDS, 4, 6, 2)
    )


def transformer(positions=lambda: None, **options):
    """``positions`` makes them for each side: a model of its own has its own."""
    sizes = D, 16, H, 2, 0.0
    return EncoderDecoder(
        TransformerEncoder(SOURCE_WORDS, *sizes, positions=positions(), **options),
        TransformerDecoder(TARGET_WORDS, *sizes, positions=positions(), **options),
    )


MODELS = {
    "seq2seq": lambda: gru(Seq2SeqDecoder),
    "Bahdanau": lambda: gru(Seq2SeqAttentionDecoder, bidirectional=True),
    "Transformer": transformer,
    "Transformer, pre-norm, rotary": lambda: transformer(rotary, pre_norm=True),
    "Transformer, ALiBi": lambda: transformer(lambda: ALiBi(H)),
    "Transformer, learned": lambda: transformer(lambda: LearnedPositionalEncoding(D, 0.0)),
}


def every_part():
    """One of each of the above."""
    tables = ATTENTION, SELF_ATTENTION, APART, CACHED, MODELS
    makers = [make for table in tables for make in table.values()]
    makers += [make for table in (OF_ONE_SEQUENCE, PLAIN) for make, _ in table.values()]
    return [make() for make in makers] + [KeyValueCache()]
