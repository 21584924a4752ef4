"""A chapter's `build` cells, run alone: what a student can retype."""

import ast
import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import nn

from notebooks.publish.course import chosen
from notebooks.publish.text import read_text

MOST_LINES = 120
ALLOWED = {"math", "torch"}


def build_cells(number: str) -> list[str]:
    """The code of the chapter's cells with the tag `build`, in order."""
    (text,) = chosen([number])
    cells = read_text(text).cells
    return [cell.source for cell in cells if "build" in cell.metadata.get("tags", [])]


@cache
def built(number: str) -> dict:
    """The names that the chapter's build cells define, with nothing but torch and math beside."""
    names = {"torch": torch, "nn": nn, "F": F, "math": math}
    for source in build_cells(number):
        exec(compile(source, f"<build cell of chapter {number}>", "exec"), names)
    return names


def from_page(case: str):
    """What '06_PlainMultiHeadAttention' names: a function or a class of chapter 06."""
    number, name = case.split(" ")[0].split("_", maxsplit=1)
    return built(number)[name]


def imported_by(source: str) -> set[str]:
    """The packages that the code imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found
