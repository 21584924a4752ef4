"""Scores that depend on their neighbours: convolutions over queries, keys and heads."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import check_divides, check_heads, check_whole
from d2l_attention.attention.layers import AttentionLayer
from d2l_attention.attention.masks import masked_softmax
from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.scores import scaled_dot_score


class MultiTokenDotProductAttention(AttentionLayer):
    """Attention whose scores are convolved, and whose weights are mixed over the heads.

    ``kernel`` (H, query_size, key_size): the last row belongs to the query itself, the rows above
    to those before it; the middle column to the key itself, the others to its neighbours.
    ``mix`` (H / mix_heads, mix_heads, mix_heads): the weights of a head are a sum over its group.

    Shape: queries (B, H, Q, D), keys (B, H, K, D), values (B, H, K, V) -> (B, H, Q, V).
    """

    def __init__(
        self, num_heads: int, dropout: float, query_size: int, key_size: int, mix_heads: int
    ):
        super().__init__(dropout)
        kernel = torch.zeros(num_heads, query_size, key_size)
        kernel[:, -1, (key_size - 1) // 2] = 1.0  # begins as plain attention
        self.kernel = nn.Parameter(kernel)
        self.mix = nn.Parameter(torch.eye(mix_heads).repeat(num_heads // mix_heads, 1, 1))

    def attend(self, queries, keys, values, visible, bias=None, need_weights=False):
        if bias is not None:
            raise ValueError("multi-token attention takes no bias: leave positions out")
        # An optimizer changes the two in place: the weights of this pass need copies.
        copies = (X.to(queries.dtype, copy=True) for X in (self.kernel, self.mix))
        self._remember(queries, keys, *copies, visible=visible, bias=None)
        mask = visible.as_mask((queries.shape[2], keys.shape[2]), queries.device)
        weights = multi_token_weights(queries, keys, self.kernel, self.mix, mask)
        return self.dropout(weights) @ values, weights if need_weights else None

    def _weights(self, inputs, visible, bias):
        queries, keys, *learned = inputs
        mask = visible.as_mask((queries.shape[2], keys.shape[2]), queries.device)
        return multi_token_weights(queries, keys, *learned, mask)


class MultiTokenAttention(MultiHeadAttention):
    """Multi-head attention in which several queries, keys and heads decide on a weight together.

    Before the softmax a kernel of (query_size, key_size), one for each head, adds up the scores
    of the query and of those before it, for the key and its neighbours on both sides. After
    it the weights of ``mix_heads`` heads are mixed. A new layer has identity kernels, and is
    plain multi-head attention.

    Shape: as ``MultiHeadAttention``. The weights, (B, H, Q, K), are those after mixing: a row
    need not sum to one, and may hold negative numbers.

    What a query may not see is 0 before the convolution and hidden again after it, so that
    no score of the future, or of padding behind the text, enters a sum. The queries before a query
    count, whoever they are: texts packed into one sequence and padding before the text do mix. Both
    steps need all scores at once: O(n^2) in memory, without the fused kernel. There is no cache,
    because the scores of earlier queries would have to be kept as well.

    Errors: ``ValueError`` unless ``mix_heads`` divides ``num_heads`` and all sizes are from 1.

    Source: Golovneva et al. (2025), 'Multi-Token Attention', section 3, without its group
    normalisation.
    """

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float,
        *,
        query_size: int,
        key_size: int,
        mix_heads: int,
    ):
        check_heads(num_hiddens, num_heads)
        sizes = {"query_size": query_size, "key_size": key_size, "mix_heads": mix_heads}
        for name, size in sizes.items():
            check_whole(name, size)
        check_divides("mix_heads", mix_heads, "num_heads", num_heads)
        pooling = MultiTokenDotProductAttention(num_heads, dropout, **sizes)
        super().__init__(num_hiddens, num_heads, 0.0, attention=pooling)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        return super().forward(
            queries,
            keys,
            values,
            valid_lens,
            mask=mask,
            is_causal=is_causal,
            need_weights=need_weights,
        )


def multi_token_weights(
    queries: Tensor, keys: Tensor, kernel: Tensor, mix: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Score, convolve, softmax, mix.

    Shape: queries (B, H, Q, D), keys (B, H, K, D), kernel (H, query_size, key_size), mix (groups,
    mix_heads, mix_heads), mask bool, True = may attend -> (B, H, Q, K).
    """
    scores = scaled_dot_score(queries, keys)
    scores = scores if mask is None else scores.masked_fill(~mask, 0.0)
    weights = masked_softmax(key_query_convolution(scores, kernel), mask=mask)
    weights = mix_over_heads(weights, mix)
    # Another head of the group may have seen what is hidden from this one.
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def key_query_convolution(scores: Tensor, kernel: Tensor) -> Tensor:
    """Each score becomes a sum over earlier queries and neighbouring keys, head by head.

    Shape: scores (B, H, Q, K), kernel (H, query_size, key_size) -> (B, H, Q, K). Outside the
    matrix the scores are 0.
    """
    heads, query_size, key_size = kernel.shape
    if scores.numel() == 0:
        return scores
    before = (key_size - 1) // 2
    scores = F.pad(scores, (before, key_size - 1 - before, query_size - 1, 0))
    return F.conv2d(scores, kernel[:, None], groups=heads)


def mix_over_heads(weights: Tensor, mix: Tensor) -> Tensor:
    """Each head's weights become a sum over the heads of its group.

    Shape: weights (B, H, Q, K), mix (groups, mix_heads, mix_heads) -> (B, H, Q, K).
    """
    groups = weights.unflatten(1, mix.shape[:2])  # (B, groups, mix_heads, Q, K)
    return torch.einsum("gab,ngbqk->ngaqk", mix, groups).flatten(1, 2)
