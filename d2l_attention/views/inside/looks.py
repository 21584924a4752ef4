"""What an attention did in one call: its weights, and where they can be had, all that made them.

Everything is of the first sequence of the batch, with an axis of heads: (H, Q, K) and so on. What
cannot be added up to the module's own result is not kept: the view shows no sum that is not one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.layers import AttentionLayer
from d2l_attention.attention.scores import additive_score, scaled_dot_score
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder
from d2l_attention.views.values import readable

MOST_HEADS, MOST_TOKENS, MOST_SIZE = 32, 48, 256
# What an attention raises that keeps its weights otherwise, names what it is given otherwise, or
# computes inside of ``vmap``.
UNREADABLE = AttributeError, RuntimeError, ValueError, LookupError, TypeError


@dataclass
class Look:
    """The attention of H heads in one sequence.

    Shape: weights (H, Q, K). Where the score is a scaled dot product queries (H, Q, d), keys
    (H, K, d), ``bias`` (H, Q, K) or None; where it is additive these are the projected ones, and
    ``w_v`` (d,) weighs their tanh. ``visible`` (H, Q, K), bool, or None: all is visible. Where
    weights times values are the result, values (H, K, v), else None.
    """

    weights: Tensor
    shape: tuple[int, int, int]  # H, Q, K, of which the first of each are kept
    kind: str = "weights"  # or "dot", "additive"
    queries: Tensor | None = None
    keys: Tensor | None = None
    w_v: Tensor | None = None
    bias: Tensor | None = None
    visible: Tensor | None = None
    values: Tensor | None = None
    size: int = 0  # of a query
    values_all: int = 0  # size of a value
    query_words: tuple[str, ...] | None = None
    key_words: tuple[str, ...] | None = None


def look_of(module: nn.Module, given: Mapping[str, Any], output: Any, old: Any) -> Look | None:
    """What this module's attention did, if it is one; ``old`` weights are of an earlier call."""
    try:
        if isinstance(module, AttentionLayer):
            return _course_layer(module, given, output)
        if isinstance(module, nn.MultiheadAttention):
            return _pytorch_layer(module, given, output)
        return _weights_only(module, given, output, old)
    except UNREADABLE:
        return None  # an attention that keeps its weights otherwise is a part like others


def _course_layer(layer: AttentionLayer, given: Mapping[str, Any], output: Any) -> Look | None:
    weights = layer.attention_weights
    output = output[0] if isinstance(output, tuple) else output
    inputs, seen, bias = layer._last
    visible = seen.as_mask(weights.shape, weights.device)
    # A sink is one key more, before all others: it has no weight here.
    bias, visible = (X if X is None else X[..., -weights.shape[-1] :] for X in (bias, visible))
    inputs = (inputs[0], _each_head(inputs[1], weights), *inputs[2:])
    parts = {"queries": inputs[0], "keys": inputs[1]}
    if bias is not None:
        parts["bias"] = bias.expand(weights.shape)
    if visible is not None:
        parts["visible"] = visible.expand(weights.shape)
    values = _each_head(given["values"], weights)
    if visible is not None:  # what nobody sees may be NaN
        seen = visible.expand(weights.shape).any(dim=-2)
        values = values.masked_fill(~seen[..., None], 0.0)
    if layer.score is scaled_dot_score and len(inputs) == 2:
        kind, scores = "dot", scaled_dot_score(*inputs)
    elif layer.score is additive_score and len(inputs) == 3:
        kind, scores = "additive", additive_score(*inputs)
    else:
        kind, scores = "weights", None
    if scores is None or scores.shape != weights.shape:
        kind, parts = "weights", {}
    elif not same(softmax_of(scores, bias, visible), weights):
        kind, parts = "weights", {}
    if same(weights @ values, output):
        parts["values"] = values
    return cut_look(weights, kind, parts, inputs[2] if kind == "additive" else None)


def _pytorch_layer(
    layer: nn.MultiheadAttention, given: Mapping[str, Any], output: Any
) -> Look | None:
    """PyTorch's layer computes in one function: its heads' parts are made once more from weights.

    Its masks say True for 'may not attend', or are added to the scores. A query that sees nothing
    is NaN in it or, with ``need_weights=False``, gets 0: its output tells. A subclass may attend
    otherwise: then the parts do not make its output, and there is no look.
    """
    output = output[0] if isinstance(output, tuple) else output
    inputs = [*(given[name] for name in ("query", "key", "value")), output]
    if inputs[0].ndim == 2:
        inputs = [X[None] for X in inputs]
    elif not layer.batch_first:
        inputs = [X.transpose(0, 1) for X in inputs]
    *inputs, output = (X[:1] for X in inputs)  # (1, n, D)
    if layer.in_proj_weight is not None:
        matrices = layer.in_proj_weight.chunk(3)
    else:
        matrices = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    shifts = (None,) * 3 if layer.in_proj_bias is None else layer.in_proj_bias.chunk(3)
    q, k, v = (F.linear(*each) for each in zip(inputs, matrices, shifts, strict=True))
    if layer.bias_k is not None:
        k, v = torch.cat([k, layer.bias_k], 1), torch.cat([v, layer.bias_v], 1)
    if layer.add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
    q, k, v = (X[0].unflatten(-1, (layer.num_heads, -1)).transpose(0, 1) for X in (q, k, v))
    shape = (layer.num_heads, q.shape[1], k.shape[1])
    bias = torch.zeros(shape, device=q.device, dtype=q.dtype)
    for name in ("attn_mask", "key_padding_mask"):
        mask = given.get(name)
        if mask is None:
            continue
        if name == "key_padding_mask":
            mask = mask[:1, None] if mask.ndim == 2 else mask[None, None]
        elif mask.ndim == 3:  # (B * H, Q, K)
            mask = mask[: layer.num_heads]
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, -math.inf)
        bias = bias + F.pad(mask, (0, shape[2] - mask.shape[-1]))  # its own keys are always seen
    visible = bias > -math.inf
    weights = softmax_of(scaled_dot_score(q, k), bias, visible)
    nothing = ~visible.any(dim=-1) & output.isnan().any(dim=-1)  # (H, Q)
    weights = weights.masked_fill(nothing[..., None], math.nan)
    heads = (weights @ v).transpose(0, 1).flatten(1)  # (Q, D)
    if not same(F.linear(heads, layer.out_proj.weight, layer.out_proj.bias), output[0]):
        return None
    parts = {"queries": q, "keys": k, "values": v}
    if not visible.all():
        parts["visible"] = visible
    if bias.masked_fill(~visible, 0.0).any():
        parts["bias"] = bias.masked_fill(~visible, 0.0)
    return cut_look(weights[None], "dot", {name: X[None] for name, X in parts.items()}, None)


