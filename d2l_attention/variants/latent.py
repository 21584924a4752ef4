"""Attention to a small vector a token, from which keys and values of all heads are made."""

import torch
from torch import Tensor, nn

from d2l_attention.attention.cache import KeyValueCache
from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.layers import WeightsOnDemand
from d2l_attention.attention.masks import Visible, check_attention_inputs, check_bool, clear
from d2l_attention.attention.positional import RotaryEncoding
from d2l_attention.attention.projections import LazyLinear, matrix_of
from d2l_attention.variants.grouped import GroupedDotProductAttention


class MultiHeadLatentAttention(WeightsOnDemand):
    """Causal or full self-attention whose cache holds one ``latent_size`` vector a token.

    A token is squeezed to a latent c; keys and values of every head are W_uk c and W_uv c.
    Positions would be lost in between, so each head has ``rotary_size`` numbers more, turned by
    the position, whose keys are shared by all heads. The cache keeps latent and turned key:
    latent_size + rotary_size numbers a token, however many heads there are.

    ``absorbed=True`` never makes keys and values: q . (W_uk c) = (W_uk^T q) . c, so the queries
    are brought to the latents, and W_uv acts after the weights. The numbers are the same. It is
    the way to decode: one latent a token is read, by all heads.

    Shape: X (B, n, any size), valid_lens (B,) or (B, n), mask (n, n), (B, n, n) or (B, H, n, n)
    -> (B, n, num_hiddens); with ``need_weights`` a pair, the second weights (B, H, n, n). With a
    ``cache`` X is the new tokens only, as in ``MultiHeadAttention``.

    The paper also squeezes the queries, and normalises both latents: left out here.

    Errors: ``ValueError`` for a size that is no whole number, or an odd ``rotary_size``.

    Source: DeepSeek-AI (2024), DeepSeek-V2, section 2.1 and appendix C.
    """

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        head_size: int,
        latent_size: int,
        rotary_size: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        sizes = dict(num_hiddens=num_hiddens, num_heads=num_heads, head_size=head_size)
        for name, size in (sizes | dict(latent_size=latent_size)).items():
            check_whole(name, size)
        self.num_heads, self.head_size = num_heads, head_size
        self.W_q = LazyLinear(num_heads * (head_size + rotary_size), bias=False)
        self.W_down = LazyLinear(latent_size, bias=False)
        self.W_kr = LazyLinear(rotary_size, bias=False)
        self.W_uk = nn.Linear(latent_size, num_heads * head_size, bias=False)
        self.W_uv = nn.Linear(latent_size, num_heads * head_size, bias=False)
        self.W_o = nn.Linear(num_heads * head_size, num_hiddens, bias=False)
        self.rotary = RotaryEncoding(rotary_size)
        self.attention = GroupedDotProductAttention(dropout)

    def _weights(self, *last):
        return self.attention._weights(*last)  # (B, H, n, n)

    def forward(
        self,
        X: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        cache: KeyValueCache | None = None,
        absorbed: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_attention_inputs(X, X, X)
        if X.ndim != 3:
            raise ValueError(f"X must have shape (B, n, size), got {tuple(X.shape)}")
        # Check, before a cache grows.
        (B, n, _), offset = X.shape, 0 if cache is None else len(cache)
        if mask is not None:
            check_bool(mask)
            mask = mask[:, None] if mask.ndim == 3 else mask  # one for each of its heads
        shape = (B, self.num_heads, n, offset + n)
        visible = Visible.of(shape, valid_lens, mask, is_causal, offset, X.device)
        # A cache keeps all rows: later queries may see what these may not.
        read = clear(X, visible.unseen) if cache is None else X
        X = clear(X, visible.blind)
        content, turned = (
            self.W_q(X)
            .unflatten(-1, (self.num_heads, -1))
            .transpose(1, 2)
            .split([self.head_size, self.rotary.head_size], dim=-1)
        )  # (B, H, n, head_size), (B, H, n, rotary_size)
        turned = self.rotary.transform(turned, offset=offset)
        latents = self.W_down(read)[:, None]  # (B, 1, n, latent_size)
        turned_keys = self.rotary.transform(self.W_kr(read)[:, None], offset=offset)
        if cache is not None:
            turned_keys, latents = visible.clear_pairs(*cache.append(turned_keys, latents))
        if absorbed:
            W_uk, W_uv = (
                matrix_of(W, latents).unflatten(0, (self.num_heads, -1))
                for W in (self.W_uk, self.W_uv)
            )  # (H, head_size, latent_size) each
            # One head of keys for all; the scores must still be divided by the explicit size.
            queries = with_positions(content @ W_uk, turned)  # (B, H, n, latent_size + rotary_size)
            explicit_size = self.head_size + self.rotary.head_size
            queries = queries * (queries.shape[-1] / explicit_size) ** 0.5
            keys, values = with_positions(latents, turned_keys), latents
        else:
            queries = with_positions(content, turned)  # (B, H, n, head_size + rotary_size)
            turned_keys = turned_keys.expand(-1, self.num_heads, -1, -1)  # shared by the heads
            keys, values = (
                W(latents[:, 0]).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
                for W in (self.W_uk, self.W_uv)
            )  # (B, H, K, head_size) each
            keys = with_positions(keys, turned_keys)
        options = {"visible": visible, "need_weights": need_weights}
        result = self.attention(queries, keys, values, **options)
        output, weights = result if need_weights else (result, None)
        self._last = self.attention._last
        if absorbed:
            output = output @ W_uv.mT  # (B, H, n, latent_size) -> (B, H, n, head_size)
        output = self.W_o(output.transpose(1, 2).flatten(2))
        return output if weights is None else (output, weights)


def with_positions(content: Tensor, turned: Tensor) -> Tensor:
    """What a head knows of a token, then where it is. Shape: (*, a), (*, b) -> (*, a + b)."""
    return torch.cat((content, turned), dim=-1)
