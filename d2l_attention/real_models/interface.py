"""One function under the library's ``AttentionInterface`` that asks each layer's handler.

The library knows attention functions by name, for all models at once. Here one name serves all:
behind it each attention layer has a handler of its own, so that models do not disturb each other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from d2l_attention.real_models.library import attention_layers, eager_of, transformers

NAME = "d2l_attention"


@dataclass(frozen=True)
class Call:
    """What a layer hands to its attention function.

    Shape: queries (B, H, Q, d), keys (B, G, K, d) and values (B, G, K, v) with G heads, of which
    H is a multiple; ``mask`` bool (B or 1, H or 1, Q or 1, K), True = may attend, or ``None``;
    ``added`` floats of the same shape, what the library's mask adds where one may look, and
    ``bias`` all that is added to the scores; sinks (H,). Scores are queries times keys times
    ``scaling``.
    """

    layer: nn.Module
    queries: Tensor
    keys: Tensor
    values: Tensor
    mask: Tensor | None
    scaling: float
    dropout: float
    added: Tensor | None
    more: dict[str, Any]  # whatever else the layer said

    @property
    def bias(self) -> Tensor | None:
        by_position = self.more.get("position_bias")
        if self.added is None or by_position is None:
            return by_position if self.added is None else self.added
        return self.added + by_position

    @property
    def softcap(self) -> float | None:
        return self.more.get("softcap")

    @property
    def sinks(self) -> Tensor | None:
        sinks = self.more.get("s_aux")
        return self.more.get("sinks") if sinks is None else sinks


Handler = Callable[[Call], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class _Entry:
    handler: Handler | None  # None: the library's own
    own: str | None  # the name of the library's own


_entries: WeakKeyDictionary[nn.Module, _Entry] = WeakKeyDictionary()


class TakenOver:
    """Until ``give_back`` or the end of a ``with`` the model's layers attend by ``handlers``.

    Layers that are not named stay as they are.
    """

    def __init__(self, model: nn.Module, handlers: Mapping[nn.Module, Handler]):
        _register()
        layers = _all_layers(model)
        self._owners = _owners(model)
        self._before = {layer: _entries.get(layer) for layer in layers}
        self._names = {key: _implementation(owner) for key, owner in self._owners.items()}
        for layer, before in self._before.items():
            own = _implementation(layer)
            if own == NAME:  # by an earlier call, or in a copy of a model, whose own is not known
                own = None if before is None else before.own
            handler = handlers.get(layer, None if before is None else before.handler)
            _entries[layer] = _Entry(handler, own)
        try:
            _set(self._owners, dict.fromkeys(_keys(layers, self._owners), NAME))
        except Exception:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Every layer attends again as it did before."""
        for layer, before in self._before.items():
            if before is None:
                _entries.pop(layer, None)
            else:
                _entries[layer] = before
        _set(self._owners, self._names)

    def __enter__(self) -> "TakenOver":
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


def present(layer: nn.Module) -> Handler:
    """By what this layer attends now: a function that was put there, or the library's own."""
    entry = _entries.get(layer)
    return library_attention if entry is None or entry.handler is None else entry.handler


def give_own_back(model: nn.Module) -> None:
    """The library's own attention in every layer, whatever was put there before."""
    owners = _owners(model)
    names = {}
    for layer in _all_layers(model):
        entry = _entries.pop(layer, None)
        if _implementation(layer) == NAME:
            names[id(layer.config)] = None if entry is None else entry.own
    _set(owners, names)


def library_attention(call: Call, name: str | None = None) -> tuple[Tensor, Tensor | None]:
    """What the library's own function makes of the call: by default the one it used before.

    Shape: -> outputs (B, Q, H, v), weights (B, H, Q, K) or ``None``.
    """
    name = _entries[call.layer].own if name is None else name
    inputs = call.layer, call.queries, call.keys, call.values
    how = {"scaling": call.scaling, "dropout": call.dropout, **call.more}
    if name == "sdpa":
        sdpa = transformers("modeling_utils").ALL_ATTENTION_FUNCTIONS["sdpa"]
        return sdpa(*inputs, _added(call, only_where_needed=True), **how)
    # Other kernels take other masks: the plain formula gives the same numbers.
    return eager_of(call.layer)(*inputs, _added(call), **how)


