"""Queries that are learned, not read: each is a question to the whole image, as in DETR."""

import torch
from torch import Tensor, nn

from d2l_attention.attention.checks import check_floats, check_whole
from d2l_attention.attention.multi_head import MultiHeadAttention


class LearnedQueries(nn.Module):
    """Cross-attention of ``num_queries`` learned vectors to a memory.

    Shape: memory (B, K, any size), valid_lens (B,), mask (K,) or (B, 1, K)
    -> (B, num_queries, num_hiddens); with ``need_weights`` a pair, the second weights
    (B, H, num_queries, K).

    The number of outputs does not depend on the size of the memory, and the cost grows with
    K alone. The queries have no order: exchange two, and their outputs change places.

    Errors: ``ValueError`` unless ``num_queries`` is a whole number from 1.

    Source: Carion et al. (2020), section 3.2, 'object queries'.
    """

    def __init__(self, num_queries: int, num_hiddens: int, num_heads: int, dropout: float):
        super().__init__()
        check_whole("num_queries", num_queries)
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout)
        self.queries = nn.Parameter(torch.randn(num_queries, num_hiddens))

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, (B, H, num_queries, K): see ``AttentionLayer``."""
        return self.attention.attention_weights

    def forward(
        self,
        memory: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_floats("memory", memory)
        if memory.ndim != 3:
            raise ValueError(f"memory must have shape (B, K, size), got {tuple(memory.shape)}")
        queries = self.queries.expand(len(memory), -1, -1)
        return self.attention(
            queries, memory, memory, valid_lens, mask=mask, need_weights=need_weights
        )
