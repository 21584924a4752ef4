"""The gated delta rule as Qwen3-Next has it: convolutions before it, fewer heads of keys."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import check_floats
from d2l_attention.attention.masks import real_tokens, zero_rows
from d2l_attention.variants.delta_rule import delta_rule
from d2l_attention.variants.grouped import repeat_heads


class ConvolvedDeltaNet(nn.Module):
    """``GatedDeltaNet`` and what its short form in this course leaves out.

    The rule itself is ``delta_rule``. More than in ``GatedDeltaNet``: a causal convolution over
    the last few tokens, for each column alone, before queries, keys and values; heads of values
    that share a head of queries and keys; a learned rate for each head's decay; queries that are
    divided by the root of their size.

    Shape: X (B, n, any size), valid_lens (B,) -> (B, n, num_hiddens).

    Its weights come from ``layer_from``. Source: Yang et al. (2025), Gated Delta Networks, section
    3.4; the layer ``Qwen3NextGatedDeltaNet`` of the ``transformers`` library.
    """

    def __init__(
        self,
        projections: dict[str, nn.Linear],
        convolution: Tensor,
        log_rates: Tensor,
        norm: nn.RMSNorm,
        num_key_heads: int,
    ):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (projections[name] for name in ("q", "k", "v"))
        self.W_gate, self.W_beta, self.W_decay = (projections[n] for n in ("gate", "beta", "decay"))
        self.W_o = projections["o"]
        self.convolution = nn.Parameter(convolution)  # (columns of q, k and v, 1, tokens)
        self.log_rates = nn.Parameter(log_rates)  # (H,)
        self.norm = norm
        self.num_key_heads, self.num_heads = num_key_heads, len(log_rates)

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        check_floats("X", X)
        if valid_lens is not None:
            X = zero_rows(X, real_tokens(valid_lens, X.shape[:2]))
        queries, keys, values = self.look_back(X)  # (B, G, n, d) twice, (B, H, n, v)
        queries, keys = (lengthen_to_one(Y) for Y in (queries, keys))
        queries, keys = (repeat_heads(Y, self.num_heads) for Y in (queries, keys))
        wide = torch.promote_types(X.dtype, torch.float32)  # as in ``GatedDeltaNet``
        beta = self.W_beta(X).to(wide).sigmoid().mT  # (B, H, n)
        rates = self.log_rates.to(wide).exp()
        decay = (-rates * F.softplus(self.W_decay(X).to(wide))).exp().mT
        queries = queries / queries.shape[-1] ** 0.5
        output, _ = delta_rule(queries, keys, values, beta, decay, valid_lens)  # (B, H, n, v)
        gate = self.W_gate(X).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        # The norm in the precision of its weights, mixed precision or not.
        output = self.norm(output.to(self.norm.weight)) * F.silu(gate)
        return self.W_o(output.transpose(1, 2).flatten(2))

    def look_back(self, X: Tensor) -> list[Tensor]:
        """Queries, keys and values, each column mixed with its own last few tokens."""
        parts = [W(X) for W in (self.W_q, self.W_k, self.W_v)]
        mixed = torch.cat(parts, dim=-1).mT  # (B, columns, n)
        before = self.convolution.shape[-1] - 1
        mixed = F.conv1d(F.pad(mixed, (before, 0)), self.convolution, groups=len(self.convolution))
        parts = F.silu(mixed.mT).split([part.shape[-1] for part in parts], dim=-1)
        heads = self.num_key_heads, self.num_key_heads, self.num_heads
        return [
            part.unflatten(-1, (number, -1)).transpose(1, 2)
            for part, number in zip(parts, heads, strict=True)
        ]


def lengthen_to_one(X: Tensor) -> Tensor:
    """Each row divided by its length, with the library's guard against a length of 0."""
    return X * torch.rsqrt(X.square().sum(dim=-1, keepdim=True) + 1e-6)
