"""What the attention layers of the ``transformers`` library did: they are asked while they attend.

The library is not imported for it: a model of it has imported it already.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from torch import Tensor, nn

from d2l_attention.real_models.interface import Call, TakenOver, library_attention, present
from d2l_attention.real_models.library import is_attention
from d2l_attention.variants.grouped import repeat_heads
from d2l_attention.views.inside.looks import UNREADABLE, Look, cut_look, same, softmax_of


@contextmanager
def looks_of(model: nn.Module, attended: Callable) -> Iterator[dict[nn.Module, Look]]:
    """The last look of each such layer, as long as the block runs; the layers attend as before.

    ``attended`` is told the tensors that went into an attention, and what came out.
    """
    looks: dict[nn.Module, Look] = {}
    layers = [module for module in model.modules() if _is_of_the_library(module)]
    before = {layer: present(layer) for layer in layers}

    def watched(call: Call) -> tuple[Tensor, Tensor | None]:
        outputs, weights = before[call.layer](call)
        looks.pop(call.layer, None)  # of an earlier call
        with attended(call, outputs), suppress(*UNREADABLE):  # a look must not stop the run
            looks[call.layer] = _look(call, outputs.transpose(1, 2), weights)
        return outputs, weights

    try:
        taken_over = TakenOver(model, dict.fromkeys(layers, watched)) if layers else None
    except TypeError:  # a part of a model cannot be told; it opens without its heads
        taken_over = None
    if taken_over is None:
        yield looks
        return
    with taken_over:
        yield looks


def _is_of_the_library(module: nn.Module) -> bool:
    return type(module).__module__.startswith("transformers.") and is_attention(module)


def _look(call: Call, outputs: Tensor, weights: Tensor | None) -> Look:
    """Outputs (B, H, Q, v) and, where the layer told them, weights (B, H, Q, K)."""
    num_heads, size = call.queries.shape[1], call.queries.shape[-1]
    keys, values = (repeat_heads(X, num_heads) for X in (call.keys, call.values))
    queries = call.queries * call.scaling * size**0.5  # then a division by the root of d is right
    scores = queries @ keys.mT / size**0.5
    shape, bias, visible = scores.shape, call.bias, call.mask
    plain = softmax_of(scores, bias, visible)
    if weights is None:
        special = call.softcap is not None or call.sinks is not None
        weights = library_attention(call, "eager")[1] if special else plain
    assert weights is not None
    parts: dict[str, Tensor] = {}
    if call.softcap is None and same(weights, plain):
        parts = {"queries": queries, "keys": keys}
        parts |= {} if bias is None else {"bias": bias.expand(shape)}
        parts |= {} if visible is None else {"visible": visible.expand(shape)}
    if same(weights @ values, outputs):
        parts["values"] = values
    return cut_look(weights, "dot" if "queries" in parts else "weights", parts, None)
