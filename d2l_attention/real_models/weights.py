"""Weights of the ``transformers`` library in the order in which this course's layers want them."""

import torch
from torch import Tensor, nn

from d2l_attention.attention.positional import RotaryEncoding, rotary_speeds
from d2l_attention.real_models.library import transformers


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear layer with copies of these. Shape: weight (out, in), bias (out,)."""
    made = nn.Linear(*reversed(weight.shape), bias=bias is not None, device="meta")
    made.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone())
    return made


def copy_of(layer: nn.Linear) -> nn.Linear:
    return linear(layer.weight, layer.bias)


def rows_of(layer: nn.Linear, rows: Tensor | slice, factor: float = 1.0) -> nn.Linear:
    """Some rows of a linear layer, in this order, times a factor."""
    bias = None if layer.bias is None else factor * layer.bias[rows]
    return linear(factor * layer.weight[rows], bias)


def in_pairs(num_heads: int, head_size: int) -> Tensor:
    """The order that makes neighbours of what the library turns together, in each head.

    It pairs column j with column j + d/2, this course 2j with 2j + 1, as the paper does. The scores
    are the same once queries and keys are put in this order. Shape: (H * d,).
    """
    half = torch.arange(head_size // 2)
    order = torch.stack((half, half + head_size // 2), dim=-1).flatten()
    return (torch.arange(num_heads)[:, None] * head_size + order).flatten()


def rms_norm(theirs: nn.Module) -> nn.RMSNorm:
    """The same norm in PyTorch's own class."""
    weight = theirs.weight
    made = nn.RMSNorm(len(weight), eps=theirs.variance_epsilon, device="meta")
    made.weight = nn.Parameter(weight.detach().clone())
    return made


def rotary(config, head_size: int) -> tuple[RotaryEncoding, float]:
    """The model's rotary positions, and by what it multiplies queries and keys beside them.

    Errors: ``ValueError`` for positions that turn only part of a head, each layer in its way, or
    otherwise in a longer text.
    """
    given = config.rope_parameters
    kind = given.get("rope_type", "several")
    if kind == "default":
        speeds, factor = rotary_speeds(head_size, given["rope_theta"]), 1.0
    elif kind == "several":
        raise ValueError(f"rotary positions that differ from layer to layer: {given}")
    elif kind in ("dynamic", "longrope"):  # other speeds beyond the length of the training
        raise ValueError(f"rotary positions that change with the length of the text: {given}")
    else:
        compute = transformers("modeling_rope_utils").ROPE_INIT_FUNCTIONS[kind]
        speeds, factor = compute(config, device=torch.device("cpu"))
    if 2 * len(speeds) != head_size:
        raise ValueError(
            f"rotary positions turn {2 * len(speeds)} columns of a head of {head_size}: this "
            "course's turn all"
        )
    return RotaryEncoding(head_size, speeds=speeds), factor
