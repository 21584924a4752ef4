"""A place for attention to go when there is nothing to look at: a learned sink in each head."""

import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.masks import Visible


class SinkAttention(DotProductAttention):
    """Scaled dot-product attention whose softmax has one score more, learned, a head.

    weight_j = exp(a_j) / (exp(s) + sum_i exp(a_i)): the weights of a query sum to less than one,
    and a head with nothing to find says (nearly) nothing. With s = -inf it is plain attention.
    A query that may see nothing gets 0, as everywhere.

    Shape: queries (B, H, Q, D), keys (B, H, K, D), values (B, H, K, V), valid_lens (B,) or (B, Q)
    -> (B, H, Q, V); with ``need_weights`` a pair, the second weights (B, H, Q, K), without the
    sink's. ``sinks``, (H,), begins at 0. For ``MultiHeadAttention(attention=...)``. Whatever hides
    keys becomes a mask (Q, K) here, ``is_causal`` too.

    Errors: ``ValueError`` where the inputs have another number of heads, or heads of size 0.

    Source: OpenAI (2025), gpt-oss model card, section 2.2; Xiao et al. (2023), section 3.3, for a
    sink token; Miller (2023), Attention is off by one, for s = 0.
    """

    def __init__(self, num_heads: int, dropout: float):
        super().__init__(dropout)
        check_whole("num_heads", num_heads)
        self.sinks = nn.Parameter(torch.zeros(num_heads))

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        if queries.ndim != 4 or queries.shape[1] != len(self.sinks) or not queries.shape[3]:
            raise ValueError(
                f"queries must have shape (B, {len(self.sinks)}, Q, D), D from 1 on, "
                f"got {tuple(queries.shape)}"
            )
        num_queries, num_keys, size = queries.shape[2], keys.shape[2], queries.shape[3]
        # All who see anything see the sink.
        hidden = visible.hidden_and_future((num_queries, num_keys), queries.device)
        if hidden is not None:
            hidden = hidden.expand(*hidden.shape[:-1], num_keys)
            hidden = torch.cat((hidden.all(dim=-1, keepdim=True), hidden), dim=-1)
        elif visible.blind is not None:  # there are no keys
            hidden = visible.blind
        if bias is not None:
            bias = F.pad(bias.expand(*bias.shape[:-1], num_keys), (1, 0))
        # The sink is a key before all others, with value 0. Every query ends in 1, and the sink's
        # key is (0, ..., 0, s sqrt(D + 1)), so their score is s; the factor undoes the larger root
        # for the real keys.
        scale = ((size + 1) / size) ** 0.5
        queries = F.pad(queries * scale, (0, 1), value=1.0)
        sink = F.pad((self.sinks * (size + 1) ** 0.5)[:, None, None], (size, 0))  # (H, 1, D + 1)
        sink = sink.to(keys).expand(len(keys), -1, -1, -1)
        keys = torch.cat((sink, F.pad(keys, (0, 1))), dim=2)
        values = F.pad(values, (0, 0, 1, 0))
        beside = Visible(hidden=hidden, blind=visible.blind)
        output, weights = super().attend(queries, keys, values, beside, bias, need_weights)
        return output, None if weights is None else weights[..., 1:]

    def _weights(self, *last):
        return super()._weights(*last)[..., 1:]  # without the sink's
