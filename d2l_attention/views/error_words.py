"""What an error says on the view, with the shapes of the tensors that it was about."""

import ast
from collections.abc import Iterator
from types import FrameType
from typing import Any

from torch import Tensor, nn

from d2l_attention.views.listing import Listing
from d2l_attention.views.values import shape_text
from d2l_attention.views.words import whole

MOST_LETTERS = 500


def error_words(error: BaseException, traceback: Any, listing: Listing) -> str:
    """What was raised, and the shapes of the tensors in the expression that raised it."""
    try:
        said = whole(str(error)).split("\n")[0][:MOST_LETTERS]
    except Exception:  # a student's own exception may fail to say what it is
        said = ""
    said = f"{type(error).__name__}: {said}".removesuffix(": ")
    positions = list(traceback.tb_frame.f_code.co_positions())
    where = positions[traceback.tb_lasti // 2]
    attributes = ("lineno", "end_lineno", "col_offset", "end_col_offset")
    for node in ast.walk(listing.tree):
        if tuple(getattr(node, key, None) for key in attributes) == where:
            found = dict(operands(node, traceback.tb_frame))
            shapes = ", ".join(f"{name} {shape_text(value)}" for name, value in found.items())
            return f"{said.removesuffix('.')}. Shapes: {shapes}." if shapes else said
    return said


def operands(node: ast.AST, frame: FrameType) -> Iterator[tuple[str, Tensor]]:
    value = looked_up(node, frame)
    if isinstance(value, Tensor):
        yield ast.unparse(node), value
        return
    for part in ast.iter_child_nodes(node):
        yield from operands(part, frame)


def looked_up(node: ast.AST, frame: FrameType) -> Any:
    """The value of a name, a layer's attribute, a transposed matrix: nothing that runs code."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        owner = looked_up(node.value, frame)
        turned = isinstance(owner, Tensor) and owner.ndim > 1 and node.attr == "mT"
        if turned or isinstance(owner, nn.Module):
            return getattr(owner, node.attr, None)
    return None
