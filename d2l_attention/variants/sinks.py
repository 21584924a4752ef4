"""A place for attention to go when there is nothing to look at: a learned sink in each head."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import check_attention_inputs, check_whole
from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.masks import Masking, zero_hidden_rows


class SinkAttention(DotProductAttention):
    """Scaled dot-product attention whose softmax has one score more, learned, a head.

    weight_j = exp(a_j) / (exp(s) + sum_i exp(a_i)): the weights of a query sum to less than one,
    and a head with nothing to find says (nearly) nothing. With s = -inf it is plain attention.
    A query that may see nothing gets 0, as everywhere.

    Shape: queries (B, H, Q, D), keys (B, H, K, D), values (B, H, K, V), valid_lens (B,) or (B, Q)
    -> (B, H, Q, V); with ``need_weights`` a pair, the second weights (B, H, Q, K), without the
    sink's. ``sinks``, (H,), begins at 0. For ``MultiHeadAttention(attention=...)``.

    Errors: ``ValueError`` where the inputs have another number of heads.

    Source: OpenAI (2025), gpt-oss model card, section 2.2; Xiao et al. (2023), section 3.3, for a
    sink token; Miller (2023), Attention is off by one, for s = 0.
    """

    def __init__(self, num_heads: int, dropout: float):
        super().__init__(dropout)
        check_whole("num_heads", num_heads)
        self.sinks = nn.Parameter(torch.zeros(num_heads))

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        offset: int = 0,
        bias: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_attention_inputs(queries, keys, values, bias, same_size=True)
        if queries.ndim != 4 or queries.shape[1] != len(self.sinks):
            raise ValueError(
                f"queries must have shape (B, {len(self.sinks)}, Q, D), got {tuple(queries.shape)}"
            )
        masking = Masking(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
        # Hide already here: a query that two masks together leave nothing will see the sink.
        queries, keys, values = zero_hidden_rows(queries, keys, values, **masking)
        if mask is not None:
            mask = mask.expand(*mask.shape[:-1], keys.shape[-2])
            mask = torch.cat((mask.any(dim=-1, keepdim=True), mask), dim=-1)
        if bias is not None:
            bias = F.pad(bias.expand(*bias.shape[:-1], keys.shape[-2]), (1, 0))
        # The sink is a key before all others, with value 0, seen by all who see anything. One more
        # column makes its product with every query s; the factor keeps the others what they were,
        # though the scores are now divided by the root of D + 1.
        size = queries.shape[-1]
        scale = ((size + 1) / size) ** 0.5
        queries = F.pad(queries * scale, (0, 1), value=1.0)
        keys = F.pad(keys, (0, 1, 1, 0))
        sink = F.pad((self.sinks * (size + 1) ** 0.5)[:, None, None], (size, 0))  # (H, 1, D + 1)
        keys = torch.cat((sink.to(keys).expand(len(keys), -1, -1, -1), keys[:, :, 1:]), dim=2)
        result = super().forward(
            queries,
            keys,
            F.pad(values, (0, 0, 1, 0)),
            None if valid_lens is None else valid_lens.long() + (valid_lens > 0),
            mask=mask,
            is_causal=is_causal,
            offset=offset + 1,
            bias=bias,
            need_weights=need_weights,
        )
        return (result[0], result[1][..., 1:]) if need_weights else result

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, without the sink's: rows sum to less than one."""
        return super().attention_weights[..., 1:]
