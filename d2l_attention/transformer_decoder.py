"""The Transformer's decoder, for training and for one token at a time (D2L 11.7.5).

Letters in the ``Shape`` lines: B batch, S source tokens, T target tokens, D ``num_hiddens``,
H heads, N target vocabulary.
"""

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from d2l_attention.cache import KeyValueCache
from d2l_attention.masks import length_mask
from d2l_attention.multi_head import MultiHeadAttention
from d2l_attention.positional import Positions
from d2l_attention.transformer import (
    AddNorm,
    PositionWiseFFN,
    Stack,
    check_vectors,
    make_parameters,
)
from d2l_attention.visibility import clear


class BlockCache(NamedTuple):
    """Keys and values of one decoder block: of the target so far, and of the source."""

    target: KeyValueCache
    source: KeyValueCache


class TransformerDecoderBlock(nn.Module):
    """Causal self-attention, attention to the source, then a network for each token (D2L 11.7.5).

    Shape: X (B, T, D), state [encoder outputs (B, S, D), lengths (B,) or None, a list with the
    caches of every block, of which this is number ``i``, ``None`` before its first token]
    -> (B, T, D), new state; with ``need_weights`` also the weights on the source (B, H, T, S).

    The future is hidden always, not in training alone: the tokens of X may be all of a sentence
    or the next one. The state that was passed in stays as it was.
    """

    def __init__(
        self,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        i: int,
        *,
        pre_norm: bool = False,
        positions: Positions | None = None,
    ):
        super().__init__()
        self.num_hiddens, self.i = num_hiddens, i
        # The distance between a target and a source position means nothing: no positions there.
        self.attention1 = MultiHeadAttention(num_hiddens, num_heads, dropout, positions=positions)
        self.addnorm1 = AddNorm(num_hiddens, dropout, pre_norm=pre_norm)
        self.attention2 = MultiHeadAttention(num_hiddens, num_heads, dropout)
        self.addnorm2 = AddNorm(num_hiddens, dropout, pre_norm=pre_norm)
        self.ffn = PositionWiseFFN(ffn_num_hiddens, num_hiddens)
        self.addnorm3 = AddNorm(num_hiddens, dropout, pre_norm=pre_norm)
        make_parameters(self, num_hiddens)

    def forward(self, X: Tensor, state: list, *, need_weights: bool = False) -> tuple:
        check_vectors("X", X, self.num_hiddens)
        enc_outputs, enc_valid_lens, caches = state
        if caches[self.i] is None:
            target, source, sentences = KeyValueCache(), KeyValueCache(), enc_outputs
        else:
            # Each call adds to its own copy; the source was projected by the first.
            target, source, sentences = *map(copy.copy, caches[self.i]), None

        Y = self.addnorm1.before(X)
        X = self.addnorm1(X, self.attention1(Y, Y, Y, is_causal=True, cache=target))
        result = self.attention2(
            self.addnorm2.before(X),
            sentences,
            sentences,
            enc_valid_lens,
            cache=source,
            need_weights=need_weights,
        )
        Y, *weights = result if need_weights else (result,)
        X = self.addnorm2(X, Y)
        X = self.addnorm3(X, self.ffn(self.addnorm3.before(X)))
        caches = [*caches[: self.i], BlockCache(target, source), *caches[self.i + 1 :]]
        return X, [enc_outputs, enc_valid_lens, caches], *weights


class TransformerDecoder(Stack):
    """Target tokens, each from those before it and from the source (D2L 11.7.5).

    Shape: X (B, T) token indices, state from ``init_state`` -> logits (B, T, N), new state; with
    ``need_weights`` also weights (B, T, S), with gradient: those of the last block on the source,
    the mean over its heads.

    One path for training and decoding: the state holds keys and values of the tokens so far, so
    a token passes through the decoder once. ``pre_norm`` and ``positions`` as in the encoder.
    """

    def __init__(
        self,
        vocab_size: int,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_blks: int,
        dropout: float,
        *,
        pre_norm: bool = False,
        positions: Positions | None = None,
    ):
        super().__init__(vocab_size, num_hiddens, num_blks, dropout, pre_norm, positions)
        sizes = (num_hiddens, ffn_num_hiddens, num_heads, dropout)
        for i in range(num_blks):
            block = TransformerDecoderBlock(*sizes, i, pre_norm=pre_norm, positions=positions)
            self.blks.add_module(f"block{i}", block)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(self, enc_outputs: Tensor, enc_valid_lens: Tensor | None = None) -> list:
        """[encoder outputs (B, S, D), lengths (B,) or None, no caches for any block yet]."""
        check_vectors("enc_outputs", enc_outputs, self.num_hiddens)
        if enc_valid_lens is not None:
            real = length_mask(enc_valid_lens, enc_outputs.shape[1])[:, 0]
            # Padding is projected with the rest: 0 times NaN would reach the gradients.
            enc_outputs = clear(enc_outputs, real)
            # Nothing is padded, as with one sentence: then no step needs a mask.
            if not torch.compiler.is_compiling() and real.all():
                enc_valid_lens = None
        return [enc_outputs, enc_valid_lens, [None] * len(self.blks)]

    def forward(self, X: Tensor, state: list, *, need_weights: bool = False) -> tuple:
        so_far = state[-1][0]
        if len(X) != len(state[0]):
            raise ValueError(
                f"X must have as many rows as the state, {len(state[0])}, got {len(X)}"
            )
        X = self.embed(X, offset=0 if so_far is None else len(so_far.target))
        *first, last = self.blks
        for block in first:
            X, state = block(X, state)
        X, state, *weights = last(X, state, need_weights=need_weights)
        logits = self.dense(self.ln(X))
        return (logits, state, weights[0].mean(dim=1)) if need_weights else (logits, state)

    def select(self, state: list, index: Tensor) -> list:
        """The state of these sentences of the batch, in this order."""
        enc_outputs, enc_valid_lens, caches = state
        return [
            enc_outputs[index],
            None if enc_valid_lens is None else enc_valid_lens[index],
            [
                None if cache is None else BlockCache(*(part.select(index) for part in cache))
                for cache in caches
            ],
        ]

    @property
    def attention_weights(self) -> Tensor:
        """Of the last forward pass, on the source, (B, T, S): last block, mean over its heads.

        The book's attribute of this name is ``[self_attention_weights, cross_attention_weights]``.
        """
        return self.cross_attention_weights[-1].mean(dim=1)

    @property
    def self_attention_weights(self) -> list[Tensor]:
        """Of the last forward pass on the target so far, one (B, H, T, keys) a block."""
        return [block.attention1.attention_weights for block in self.blks]

    @property
    def cross_attention_weights(self) -> list[Tensor]:
        """Of the last forward pass on the source, one (B, H, T, S) a block."""
        return [block.attention2.attention_weights for block in self.blks]