def _weights_only(module: nn.Module, given: Mapping[str, Any], output: Any, old) -> Look | None:
    """Weights that a module of another making keeps under the course's name, or gives back.

    A decoder may give probabilities of words back, too, which also add up to one: weights have an
    axis of keys, which is an axis of something that came in. Where several fit, none is shown.
    """
    name = type(module).__name__.lower()
    found = [vars(module).get("attention_weights")]  # not what a property would compute now
    if isinstance(module, Seq2SeqAttentionDecoder):
        found = [module.attention_weights]
    found = [weights for weights in found if weights is not old and _may_be_weights(weights)]
    if not found and ("attention" in name or "attn" in name):
        given_back = output if isinstance(output, tuple | list) else []
        came_in = [X for Y in given.values() for X in (Y if isinstance(Y, tuple | list) else [Y])]
        lengths = {n for X in came_in if isinstance(X, Tensor) for n in _lengths(X)}
        found = [X for X in given_back if _may_be_weights(X) and X.shape[-1] in lengths]
    return cut_look(found[0], "weights", {}, None) if len(found) == 1 else None


def _may_be_weights(X: Any) -> bool:
    if not isinstance(X, Tensor) or X.ndim not in (3, 4) or not X.numel():
        return False
    sums = X.float().sum(dim=-1)
    return bool(X.min() >= 0 and ((sums - 1).abs() < 1e-3).logical_or(sums < 1).all())


def _lengths(X: Tensor) -> tuple[int, ...]:
    """How many tokens X may have: of vectors (*, n, D) or (n, B, D), of tokens or a mask (*, n)."""
    return X.shape[:-1] if X.is_floating_point() else X.shape


def softmax_of(scores: Tensor, bias: Tensor | None, visible: Tensor | None) -> Tensor:
    """The weights that these scores make: 0 for what is hidden, and for a row that sees nothing."""
    scores = scores if bias is None else scores + bias
    if visible is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~visible, -math.inf).softmax(dim=-1).masked_fill(~visible, 0.0)


def _each_head(X: Tensor, weights: Tensor) -> Tensor:
    """Keys or values for each head of the weights, where several heads share theirs."""
    if X.ndim != 4 or weights.ndim != 4 or X.shape[1] == weights.shape[1]:
        return X
    return X.repeat_interleave(weights.shape[1] // X.shape[1], dim=1)


def same(one: Tensor, other: Any) -> bool:
    """Equal but for rounding. NaN equals NaN: PyTorch gives it to a query that sees nothing."""
    if not isinstance(other, Tensor) or one.shape != other.shape:
        return False
    exact = other.dtype in (torch.float32, torch.float64)
    rtol, atol = (1e-3, 1e-5) if exact else (2e-2, 2e-3)
    return torch.allclose(one.float(), other.float(), rtol=rtol, atol=atol, equal_nan=True)


def cut_look(weights: Tensor, kind: str, parts: dict[str, Tensor], w_v: Tensor | None) -> Look:
    """The first sequence, as copies on the CPU, the first heads and tokens of many.

    Errors: as for ``readable``.
    """

    def first(X: Tensor, rows: int, columns: int) -> Tensor:
        X = X[0] if X.ndim == 4 else X[:1]  # without an axis of heads there is one
        return readable(X[:MOST_HEADS, :rows, :columns])

    shape = tuple(weights.shape[-3:]) if weights.ndim == 4 else (1, *weights.shape[-2:])
    look = Look(first(weights, MOST_TOKENS, MOST_TOKENS), shape, kind)
    for name, X in parts.items():
        columns = MOST_TOKENS if name in ("bias", "visible") else MOST_SIZE
        setattr(look, name, first(X, MOST_TOKENS, columns))
    if w_v is not None:
        look.w_v = readable(w_v[:MOST_SIZE])
    if look.queries is not None:
        look.size = parts["queries"].shape[-1]
    if look.values is not None:
        look.values_all = parts["values"].shape[-1]
    return look
