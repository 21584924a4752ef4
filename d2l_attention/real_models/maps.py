"""The attention weights of a model of the ``transformers`` library, layer by layer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from d2l_attention.real_models.interface import Call, TakenOver, library_attention
from d2l_attention.real_models.library import attention_layers, choose

MOST_BYTES = 2**31  # of maps, in memory at once


def attention_maps(
    model: nn.Module,
    *,
    layers: Iterable[int] | None = None,
    **inputs: Any,
) -> dict[Any, Any]:
    """The weights with which the model attends, equal to those of the library's ``eager``.

        maps = attention_maps(model, input_ids=ids, layers=[0, 5])
        maps[5][0, 2]  # layer 5, sequence 0, head 2: (Q, K)

    One pass in evaluation mode, without gradient; the model is not loaded anew, and is left as it
    was. Only the maps that are asked for are kept, of all layers unless some are named. Where
    ``use_attention`` changed a layer that is not asked for, it attends as it was told to.

    Shape: -> by the number of the layer (B, H, Q, K). For a model with an encoder and a decoder
    (BART, T5) there are such numbers under each of ``"encoder"``, ``"decoder"`` and ``"cross"``;
    for a model with several towers under the path of each. Layers that do not attend, such as
    those of a linear form, are not among the numbers.

    Where a model has sinks a row sums to less than one. A row of padding on the left, which may
    see nothing, is what the library makes of it: uniform.

    Errors: ``TypeError`` for a model that does not attend through the library's interface;
    ``ValueError`` for unknown layers, and, before a map is made, for maps that would take more than
    2 GiB.
    """
    stacks = choose(attention_layers(model), layers)
    recorder = _Recorder(
        {layer: key for key, numbered in stacks.items() for layer in numbered.values()}
    )
    was_training = {part: part.training for part in model.modules()}
    devices = {parameter.device for parameter in model.parameters()}
    random = torch.random.fork_rng([device for device in devices if device.type == "cuda"])
    try:
        model.eval()
        with random, torch.no_grad(), TakenOver(model, dict.fromkeys(recorder.stack, recorder)):
            model(**inputs)
    finally:
        for part, training in was_training.items():
            part.training = training
    maps = {
        key: {n: recorder.maps[layer] for n, layer in numbered.items() if layer in recorder.maps}
        for key, numbered in stacks.items()
    }
    return maps[""] if list(maps) == [""] else maps


@dataclass
class _Recorder:
    """What stands in for the asked layers' attention: the library's ``eager``, and its weights."""

    stack: dict[nn.Module, str]
    maps: dict[nn.Module, Tensor] = field(default_factory=dict)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        self._check(call)
        outputs, weights = library_attention(call, "eager")
        assert weights is not None
        self.maps[call.layer] = weights
        return outputs, weights

    def _check(self, call: Call) -> None:
        B, H, Q, _ = call.queries.shape
        K = call.keys.shape[-2]
        if call.layer in self.maps:
            raise ValueError(
                f"{type(call.layer).__name__} attends more than once in one pass of this model, "
                "which shares it: its maps cannot be told apart"
            )
        same = [
            layer
            for layer, stack in self.stack.items()
            if stack == self.stack[call.layer] and layer not in self.maps
        ]
        size = call.queries.element_size()
        # What is kept already, what this stack will still give, and one layer's map at work.
        before = sum(map.numel() * map.element_size() for map in self.maps.values())
        needed = before + (len(same) + 1) * B * H * Q * K * size
        if needed > MOST_BYTES:
            raise ValueError(
                f"these maps would take {needed:,} bytes, and {MOST_BYTES:,} is the most: "
                f"{len(same)} layers of shape {(B, H, Q, K)} at {size} bytes a number; ask for "
                "fewer layers, or give a shorter text"
            )
