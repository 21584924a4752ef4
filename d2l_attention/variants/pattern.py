"""What attention with a fixed pattern of who sees whom shares, whatever the pattern."""

from torch import Tensor

from d2l_attention.attention.checks import (
    check_attention_inputs,
    check_mask_shape,
    check_valid_lens,
)
from d2l_attention.attention.layers import DotProductAttention
from d2l_attention.attention.masks import (
    combine_masks,
    length_mask,
    masked_softmax,
    zero_hidden_rows,
)
from d2l_attention.attention.scores import add_bias


class PatternAttention(DotProductAttention):
    """Scaled dot-product self-attention in which each token sees a pattern of others.

    A layer gives its pattern twice: ``pattern`` as a mask, and ``sparse`` as a way to compute
    only what the mask lets through. ``sparse`` serves ``valid_lens`` (B,) and ``is_causal``.
    Weights, a mask, a bias and lengths (B, Q) are (Q, K) matrices themselves: with one of them
    the layer is plain attention under its mask.

    Behind a cache the queries are the last of the tokens: query i stands at i + ``offset``.

    Shape: queries (*, n, D), keys (*, n, D), values (*, n, V) -> (*, n, V); with
    ``need_weights`` a pair, the second weights (*, n, n).

    Errors: ``ValueError`` unless there are as many keys as queries and tokens before them.
    """

    def pattern(self, num_queries: int, num_keys: int) -> Tensor:
        """Who sees whom, as a mask (Q, K)."""
        raise NotImplementedError

    def sparse(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None,
        is_causal: bool,
        dropout: float,
    ) -> Tensor:
        """The output, without a (Q, K) matrix on the way."""
        raise NotImplementedError

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
        check_one_sequence(queries.shape[-2], keys.shape[-2], offset)
        if valid_lens is not None:
            check_valid_lens(valid_lens, keys.shape[-2])
        masking = dict(valid_lens=valid_lens, mask=mask, is_causal=is_causal, offset=offset)
        lens_by_query = valid_lens is not None and valid_lens.ndim == 2
        if need_weights or mask is not None or bias is not None or lens_by_query or offset:
            masking["mask"] = self._inside_pattern(mask, queries, keys)
            return super().forward(
                queries, keys, values, **masking, bias=bias, need_weights=need_weights
            )
        queries, keys, values = zero_hidden_rows(queries, keys, values, **masking)
        self._remember(queries, keys, bias=bias, **masking)
        dropout = self.dropout.p if self.training else 0.0
        return self.sparse(queries, keys, values, valid_lens, is_causal, dropout)

    def _inside_pattern(self, mask: Tensor | None, queries: Tensor, keys: Tensor) -> Tensor:
        """What the mask and the pattern both let through."""
        num_queries, num_keys = queries.shape[-2], keys.shape[-2]
        if mask is not None:
            check_mask_shape(mask, (*queries.shape[:-1], num_keys))
        return combine_masks(mask, self.pattern(num_queries, num_keys).to(queries.device))

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, (*, n, n): see ``AttentionLayer``."""
        inputs, bias, masking = self._remembered()
        mask = self._inside_pattern(masking["mask"], *inputs)
        return masked_softmax(add_bias(self.score(*inputs), bias), **masking | {"mask": mask})


def check_one_sequence(num_queries: int, num_keys: int, offset: int) -> None:
    """Raise unless query i and key i + ``offset`` can be the same token."""
    if num_keys != num_queries + offset:
        raise ValueError(
            "a pattern of neighbours is for self-attention, with a key for each query, "
            f"got {num_queries} queries and {num_keys} keys"
        )


def real_keys(keys: Tensor, valid_lens: Tensor | None) -> Tensor:
    """Which keys are no padding. Shape: keys (*, K, D), valid_lens (B,) -> bool (B or 1, K)."""
    if valid_lens is None:
        return keys.new_ones(1, keys.shape[-2], dtype=bool)
    return length_mask(valid_lens, keys.shape[-2])[:, 0]
