"""A model of the ``transformers`` library that attends by a function of one's own."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from d2l_attention.real_models.interface import Call, TakenOver, give_own_back
from d2l_attention.real_models.library import attention_layers, choose
from d2l_attention.variants.grouped import repeat_heads

EXTRAS = {
    "bias": "a bias that is added to the scores",
    "sinks": "sinks, one more score a head",
    "softcap": "a softcap, the bound of a tanh on the scores",
}


def use_attention(
    model: nn.Module, attention: Callable | None, layers: Iterable[int] | None = None
) -> TakenOver | None:
    """Let a model of the ``transformers`` library attend by a function of yours.

    ``attention(queries, keys, values, *, mask=None)`` returns its outputs, or a pair of outputs and
    weights. It is called in each layer, in training and in ``generate`` as well, with the cache.

    Shape: queries (B, H, Q, d), keys (B, H, K, d), values (B, H, K, v), mask bool, broadcastable to
    (B, H, Q, K), True = may attend, or ``None`` -> outputs (B, H, Q, v), weights (B, H, Q, K).

    Where queries share heads of keys and values, these are repeated. The model's own scale is in
    the queries already, such that to divide the scores by the root of d is right. What some models
    add comes as a keyword, and a function that does not take it cannot serve them: ``bias``
    (B or 1, H, Q, K), added to the scores (T5); ``sinks`` (H,), one more score in the softmax of
    each head (gpt-oss); ``softcap``, a number c: scores become c tanh(scores / c) before the mask
    (Gemma 2). The model's dropout on weights is not passed on.

    A query of padding on the left may see nothing at all, and a softmax over nothing is NaN. Its
    row of the mask is opened, and its output becomes 0.

    ``layers`` are the numbers of the layers that change; the others stay as they are. With
    ``None`` in place of a function, all layers get the library's own back. The change lasts; it
    ends with the block where the call stands in a ``with``, also after an error:

        with use_attention(model, my_attention):
            logits = model(input_ids=ids).logits

    With gradient checkpointing the backward pass runs the layers once more, by what they attend by
    then: ``backward`` belongs into the block, too. After it gradients are silently wrong, or
    PyTorch raises its ``CheckpointError``.

    Errors: ``TypeError`` for a model that does not attend through the library's interface, and for
    a function that lacks a keyword the model needs; ``ValueError`` for unknown layers. When the
    model runs: ``TypeError`` or ``ValueError`` if outputs are not what is expected.
    """
    if attention is None:
        if layers is not None:
            raise ValueError("without a function all layers change back: leave out layers")
        return give_own_back(model)
    stacks = choose(attention_layers(model), layers)
    chosen = [layer for numbered in stacks.values() for layer in numbered.values()]
    takes = _keywords(attention)
    for layer in chosen:
        _check_keywords(takes, _known_needs(layer), layer)
    return TakenOver(model, dict.fromkeys(chosen, lambda call: _attend(attention, takes, call)))


def _attend(attention: Callable, takes: set[str], call: Call) -> tuple[Tensor, Tensor | None]:
    """The call of the library in the words of this course, and the answer in the library's."""
    extras = {"bias": call.bias, "sinks": call.sinks, "softcap": call.softcap}
    extras = {name: value for name, value in extras.items() if value is not None}
    seeing = None
    if call.mask is not None:
        seeing = call.mask.any(dim=-1, keepdim=True)  # (B, H or 1, Q, 1)
        extras["mask"] = call.mask | ~seeing
    _check_keywords(takes, extras, call.layer)
    sinks = extras.get("sinks")
    if sinks is not None and sinks.ndim != 1:
        raise NotImplementedError(
            f"{type(call.layer).__name__} has a sink for each query, of shape "
            f"{tuple(sinks.shape)}; only one a head, (H,), can be passed on"
        )
    num_heads, size = call.queries.shape[1], call.queries.shape[-1]
    scale = call.scaling * size**0.5
    queries = call.queries if abs(scale - 1) < 1e-9 else call.queries * scale
    keys, values = (repeat_heads(X, num_heads) for X in (call.keys, call.values))
    outputs, weights = _checked(attention(queries, keys, values, **extras), queries, values)
    if seeing is not None:
        outputs = outputs.masked_fill(~seeing, 0.0)
    return outputs.transpose(1, 2).contiguous(), weights


def _checked(result: Any, queries: Tensor, values: Tensor) -> tuple[Tensor, Tensor | None]:
    """What a function returned, as outputs and weights; or what is wrong with it."""
    pair = result if isinstance(result, (tuple, list)) else (result, None)
    if len(pair) != 2:
        raise TypeError(
            "attention must return outputs, or a pair of outputs and weights, "
            f"got {len(pair)} things"
        )
    outputs, weights = pair
    expected = (*queries.shape[:-1], values.shape[-1])
    if not isinstance(outputs, Tensor):
        raise TypeError(
            f"attention must return a tensor of shape {expected}, got {type(outputs).__name__}"
        )
    if tuple(outputs.shape) != expected:
        raise ValueError(
            f"attention must return outputs (B, H, Q, v) of shape {expected}, "
            f"got {tuple(outputs.shape)}"
        )
    if outputs.dtype != values.dtype:
        raise TypeError(
            f"attention must return outputs of the values' type, {values.dtype}, "
            f"got {outputs.dtype}"
        )
    expected = (*queries.shape[:-1], values.shape[-2])
    if weights is not None and (
        not isinstance(weights, Tensor) or tuple(weights.shape) != expected
    ):
        actual = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise ValueError(f"attention must return weights of shape {expected}, got {actual}")
    return outputs, weights


def _keywords(attention: Callable) -> set[str]:
    """Which of mask, bias, sinks and softcap the function takes."""
    try:
        # A module is called through a function that takes anything.
        called = attention.forward if isinstance(attention, nn.Module) else attention
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(
            "attention must be a function of Python, attention(queries, keys, values, *, "
            f"mask=None), got {attention!r}: write a function that calls it"
        ) from None
    wanted = {"mask", *EXTRAS}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return wanted
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return wanted & {parameter.name for parameter in parameters if parameter.kind in by_name}


def _known_needs(layer: nn.Module) -> set[str]:
    """What this layer will surely hand over, as far as that can be seen before it runs."""
    needs = {
        "mask": getattr(layer, "is_causal", False) is True,
        "sinks": isinstance(getattr(layer, "sinks", None), torch.Tensor),
        "softcap": getattr(layer, "attn_logit_softcapping", None) is not None,
        "bias": getattr(layer, "has_relative_attention_bias", False) is True,
    }
    return {name for name, needed in needs.items() if needed}


def _check_keywords(takes: set[str], needs: Iterable[str], layer: nn.Module) -> None:
    what = {"mask": "a mask, boolean, True = may attend", **EXTRAS}
    for name in needs:
        if name not in takes:
            keywords = ", ".join(f"{each}=None" for each in dict.fromkeys(("mask", name)))
            raise TypeError(
                f"{type(layer).__name__} needs {what[name]}: attention must take the keyword "
                f"{name}, as in attention(queries, keys, values, *, {keywords})"
            )
