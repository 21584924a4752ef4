"""The way to the ``transformers`` library, which nothing here imports before it is used.

A model of that library attends through its ``AttentionInterface``: each attention layer asks it for
a function by the name that stands in the layer's configuration. What is here finds these layers.
"""

import importlib
import inspect
from collections.abc import Iterable
from types import ModuleType

from torch import nn

INSTALL = 'pip install "transformers>=5.23"'


def transformers(part: str = "") -> ModuleType:
    """The library, or a part of it such as ``"masking_utils"``.

    Errors: ``ImportError`` with the command that installs it.
    """
    try:
        return importlib.import_module(f"transformers.{part}" if part else "transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise ImportError(f"real models need the transformers library: {INSTALL}") from None


def is_attention(module: nn.Module) -> bool:
    """Whether this layer asks the library's ``AttentionInterface`` for its attention function."""
    return "get_interface" in _names_in_forward(module)


def eager_of(module: nn.Module):
    """The function that this layer calls under the name ``eager``, from the layer's own file."""
    forward = inspect.unwrap(type(module).forward)
    name = next(n for n in _names_in_forward(module) if n.endswith("eager_attention_forward"))
    return forward.__globals__[name]


def attention_layers(model: nn.Module) -> dict[str, dict[int, nn.Module]]:
    """The attention layers of a model: for each stack of layers, its modules by their number.

    A model with one stack has the one key ``""``, an encoder-decoder the keys ``"encoder"``,
    ``"decoder"`` and ``"cross"``; with several towers a stack is called by its path. The number is
    the layer's own: in a model whose other layers do not attend, some numbers are missing.

    Errors: ``TypeError`` for a model in which nothing attends through the interface.
    """
    stacks: dict[str, dict[int, nn.Module]] = {}
    two_sides = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    for path, module in model.named_modules():
        if is_attention(module):
            layers = stacks.setdefault(_stack(path, two_sides), {})
            number = getattr(module, "layer_idx", None)
            layers[len(layers) if number is None or number in layers else number] = module
    if not stacks:
        raise TypeError(
            f"{type(model).__name__} has no layer that attends through the AttentionInterface of "
            "the transformers library, so its attention can be neither changed nor read"
        )
    return {"": next(iter(stacks.values()))} if len(stacks) == 1 else stacks


def choose(
    stacks: dict[str, dict[int, nn.Module]], layers: Iterable[int] | None
) -> dict[str, dict[int, nn.Module]]:
    """Of ``attention_layers(model)`` those with the numbers ``layers``; ``None`` is all of them.

    Errors: ``ValueError`` for a number that no stack has.
    """
    if layers is None:
        return stacks
    asked = [layers] if isinstance(layers, int) else list(layers)
    known = sorted({number for numbered in stacks.values() for number in numbered})
    unknown = [number for number in asked if number not in known]
    if unknown or not asked:
        raise ValueError(f"layers must be some of {known}, those that attend, got {asked}")
    chosen = {
        name: {number: numbered[number] for number in asked if number in numbered}
        for name, numbered in stacks.items()
    }
    return {name: numbered for name, numbered in chosen.items() if numbered}


def _names_in_forward(module: nn.Module) -> tuple[str, ...]:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return () if code is None else code.co_names


def _stack(path: str, two_sides: bool) -> str:
    parts = path.split(".")
    first = next((i for i, part in enumerate(parts) if part.isdigit()), len(parts))
    is_cross = any("cross" in part or part.lower().startswith("enc") for part in parts[first:])
    if two_sides:
        return "encoder" if "encoder" in parts[:first] else "cross" if is_cross else "decoder"
    return ".".join(parts[:first]) + (" cross" if is_cross else "")
