"""Masks as functions, for PyTorch's FlexAttention: it compiles them, and skips hidden blocks.

A rule is a function of sentence, head, query and key that says whether the query may see the key;
``torch.nn.attention.flex_attention`` has ``and_masks`` and ``or_masks`` to put rules together,
``create_mask`` to make the dense mask of one, ``create_block_mask`` to find the blocks of which
nothing is visible, and ``flex_attention``, which is fast only inside ``torch.compile``.
"""

import shutil
from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.attention.checks import check_whole

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (b, h, query, key) -> bool


def causal_rule(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """No look at later positions: ``causal_mask`` as a rule."""
    return key <= query


def window_rule(window: int) -> Rule:
    """``window`` neighbours on each side: ``sliding_window_mask`` as a rule.

    Errors: ``ValueError`` unless ``window`` is a whole number from 0 on.
    """
    window = min(check_whole("window", window, 0), 2**62)
    return lambda b, h, query, key: (query - key <= window) & (key - query <= window)


def why_not_compiled() -> str | None:
    """Why ``torch.compile`` cannot make a kernel on this machine; ``None`` where it can.

    On the CPU it writes C++, and needs a compiler for it.
    """
    if torch.cuda.is_available() or any(map(shutil.which, ("g++", "clang++", "cl"))):
        return None
    return "no C++ compiler was found (g++, clang++ or cl): install one, or use a GPU"
