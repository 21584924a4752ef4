"""PyTorch's fused kernel: softmax(q . k / sqrt(D)) v without a (Q, K) matrix in memory."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from d2l_attention.attention.masks import causal_mask
from d2l_attention.attention.visibility import Visibility, clear

SLICE = 2**23  # weights that exist at once where there is dropout: 32 MiB of float32


def fused_pooling(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Visibility,
    dropout: float,
    bias: Tensor | None,
) -> Tensor:
    """Attention pooling by the dot product, for inputs that ``visible`` has cleared and cut.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> (*, Q, V).
    """
    if bias is not None:
        bias, mask = bias.to(queries.dtype), visible.matrix(queries.device)
        if mask is None:
            return fused_attention(queries, keys, values, bias, False, dropout)
        # To the kernel a hidden key is a bias of -inf. A row of nothing else would be NaN:
        # where all is hidden the bias stays as it is, and the output is cleared.
        seeing = mask.any(dim=-1, keepdim=True)
        bias = bias.masked_fill(~mask & seeing, -math.inf)
        return clear(fused_attention(queries, keys, values, bias, False, dropout), seeing[..., 0])
    if visible.mask is not None or visible.lengths is None:
        return fused_attention(queries, keys, values, visible.mask, visible.is_causal, dropout)
    padded = fused_attention(queries, keys, values, visible.lengths, False, dropout)
    if not visible.is_causal:
        return padded
    # Lengths and the future at once, still without a (Q, K) mask. Before its sequence ends
    # a query sees no padding anyway, so the causal kernel is right; from there on all that
    # it may see is past, so the padding mask is right.
    causal = fused_attention(queries, keys, values, None, True, dropout)
    position = torch.arange(queries.shape[-2], device=queries.device)[:, None]
    inside = position < visible.lengths.sum(dim=-1, keepdim=True)
    return torch.where(inside, causal, padded)


def fused_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    dropout: float,
) -> Tensor:
    """PyTorch's fused kernel, called so that it stays on its path of linear memory.

    ``mask`` is boolean, or floats that are added to the scores. On the CPU the kernel leaves
    that path for inputs or masks without four axes and for values of another size than the
    keys. Extra axes of size 1 and columns of zeros change no result.
    """
    key_size, value_size, leading = keys.shape[-1], values.shape[-1], queries.shape[:-2]
    if value_size < key_size:
        values = F.pad(values, (0, key_size - value_size))
    elif value_size > key_size:
        queries, keys = (F.pad(X, (0, value_size - key_size)) for X in (queries, keys))
    if queries.ndim < 4:
        queries, keys, values = (with_four_axes(X) for X in (queries, keys, values))
    if mask is not None and mask.ndim < 4:
        mask = with_four_axes(mask)
    attend = partial(F.scaled_dot_product_attention, scale=1 / math.sqrt(key_size))
    if dropout > 0 and needs_slices(queries, keys):
        output = in_slices(attend, queries, keys, values, mask, is_causal, dropout)
    else:
        output = attend(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
        )
    # Each of these would cost a step on the way back, so only where there is something to undo.
    if value_size < key_size:
        output = output[..., :value_size]
    return output if len(leading) == 2 else output.reshape(*leading, *output.shape[-2:])


def needs_slices(queries: Tensor, keys: Tensor) -> bool:
    """Whether dropout would fill the memory: on the CPU PyTorch builds all weights for it."""
    weights = queries.shape[:-1].numel() * keys.shape[-2]
    return queries.device.type == "cpu" and weights > SLICE and not torch.compiler.is_compiling()


def in_slices(
    attend: Callable[..., Tensor],
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    dropout: float,
) -> Tensor:
    """Attention with dropout, a few queries at a time, so that few weights exist at once.

    What a slice would keep for the backward pass is computed again there, with the same random
    numbers (Chen et al., 2016, 'Training Deep Nets with Sublinear Memory Cost').
    """
    num_queries, num_keys = queries.shape[-2], keys.shape[-2]
    rows = max(1, SLICE // (queries.shape[:-2].numel() * num_keys))
    outputs = []
    for first in range(0, num_queries, rows):
        some = queries[..., first : first + rows, :]
        if is_causal:  # the kernel would count the slice's queries from 0
            hidden = causal_mask(some.shape[-2], num_keys, offset=first, device=some.device)
        elif mask is not None and mask.shape[-2] > 1:
            hidden = mask[..., first : first + rows, :]
        else:
            hidden = mask
        outputs.append(checkpoint(attend, some, keys, values, hidden, dropout, use_reentrant=False))
    return torch.cat(outputs, dim=-2)


def with_four_axes(X: Tensor) -> Tensor:
    return X[(None,) * (4 - X.ndim)]
