"""PyTorch's fused kernel: softmax(q . k / sqrt(D)) v without a (Q, K) matrix of floats in memory.

What is here only calls ``F.scaled_dot_product_attention`` so that it stays on its fast path. Where
lengths and the past hide keys of a short text, a boolean mask (B, 1, Q, K) is built.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch.compiler import is_exporting
from torch.utils.checkpoint import checkpoint

from d2l_attention.attention.masks import clear, is_free_to_read

MANY_WEIGHTS = 2**23  # 32 MiB of float32: where dropout, which needs them, goes head by head
# From so many pairs, Q times K, on two calls without a mask (B, 1, Q, K) are faster than one with
# it. On a GPU, which is not asked where the lengths lie, they only spare memory.
MANY_PAIRS_CPU, MANY_PAIRS_GPU = 2**15, 2**28


def fused_attention(queries, keys, values, visible, bias=None, dropout=0.0):
    """Scaled dot-product attention of rows whose hidden ones are zeros already.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> (*, Q, V).
    """
    hidden, is_causal = visible.hidden, visible.is_causal
    if is_causal and (hidden is not None or bias is not None):
        many = MANY_PAIRS_CPU if queries.is_cpu else MANY_PAIRS_GPU
        shape = (queries.shape[-2], keys.shape[-2])
        # A graph that is exported for texts of any length can hold only one of the two ways.
        if hidden is not None and bias is None and not is_exporting() and math.prod(shape) >= many:
            return _in_two_calls(queries, keys, values, visible, dropout)
        # From here on the mask hides the future as well.
        hidden, is_causal = visible.hidden_and_future(shape, queries.device), False
    if bias is None:
        return _call_kernel(queries, keys, values, hidden, is_causal, dropout)
    bias = bias.to(queries.dtype)
    if hidden is not None:
        # To the kernel a hidden key is a bias of -inf. A row of nothing else would be NaN: where
        # all is hidden the bias stays as it is, and the output becomes zero.
        hidden = hidden if visible.blind is None else hidden & ~visible.blind
        bias = bias.masked_fill(hidden, -math.inf)
    return clear(_call_kernel(queries, keys, values, bias, False, dropout), visible.blind)


def _in_two_calls(queries, keys, values, visible, dropout):
    """The past of each query, without its padding and without a (Q, K) mask.

    If a query is a real token, all padding comes after it, and the causal mask alone is enough. If
    it is padding, all real keys come before it, and the mask of lengths alone is enough. Which of
    the two a query needs depends on the sequence only between the shortest and the longest length.
    """
    lens, num_queries = visible.lens, queries.shape[-2]
    shortest, longest = 0, num_queries
    if is_free_to_read(lens):
        shortest, longest = (min(int(bound), num_queries) for bound in lens.aminmax())
    causal = _call_kernel(queries[..., :longest, :], keys, values, None, True, dropout)
    later = queries[..., shortest:, :]
    padded = _call_kernel(later, keys, values, visible.hidden, False, dropout)
    lens = lens.reshape(-1, *[1] * (queries.ndim - 1))  # (B, 1, ..., 1)
    inside = torch.arange(shortest, longest, device=lens.device)[:, None] < lens
    between = longest - shortest
    either = torch.where(inside, causal[..., shortest:, :], padded[..., :between, :])
    return torch.cat((causal[..., :shortest, :], either, padded[..., between:, :]), dim=-2)


def _call_kernel(queries, keys, values, hidden_or_bias, is_causal, dropout):
    """PyTorch's function, called so that it stays on its path of linear memory.

    ``hidden_or_bias`` is boolean, True = hidden, or floats that are added to the scores. On the CPU
    the kernel leaves that path for inputs or masks without four axes and for values of another
    size than the keys. Extra axes of size 1 and columns of zeros change no result. Keys and values
    may have fewer heads than the queries (grouped-query attention): it serves a group with one.
    """
    *leading, num_queries, key_size = queries.shape
    num_keys, value_size = values.shape[-2:]
    if 0 in leading or num_queries == 0 or num_keys == 0:
        return _nothing_to_attend_to(queries, keys, values)
    if value_size < key_size:
        values = F.pad(values, (0, key_size - value_size))
    elif value_size > key_size:
        queries, keys = (F.pad(X, (0, value_size - key_size)) for X in (queries, keys))
    if len(leading) < 2:
        queries, keys, values = (X[(None,) * (2 - len(leading))] for X in (queries, keys, values))
    mask = None if hidden_or_bias is None else _mask_for_kernel(hidden_or_bias, queries, num_keys)
    options = dict(dropout_p=dropout, is_causal=is_causal, scale=1 / math.sqrt(max(key_size, 1)))
    if queries.shape[1] != keys.shape[1]:
        options["enable_gqa"] = True
    if dropout > 0 and _is_worth_a_loop(queries, num_keys):
        output = _one_head_at_a_time(queries, keys, values, mask, options)
    else:
        output = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, **options)
    # Each of these would cost a step of the backward pass: only where there is something to undo.
    if value_size < key_size:
        output = output[..., :value_size]
    return output if len(leading) == 2 else output.reshape(*leading, *output.shape[-2:])


def _is_worth_a_loop(queries, num_keys):
    """Many weights on the CPU, and not within ``torch.func``, which cannot compute them again."""
    many = math.prod(queries.shape[:-1]) * num_keys > MANY_WEIGHTS
    wrapped = not torch.compiler.is_compiling() and torch.func.debug_unwrap(queries) is not queries
    return queries.is_cpu and many and not wrapped


def _mask_for_kernel(mask, queries, num_keys):
    """Boolean, True = may attend; on a GPU floats, as the kernel would make of it in more steps.

    There the columns must lie side by side, one for each key.
    """
    mask = mask[(None,) * (queries.ndim - mask.ndim)]  # then axis 1 is the heads' in both
    if mask.is_cpu:
        return ~mask if mask.dtype == torch.bool else mask
    if mask.dtype == torch.bool:
        mask = mask.new_zeros(mask.shape, dtype=queries.dtype).masked_fill_(mask, -math.inf)
    mask = mask.expand(*mask.shape[:-1], num_keys)
    return mask if mask.stride(-1) == 1 else mask.contiguous()


def _nothing_to_attend_to(queries, keys, values):
    """Zeros, or no rows: without a pair PyTorch's kernel ends Python on some processors."""
    if queries.ndim == 4 and queries.shape[1] != keys.shape[1]:  # grouped-query attention
        group_size = queries.shape[1] // keys.shape[1]
        keys, values = (X.repeat_interleave(group_size, dim=1) for X in (keys, values))
    return queries @ keys.mT @ values


def _one_head_at_a_time(queries, keys, values, mask, options):
    """The kernel on each head in turn, so that the weights of only one head exist.

    The backward pass computes them again instead of keeping them, with the same random numbers
    (Chen et al., 2016, 'Training Deep Nets with Sublinear Memory Cost').
    """
    outputs, attend = [], partial(F.scaled_dot_product_attention, **options)
    num_heads, num_kv_heads = queries.shape[1], keys.shape[1]
    for head in range(num_heads):
        pair = head * num_kv_heads // num_heads
        inputs = queries[:, [head]], keys[:, [pair]], values[:, [pair]]
        own_mask = mask if mask is None or mask.shape[1] == 1 else mask[:, [head]]
        outputs.append(checkpoint(attend, *inputs, own_mask, use_reentrant=False))
    return torch.cat(outputs, dim=1)
