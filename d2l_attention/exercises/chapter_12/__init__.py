"""Exercises of chapter 12, the bug museum: one exhibit a file, and for each the test to write."""

from collections.abc import Callable

from d2l_attention.exercises.chapter_12._exhibit import MUSEUM, Exhibit
from d2l_attention.exercises.chapter_12.causal_leak import causal_leak
from d2l_attention.exercises.chapter_12.cut_gradient import cut_gradient
from d2l_attention.exercises.chapter_12.fill_in_place import fill_in_place
from d2l_attention.exercises.chapter_12.finite_fill import finite_fill
from d2l_attention.exercises.chapter_12.half_precision import half_precision
from d2l_attention.exercises.chapter_12.heads_for_tokens import heads_for_tokens
from d2l_attention.exercises.chapter_12.hidden_by_each_other import hidden_by_each_other
from d2l_attention.exercises.chapter_12.inverted_mask import inverted_mask
from d2l_attention.exercises.chapter_12.mask_after_softmax import mask_after_softmax
from d2l_attention.exercises.chapter_12.mask_on_heads import mask_on_heads
from d2l_attention.exercises.chapter_12.nothing_to_see import nothing_to_see
from d2l_attention.exercises.chapter_12.odd_size import odd_size
from d2l_attention.exercises.chapter_12.only_while_training import only_while_training
from d2l_attention.exercises.chapter_12.padding_in_the_loss import padding_in_the_loss
from d2l_attention.exercises.chapter_12.position_zero import position_zero
from d2l_attention.exercises.chapter_12.positions_not_added import positions_not_added
from d2l_attention.exercises.chapter_12.repaired_dropout import repaired_dropout
from d2l_attention.exercises.chapter_12.scale_by_d import scale_by_d
from d2l_attention.exercises.chapter_12.softmax_axis import softmax_axis
from d2l_attention.exercises.chapter_12.swapped_bleu import swapped_bleu
from d2l_attention.exercises.chapter_12.view_for_transpose import view_for_transpose

TITLE = "The bug museum"

EXERCISES = [
    softmax_axis,
    mask_after_softmax,
    inverted_mask,
    nothing_to_see,
    fill_in_place,
    finite_fill,
    half_precision,
    mask_on_heads,
    view_for_transpose,
    scale_by_d,
    heads_for_tokens,
    hidden_by_each_other,
    positions_not_added,
    odd_size,
    position_zero,
    causal_leak,
    only_while_training,
    padding_in_the_loss,
    swapped_bleu,
    repaired_dropout,
    cut_gradient,
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
