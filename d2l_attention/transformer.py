"""The Transformer's encoder: attention, a network for each token, residuals, layer norm (D2L 11.7).

Letters in the ``Shape`` lines: B batch, S source tokens, D ``num_hiddens``, H heads.
"""

import math

import torch
from torch import Tensor, nn

from d2l_attention.checks import check_dropout
from d2l_attention.masks import attention_mask
from d2l_attention.multi_head import MultiHeadAttention
from d2l_attention.positional import PositionalEncoding, Positions


class PositionWiseFFN(nn.Module):
    """Two linear layers with a ReLU between them, the same for every token (D2L 11.7.2).

    Shape: X (*, any size) -> (*, ffn_num_outputs).

    Source: Vaswani et al. (2017), equation 2.
    """

    def __init__(self, ffn_num_hiddens: int, ffn_num_outputs: int):
        super().__init__()
        self.dense1 = nn.LazyLinear(ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, ffn_num_outputs)

    def forward(self, X: Tensor) -> Tensor:
        return self.dense2(self.relu(self.dense1(X)))


class AddNorm(nn.Module):
    """A residual connection and layer normalisation around a sublayer f (D2L 11.7.3).

    Post-norm, the paper's: ``ln(X + f(X))``, so call the layer on X and Y = f(X).
    Pre-norm: ``X + f(ln(X))``, so call it on X and Y = f(before(X)). The sum is then never
    normalised: a stack of such layers needs a layer norm at its end.

    Shape: X and Y of one shape, (*, norm_shape) -> the same. Dropout falls on Y.

    Source: Vaswani et al. (2017), section 3.1; Xiong et al. (2020), section 3.
    """

    def __init__(self, norm_shape: int | list[int], dropout: float, *, pre_norm: bool = False):
        super().__init__()
        self.dropout = nn.Dropout(check_dropout(dropout))
        self.ln = nn.LayerNorm(norm_shape)
        self.pre_norm = pre_norm

    def before(self, X: Tensor) -> Tensor:
        """What the sublayer gets to see: X, or with ``pre_norm`` the normalised X."""
        return self.ln(X) if self.pre_norm else X

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        if X.shape != Y.shape:
            raise ValueError(
                f"X and Y must have one shape to be added, got {tuple(X.shape)} and "
                f"{tuple(Y.shape)}"
            )
        total = X + self.dropout(Y)
        return total if self.pre_norm else self.ln(total)


class TransformerEncoderBlock(nn.Module):
    """Self-attention, then a network for each token (D2L 11.7.4).

    Shape: X (B, S, D), valid_lens (B,) or (B, S) -> (B, S, D).
    """

    def __init__(
        self,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        use_bias: bool = False,
        *,
        pre_norm: bool = False,
        positions: Positions | None = None,
    ):
        super().__init__()
        self.num_hiddens = num_hiddens
        self.attention = MultiHeadAttention(
            num_hiddens, num_heads, dropout, use_bias, positions=positions
        )
        self.addnorm1 = AddNorm(num_hiddens, dropout, pre_norm=pre_norm)
        self.ffn = PositionWiseFFN(ffn_num_hiddens, num_hiddens)
        self.addnorm2 = AddNorm(num_hiddens, dropout, pre_norm=pre_norm)
        make_parameters(self, num_hiddens)

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        check_vectors("X", X, self.num_hiddens)
        Y = self.addnorm1.before(X)
        X = self.addnorm1(X, self.attention(Y, Y, Y, valid_lens))
        return self.addnorm2(X, self.ffn(self.addnorm2.before(X)))


class Stack(nn.Module):
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
        self.pos_encoding = positions or PositionalEncoding(num_hiddens, dropout)
        self.blks = nn.Sequential()
        # Post-norm blocks end on a layer norm of their own.
        self.ln = nn.LayerNorm(num_hiddens) if pre_norm else nn.Identity()

    def embed(self, X: Tensor, *, offset: int = 0) -> Tensor:
        """Tokens (B, n), the first of them at position ``offset`` -> (B, n, D)."""
        if X.is_floating_point() or X.ndim != 2:
            raise ValueError(
                f"X must hold token numbers, (B, n), got {X.dtype} of shape {tuple(X.shape)}"
            )
        # Times sqrt(D), as in the paper's section 3.4 and in the book.
        return self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens), offset=offset)


class TransformerEncoder(Stack):
    """Source tokens to vectors that know their sentence (D2L 11.7.4).

    Shape: X (B, S) token numbers, valid_lens (B,) -> (B, S, D).

    ``pre_norm``: see ``AddNorm``. ``positions``: sinusoidal unless given; they act on the
    embeddings and in every self-attention.

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
        visible = attention_mask((*X.shape, X.shape[-1]), valid_lens)
        X = self.embed(X)
        if visible is not None:
            # Padding is no key, but it is a query: NaN there would reach the gradients.
            seen = visible.any(dim=-2)[..., None]
            X = X.masked_fill(~(seen | X.isfinite()), 0.0)
        for block in self.blks:
            X = block(X, valid_lens)
        return self.ln(X)

    @property
    def attention_weights(self) -> list[Tensor]:
        """Of the last forward pass, one (B, H, S, S) a block: see ``AttentionLayer``."""
        return [block.attention.attention_weights for block in self.blks]


def make_parameters(block: nn.Module, num_hiddens: int) -> None:
    """Give lazy layers their input size now: an optimizer is made before the first batch."""
    for layer in list(block.modules()):
        if isinstance(layer, nn.LazyLinear):
            layer(torch.zeros(1, num_hiddens))


def check_vectors(name: str, X: Tensor, num_hiddens: int) -> None:
    """Raise unless the argument ``name`` is a batch of sequences of vectors, (B, n, D)."""
    if X.ndim != 3 or X.shape[-1] != num_hiddens:
        raise ValueError(f"{name} must have shape (B, n, {num_hiddens}), got {tuple(X.shape)}")
