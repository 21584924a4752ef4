"""Exercises of chapter 12, the bug museum: one exhibit a file, and for most the test to write."""

from collections.abc import Callable

from d2l_attention.exercises.chapter_12._exhibit import MUSEUM, Exhibit
from d2l_attention.exercises.chapter_12.cut_gradient import cut_gradient
from d2l_attention.exercises.chapter_12.first_leak import find_first_leak
from d2l_attention.exercises.chapter_12.half_precision import half_precision
from d2l_attention.exercises.chapter_12.hidden_by_each_other import hidden_by_each_other
from d2l_attention.exercises.chapter_12.inverted_mask import inverted_mask
from d2l_attention.exercises.chapter_12.loss_in_parts import loss_in_parts
from d2l_attention.exercises.chapter_12.mask_on_heads import mask_on_heads
from d2l_attention.exercises.chapter_12.nothing_to_see import nothing_to_see
from d2l_attention.exercises.chapter_12.only_while_training import only_while_training
from d2l_attention.exercises.chapter_12.position_zero import position_zero
from d2l_attention.exercises.chapter_12.softmax_axis import softmax_axis
from d2l_attention.exercises.chapter_12.window_size import window_size

TITLE = "The bug museum"

EXERCISES = [
    softmax_axis,
    mask_on_heads,
    position_zero,
    only_while_training,
    cut_gradient,
    find_first_leak,
    inverted_mask,
    nothing_to_see,
    half_precision,
    hidden_by_each_other,
    window_size,
    loss_in_parts,
]


def right(exhibit_id: str) -> Callable:
    """The right implementation of an exhibit such as '12.1'. Errors: ``LookupError``."""
    return _exhibit(exhibit_id).right


def broken(exhibit_id: str) -> Callable:
    """The broken implementation of an exhibit such as '12.1'. Errors: ``LookupError``."""
    return _exhibit(exhibit_id).broken


def _exhibit(exhibit_id: str) -> Exhibit:
    if exhibit_id not in MUSEUM:
        raise LookupError(f"exhibit must be one of {', '.join(MUSEUM)}, got {exhibit_id!r}")
    return MUSEUM[exhibit_id]
