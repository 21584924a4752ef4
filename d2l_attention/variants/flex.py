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

from d2l_attention.attention.checks import check_bool, check_valid_lens, check_whole

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (b, h, query, key) -> bool


def causal_rule(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """No look at later positions: ``causal_mask`` as a rule."""
    return key <= query


def window_rule(window: int) -> Rule:
    """``window`` neighbours on each side: ``sliding_window_mask`` as a rule.

    Errors: ``ValueError`` unless ``window`` is a whole number from 0 on.
    """
    check_whole("window", window, 0)
    return lambda b, h, query, key: (query - key <= window) & (key - query <= window)


def length_rule(valid_lens: Tensor, num_keys: int) -> Rule:
    """No padding: ``length_mask`` as a rule.

    Shape: valid_lens (B,).

    Errors: ``TypeError`` unless the lengths are integers, ``ValueError`` unless they are of
    shape (B,), from 0 to ``num_keys``.
    """
    check_valid_lens(valid_lens, num_keys)
    if valid_lens.ndim != 1:
        raise ValueError(f"valid_lens must have shape (B,), got {tuple(valid_lens.shape)}")
    return lambda b, h, query, key: key < valid_lens[b]


def global_rule(is_global: Tensor) -> Rule:
    """Some tokens see all and are seen by all: ``global_tokens_mask`` as a rule.

    Shape: is_global bool (n,).

    Errors: ``TypeError`` unless boolean, ``ValueError`` unless of one axis.
    """
    check_bool(is_global)
    if is_global.ndim != 1:
        raise ValueError(f"is_global must have shape (n,), got {tuple(is_global.shape)}")
    return lambda b, h, query, key: is_global[query] | is_global[key]


def why_not_compiled() -> str | None:
    """Why ``torch.compile`` cannot make a kernel on this machine; ``None`` where it can.

    On the CPU it writes C++, and needs a compiler for it.
    """
    if torch.cuda.is_available() or any(map(shutil.which, ("g++", "clang++", "cl"))):
        return None
    return "no C++ compiler was found (g++, clang++ or cl): install one, or use a GPU"
