"""The Transformer: encoder and decoder as stacks of blocks (D2L 11.7.4 and 11.7.5).

Letters in the ``Shape`` lines: B batch, S source tokens, T target tokens, D ``num_hiddens``,
H heads, N target vocabulary.
"""

import math
from typing import Any

from torch import Tensor, nn

from d2l_attention.attention.checks import check_dropout
from d2l_attention.attention.masks import Visible, is_free_to_read, real_tokens, zero_rows
from d2l_attention.attention.positional import AddedPositions, PositionalEncoding, Positions
from d2l_attention.models.checks import check_rows, check_tokens
from d2l_attention.models.transformer_blocks import (
    BlockCache,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
    check_vectors,
)


class _Layers(nn.Module):
    """What encoder and decoder share: embedded tokens, their positions, blocks, a last norm."""

    def __init__(
        self,
        vocab_size: int,
        num_hiddens: int,
        num_blks: int,
        dropout: float,
        pre_norm: bool,
        positions: Positions | None,
    ):
        if num_blks < 1:
            raise ValueError(f"num_blks must be 1 or more, got {num_blks}")
        super().__init__()
        self.num_hiddens = num_hiddens
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        # Times sqrt(D), below, that is about 1, as large as the positions. PyTorch's own start,
        # sqrt(D) times as large, would drown them: 60 BLEU instead of 96 on the course's corpus.
        nn.init.normal_(self.embedding.weight, std=num_hiddens**-0.5)
        if positions is None:  # a module with a length may be empty, and not true
            positions = PositionalEncoding(num_hiddens, dropout)
        self.pos_encoding = positions
        # Positions that are added drop out the sum themselves, and never twice.
        own = isinstance(self.pos_encoding, AddedPositions)
        self.dropout = nn.Identity() if own else nn.Dropout(check_dropout(dropout))
        self.blks: Any = nn.Sequential()  # Any: what its blocks can do is not Sequential's to say
        # Post-norm blocks end on a layer norm of their own.
        self.ln = nn.LayerNorm(num_hiddens) if pre_norm else nn.Identity()

    def embed(self, X: Tensor, *, offset: int = 0) -> Tensor:
        """Tokens (B, n), the first of them at position ``offset`` -> (B, n, D)."""
        check_tokens("X", X)
        # Times sqrt(D), as in the paper's section 3.4 and in the book.
        embedded = self.embedding(X) * math.sqrt(self.num_hiddens)
        return self.dropout(self.pos_encoding(embedded, offset=offset))


class TransformerEncoder(_Layers):
    """Source tokens to vectors that know their sentence (D2L 11.7.4).

    Shape: X (B, S) token numbers, valid_lens (B,) -> (B, S, D).

    ``pre_norm``: see ``AddNorm``. ``positions``: sinusoidal unless given; they act on the
    embeddings and in every self-attention. ``dropout`` falls on the embeddings, too, whatever the
    positions; only ``AddedPositions`` that are given bring their own.

    Source: Vaswani et al. (2017), section 3.
    """

    def __init__(
        self,
        vocab_size: int,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_blks: int,
        dropout: float,
        use_bias: bool = False,
        *,
        pre_norm: bool = False,
        positions: Positions | None = None,
    ):
        super().__init__(vocab_size, num_hiddens, num_blks, dropout, pre_norm, positions)
        sizes = (num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias)
        for i in range(num_blks):
            block = TransformerEncoderBlock(*sizes, pre_norm=pre_norm, positions=positions)
            self.blks.add_module(f"block{i}", block)

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        X = self.embed(X)
        scores_shape = (*X.shape[:2], X.shape[1])
        padding = Visible.of(scores_shape, valid_lens, device=X.device).unseen
        if padding is not None:
            # Padding is no key, but it is a query: NaN there would reach the gradients.
            X = X.masked_fill(padding & ~X.isfinite(), 0.0)
        for block in self.blks:
            X = block(X, valid_lens)
        return self.ln(X)

    @property
    def attention_weights(self) -> list[Tensor]:
        """Of the last forward pass, one (B, H, S, S) a block: see ``AttentionLayer``."""
        return [block.attention.attention_weights for block in self.blks]


class TransformerDecoder(_Layers):
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
            real = real_tokens(enc_valid_lens, enc_outputs.shape[:2])  # (B, S)
            # Padding is projected with the rest: 0 times NaN would reach the gradients.
            enc_outputs = zero_rows(enc_outputs, real)
            # Nothing is padded, as with one sentence: then no step needs a mask.
            some = not (is_free_to_read(real) and real.all())
            enc_valid_lens = enc_valid_lens.clone() if some else None
        return [enc_outputs, enc_valid_lens, [None] * len(self.blks)]

    def forward(self, X: Tensor, state: list, *, need_weights: bool = False) -> tuple:
        so_far = state[-1][0]
        X = self.embed(X, offset=0 if so_far is None else len(so_far.target))
        check_rows(X, len(state[0]))
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
