"""What a part is called in the view: 'block 2', 'cross-attention', not 'blks.block1.attention2'."""

import re

from torch import nn

from d2l_attention.models.transformer_blocks import TransformerDecoderBlock, TransformerEncoderBlock

# What the course's blocks and PyTorch's call their parts, in words.
IN_WORDS = {
    "attention1": "self-attention",
    "attention2": "cross-attention",
    "self_attn": "self-attention",
    "self_attention": "self-attention",
    "cross_attn": "cross-attention",
    "encoder_attn": "cross-attention",
    "multihead_attn": "cross-attention",
    "addnorm1": "add and norm 1",
    "addnorm2": "add and norm 2",
    "addnorm3": "add and norm 3",
    "ffn": "network",
    "mlp": "network",
    "pos_encoding": "positions",
    "ln": "norm",
}
# A list's name, and what one of its entries is called.
ONE_OF = {"blks": "block", "blocks": "block", "layers": "layer", "layer": "layer", "h": "layer"}


def name_of(module: nn.Module, path: str, above: nn.Module | None, above_path: str) -> str:
    """The name of the part at ``path``, a dotted path, within the part above it."""
    if above is None:
        return type(module).__name__
    inside = path_within(path, above_path)
    if not inside:  # it has called itself
        return type(module).__name__
    *before, last = inside.split(".")
    if isinstance(above, TransformerEncoderBlock) and last == "attention":
        return "self-attention"
    if isinstance(above, TransformerDecoderBlock | TransformerEncoderBlock) and last in IN_WORDS:
        return IN_WORDS[last]
    numbered = re.fullmatch(r"([a-z]*?)_?(\d+)", last)
    if numbered and not numbered[1]:  # an entry of a list
        number = int(numbered[2]) + 1
        return f"{ONE_OF.get(before[-1], before[-1])} {number}" if before else _kind(module, number)
    if numbered and before and numbered[1] in ("block", "layer"):
        return f"{numbered[1]} {int(numbered[2]) + 1}"  # the course counts its blocks from 0
    return IN_WORDS.get(last, last)


def path_within(path: str, above: str) -> str:
    """The path from the part ``above``; a path that does not lead through it stays whole."""
    if path == above:
        return ""
    return path.removeprefix(f"{above}.") if above else path


def _kind(module: nn.Module, number: int) -> str:
    return f"{number} {type(module).__name__}"


def all_different(names: list[str]) -> list[str]:
    """The second call of a part is called so: a place in the view has one name."""
    found: dict[str, int] = {}
    different = []
    for name in names:
        found[name] = found.get(name, 0) + 1
        different.append(name if found[name] == 1 else f"{name} (call {found[name]})")
    return different
