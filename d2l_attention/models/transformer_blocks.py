"""The Transformer's blocks: attention, a network for each token, residuals, layer norm (D2L 11.7).

Letters in the ``Shape`` lines: B batch, S source tokens, T target tokens, D ``num_hiddens``,
H heads.
"""

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from d2l_attention.attention.cache import KeyValueCache
from d2l_attention.attention.checks import check_dropout
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.positional import Positions
from d2l_attention.attention.projections import LazyLinear


class PositionWiseFFN(nn.Module):
    """Two linear layers with a ReLU between them, the same for every token (D2L 11.7.2).

    Shape: X (*, any size) -> (*, ffn_num_outputs).

    Source: Vaswani et al. (2017), equation 2.
    """

    def __init__(self, ffn_num_hiddens: int, ffn_num_outputs: int):
        super().__init__()
        self.dense1 = LazyLinear(ffn_num_hiddens)
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
        materialize(self, num_hiddens)

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        check_vectors("X", X, self.num_hiddens)
        Y = self.addnorm1.before(X)
        X = self.addnorm1(X, self.attention(Y, Y, Y, valid_lens))
        return self.addnorm2(X, self.ffn(self.addnorm2.before(X)))


def materialize(block: nn.Module, num_hiddens: int) -> None:
    """Give lazy layers their input size now: an optimizer is made before the first batch."""
    for layer in list(block.modules()):
        if isinstance(layer, nn.LazyLinear):
            layer(torch.zeros(1, num_hiddens))


def check_vectors(name: str, X: Tensor, num_hiddens: int) -> None:
    """Raise unless the argument ``name`` is a batch of sequences of vectors, (B, n, D)."""
    if X.ndim != 3 or X.shape[-1] != num_hiddens:
        raise ValueError(f"{name} must have shape (B, n, {num_hiddens}), got {tuple(X.shape)}")


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
        materialize(self, num_hiddens)

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
