"""PyTorch's fused kernel: softmax(q . k / sqrt(D)) v without a (Q, K) matrix in memory.

What is here only calls ``F.scaled_dot_product_attention`` so that it stays on its fast path.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from d2l_attention.attention.checks import check_valid_lens
from d2l_attention.attention.masks import attention_mask, zero_rows

MANY_WEIGHTS = 2**23  # 32 MiB of float32: where dropout, which needs them, goes head by head


def fused_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    valid_lens: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Scaled dot-product attention of rows whose hidden ones are zeros already.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> (*, Q, V).
    """
    lens_by_query = valid_lens is not None and valid_lens.ndim == 2
    if is_causal and offset == 0 and mask is None and bias is None and not lens_by_query:
        return _causal(queries, keys, values, valid_lens, dropout)
    scores_shape = (*queries.shape[:-1], keys.shape[-2])
    device = queries.device
    visible = attention_mask(scores_shape, valid_lens, mask, is_causal, device, offset=offset)
    if bias is None:
        return _call_kernel(queries, keys, values, visible, False, dropout)
    bias = bias.to(queries.dtype)
    if visible is None:
        return _call_kernel(queries, keys, values, bias, False, dropout)
    # To the kernel a hidden key is a bias of -inf. A row of nothing else would be NaN: where
    # all is hidden the bias stays as it is, and the output becomes zero.
    seeing = visible.any(dim=-1)
    bias = bias.masked_fill(~visible & seeing[..., None], -math.inf)
    return zero_rows(_call_kernel(queries, keys, values, bias, False, dropout), seeing)


def _causal(
    queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None, dropout: float
) -> Tensor:
    """The past of each query, without its padding and without a (Q, K) mask."""
    if valid_lens is None:
        return _call_kernel(queries, keys, values, None, True, dropout)
    # Before its sequence ends a query sees no padding anyway, so the causal kernel is right;
    # from there on all that it may see is past, so the padding mask is right. Which of the two
    # depends on the sequence only between the shortest and the longest of them.
    bounds = check_valid_lens(valid_lens, keys.shape[-2])
    shortest, longest = (min(bound, queries.shape[-2]) for bound in bounds)
    between = longest - shortest
    causal = _call_kernel(queries[..., :longest, :], keys, values, None, True, dropout)
    one_row = (*queries.shape[:-2], 1, keys.shape[-2])
    padding = attention_mask(one_row, valid_lens)  # (B, ..., 1, K)
    padded = _call_kernel(queries[..., shortest:, :], keys, values, padding, False, dropout)
    inside = torch.arange(shortest, longest, device=valid_lens.device) < valid_lens[:, None]
    inside = inside.reshape(len(valid_lens), *[1] * (queries.ndim - 3), between, 1)
    either = torch.where(inside, causal[..., shortest:, :], padded[..., :between, :])
    return torch.cat((causal[..., :shortest, :], either, padded[..., between:, :]), dim=-2)


def _call_kernel(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    dropout: float,
) -> Tensor:
    """PyTorch's function, called so that it stays on its path of linear memory.

    ``mask`` is boolean, or floats that are added to the scores. On the CPU the kernel leaves
    that path for inputs or masks without four axes and for values of another size than the
    keys. Extra axes of size 1 and columns of zeros change no result. Keys and values may have
    fewer heads than the queries (grouped-query attention): the kernel serves a group with one.
    """
    key_size, value_size, leading = keys.shape[-1], values.shape[-1], queries.shape[:-2]
    if 0 in leading or queries.shape[-2] == 0 or keys.shape[-2] == 0:
        return _nothing_to_attend_to(queries, keys, values)
    if value_size < key_size:
        values = F.pad(values, (0, key_size - value_size))
    elif value_size > key_size:
        queries, keys = (F.pad(X, (0, value_size - key_size)) for X in (queries, keys))
    queries, keys, values = (_with_four_axes(X) for X in (queries, keys, values))
    # As many axes as the queries: then axis 1 is the heads' in both.
    mask = None if mask is None else mask[(None,) * (queries.ndim - mask.ndim)]
    if mask is not None and mask.device.type != "cpu":
        # A GPU's kernel wants the columns of a mask side by side, one for each key.
        mask = mask.expand(*mask.shape[:-1], keys.shape[-2])
        mask = mask if mask.stride(-1) == 1 else mask.contiguous()
    attend = partial(
        F.scaled_dot_product_attention,
        dropout_p=dropout,
        is_causal=is_causal,
        scale=1 / math.sqrt(key_size),
        enable_gqa=bool(queries.shape[1] != keys.shape[1]),
    )
    # For dropout on the CPU PyTorch builds all weights.
    large = queries.shape[:-1].numel() * keys.shape[-2] > MANY_WEIGHTS
    if dropout > 0 and large and queries.device.type == "cpu" and not torch.compiler.is_compiling():
        output = _one_head_at_a_time(attend, queries, keys, values, mask)
    else:
        output = attend(queries, keys, values, attn_mask=mask)
    # Each of these would cost a step of the backward pass: only where there is something to undo.
    if value_size < key_size:
        output = output[..., :value_size]
    return output if len(leading) == 2 else output.reshape(*leading, *output.shape[-2:])


def _nothing_to_attend_to(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Zeros, or no rows at all: there is no pair of a query and a key.

    PyTorch's kernel is not asked: on some processors it then ends Python.
    """
    if queries.ndim == 4 and queries.shape[1] != keys.shape[1]:  # grouped-query attention
        group_size = queries.shape[1] // keys.shape[1]
        keys, values = (X.repeat_interleave(group_size, dim=1) for X in (keys, values))
    return queries @ keys.mT @ values


def _one_head_at_a_time(
    attend: Callable[..., Tensor],
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """The kernel on each head in turn, so that the weights of only one head exist.

    The backward pass computes them again instead of keeping them, with the same random numbers
    (Chen et al., 2016, 'Training Deep Nets with Sublinear Memory Cost').
    """
    outputs = []
    num_heads, num_kv_heads = queries.shape[1], keys.shape[1]
    for head in range(num_heads):
        pair = head * num_kv_heads // num_heads
        inputs = queries[:, [head]], keys[:, [pair]], values[:, [pair]]
        own_mask = mask if mask is None or mask.shape[1] == 1 else mask[:, [head]]
        outputs.append(checkpoint(attend, *inputs, own_mask, use_reentrant=False))
    return torch.cat(outputs, dim=1)


def _with_four_axes(X: Tensor) -> Tensor:
    return X if X.ndim >= 4 else X[(None,) * (4 - X.ndim)]