def _added(call: Call, only_where_needed: bool = False) -> Tensor | None:
    """The mask as floats that are added to the scores; a position bias goes by its own name."""
    if call.mask is None or (call.added is None and only_where_needed):
        return call.mask
    queries = call.queries
    added = queries.new_zeros(()) if call.added is None else call.added
    return torch.where(call.mask, added, torch.finfo(queries.dtype).min)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **more: Any,
) -> tuple[Tensor, Tensor | None]:
    """What the library calls in place of its own function."""
    entry = _entries.get(module)
    if entry is None:
        raise RuntimeError(
            "this is the copy of a model that attends by another function, and the copy has none: "
            "call use_attention on the copy, with a function or with None"
        )
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    call = Call(module, query, key, value, None, scaling, dropout, None, more)
    mask, added = _as_bool(attention_mask, key.shape[-2])
    call = replace(call, mask=_chosen_keys(mask, call), added=added)
    return (entry.handler or library_attention)(call)


def _as_bool(mask: Tensor | None, num_keys: int) -> tuple[Tensor | None, Tensor | None]:
    """A mask of floats that are added, as a boolean mask and what it adds where one may look."""
    if mask is None:
        return None, None
    mask = mask[..., :num_keys]
    if mask.dtype == torch.bool:
        return mask, None
    visible = mask > torch.finfo(mask.dtype).min / 2
    added = mask.masked_fill(~visible, 0)
    return visible, added if added.any() else None


def _chosen_keys(mask: Tensor | None, call: Call) -> Tensor | None:
    """Where an indexer chose keys for each query, as in DeepSeek-V3.2, the others are hidden."""
    if call.more.get("block_indices") is not None or call.more.get("cache") is not None:
        raise NotImplementedError(
            f"{type(call.layer).__name__} attends to blocks that its kernel reads by number: "
            "no function of queries, keys, values and a mask can stand in its place"
        )
    chosen = call.more.pop("indices", None)  # (B, Q, as many keys as were chosen)
    if chosen is None:
        return mask
    shape = (*chosen.shape[:2], call.keys.shape[-2])
    seen = torch.zeros(shape, dtype=torch.bool, device=chosen.device)
    seen = seen.scatter(-1, chosen.long(), True)[:, None]  # (B, 1, Q, K)
    return seen if mask is None else mask & seen


def _register() -> None:
    masks = transformers("masking_utils")
    transformers().AttentionInterface.register(NAME, _attend)
    # The mask for ``eager``: every model knows it, and some add to it (DeepSeek-V4).
    masks.AttentionMaskInterface.register(NAME, masks.eager_mask)


def _all_layers(model: nn.Module) -> list[nn.Module]:
    return [layer for numbered in attention_layers(model).values() for layer in numbered.values()]


def _implementation(part: nn.Module) -> str | None:
    """The name that a layer's configuration holds; the library's documents read it so, too."""
    return part.config._attn_implementation


def _owners(model: nn.Module) -> dict[int, nn.Module]:
    """By the identity of each configuration the model, or part of one, that can set its name."""
    owners: dict[int, nn.Module] = {}
    for part in model.modules():
        if hasattr(part, "set_attn_implementation"):
            owners.setdefault(id(part.config), part)
    return owners


def _keys(layers: list[nn.Module], owners: dict[int, nn.Module]) -> list[int]:
    keys = list(dict.fromkeys(id(layer.config) for layer in layers))
    if any(key not in owners for key in keys):
        raise TypeError(
            "this needs the model that holds the attention layers, as the transformers library "
            "made it: the layers alone do not look up their function anew"
        )
    return keys


def _set(owners: dict[int, nn.Module], names: Mapping[int, str | None]) -> None:
    for key in owners:  # a whole comes before its parts, whose names it may set
        if key in names:
            owners[key].set_attn_implementation({"": names[key]})
            if names[key] == NAME and _implementation(owners[key]) != NAME:
                raise TypeError(
                    f"{type(owners[key]).__name__} cannot be told by which function to attend: it "
                    "does not use the AttentionInterface of the transformers library"
                )
