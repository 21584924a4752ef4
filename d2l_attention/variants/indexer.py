"""Tokens chosen by content: a cheap scorer picks the few keys that each query then attends to."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.masks import attention_mask
from d2l_attention.attention.multi_head import MultiHeadAttention


class Indexer(nn.Module):
    """Cheap scores for all pairs: few small heads with one key a token, a ReLU, one sum.

    I(t, s) = sum over heads h of w_h(x_t) ReLU(q_h(x_t) . k(x_s)) / sqrt(d). The weights w_h come
    from the asking token. There is no softmax: only the order of the scores counts.

    Shape: X (B, n, num_hiddens) -> scores (B, n, n), row t for query t.

    Source: DeepSeek-AI (2025), DeepSeek-V3.2, equation 1 (the lightning indexer).
    """

    def __init__(self, num_hiddens: int, num_heads: int, head_size: int):
        super().__init__()
        check_whole("num_heads", num_heads)
        check_whole("head_size", head_size)
        self.num_heads, self.head_size = num_heads, head_size
        self.W_q = nn.Linear(num_hiddens, num_heads * head_size, bias=False)
        self.W_k = nn.Linear(num_hiddens, head_size, bias=False)
        self.W_w = nn.Linear(num_hiddens, num_heads, bias=False)

    def forward(self, X: Tensor) -> Tensor:
        queries = self.W_q(X).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, n, d)
        keys = self.W_k(X)[:, None]  # (B, 1, n, d): the same for all heads
        # Divided before the product, so that half precision does not overflow in it.
        products = (queries / self.head_size**0.5 @ keys.mT).relu()  # (B, H, n, n)
        return (self.W_w(X).mT[..., None] * products).sum(dim=1)  # (B, n, n)


def best_keys(scores: Tensor, visible: Tensor | None, num_chosen: int) -> Tensor:
    """The ``num_chosen`` visible keys of each query with the best scores, as a mask.

    A query that sees fewer keys gets all of them. Of equal scores, which a ReLU often makes, the
    earlier key is taken, on every device.

    Shape: scores (*, Q, K), visible bool, broadcastable to it, or ``None`` for all -> bool
    (*, Q, K).
    """
    num_chosen = min(check_whole("num_chosen", num_chosen), scores.shape[-1])
    if visible is None:
        visible = torch.ones_like(scores, dtype=torch.bool)
    visible = visible.expand(scores.shape)
    # A score may be -inf itself, in half precision by overflow: what is hidden is still below it.
    scores = scores.clamp_min(torch.finfo(scores.dtype).min).masked_fill(~visible, -torch.inf)
    best = scores.argsort(dim=-1, descending=True, stable=True)[..., :num_chosen]
    return torch.zeros_like(visible).scatter(-1, best, True) & visible


def follow_loss(scores: Tensor, weights: Tensor, visible: Tensor | None = None) -> Tensor:
    """How far the softmax of an indexer's scores is from the attention that it is to follow.

    The mean over the queries of KL(p || softmax(scores)), where p is the mean of the heads'
    weights. No gradient reaches the attention. Queries that see nothing do not count.

    Shape: scores (B, n, n), weights (B, H, n, n), visible bool (B, n, n) or ``None`` -> ().

    Source: DeepSeek-AI (2025), DeepSeek-V3.2, equation 3.
    """
    wide = torch.promote_types(scores.dtype, torch.float32)  # a half's logarithm would be -inf
    scores, wanted = scores.to(wide), weights.detach().to(wide).mean(dim=1)  # (B, n, n)
    if visible is not None:
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    each = F.kl_div(scores.log_softmax(dim=-1), wanted, reduction="none").sum(dim=-1)  # (B, n)
    asks = wanted.sum(dim=-1) > 0
    return (each * asks).sum() / asks.sum().clamp_min(1)


class IndexedAttention(nn.Module):
    """Multi-head self-attention in which each query attends to the keys that its indexer chose.

    With ``num_chosen`` as large as the text it is ``MultiHeadAttention``. Here the choice becomes
    a mask (B, n, n), which shows what is read and saves nothing; a kernel that gathers the chosen
    keys saves the rest. ``chosen`` takes the choice of another layer instead: then the indexer is
    not asked.

    Shape: X (B, n, num_hiddens), valid_lens (B,) or (B, n), mask and chosen bool (B, n, n)
    -> (B, n, num_hiddens), chosen (B, n, n); with ``need_weights`` a third, weights (B, H, n, n).

    Source: DeepSeek-AI (2025), DeepSeek-V3.2, section 2.1, there on latent attention.
    """

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        num_chosen: int,
        *,
        index_heads: int,
        index_size: int,
    ):
        super().__init__()
        check_whole("num_chosen", num_chosen)
        self.num_chosen = num_chosen
        self.indexer = Indexer(num_hiddens, index_heads, index_size)
        self.attention = MultiHeadAttention(num_hiddens, num_heads, 0.0)

    def forward(
        self,
        X: Tensor,
        valid_lens: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        chosen: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, ...]:
        if X.ndim != 3:
            raise ValueError(f"X must have shape (B, n, num_hiddens), got {tuple(X.shape)}")
        shape = (*X.shape[:2], X.shape[1])
        visible = attention_mask(shape, valid_lens, mask, is_causal, X.device)
        if chosen is None:
            chosen = best_keys(self.indexer(X), visible, self.num_chosen)
        elif visible is not None:
            chosen = chosen & visible
        result = self.attention(X, X, X, mask=chosen, need_weights=need_weights)
        return (result[0], chosen, result[1]) if need_weights else (result, chosen)
