"""Wrong answers to 9.6, as students give them, beside those made of ``swin_parts.py``."""

import torch

from d2l_attention.exercises.chapter_09 import swin_parts as parts
from d2l_attention.exercises.chapter_09.swin_parts import shifted_with

right = shifted_with()


def windows_alone(X, window, shift):
    return right(X, window, shift)[0]


def batch_left_apart(X, window, shift):
    windows, mask = right(X, window, shift)
    return windows.unflatten(0, (len(X), -1)), mask


def squares_kept(X, window, shift):
    windows, mask = right(X, window, shift)
    return windows.unflatten(1, (window, window)), mask


def added_to_scores(X, window, shift):
    windows, mask = right(X, window, shift)
    return windows, torch.zeros(mask.shape).masked_fill(~mask, -100.0)


def mask_for_each_map(X, window, shift):
    windows, mask = right(X, window, shift)
    return windows, mask.repeat(len(X), 1, 1)


def no_mask_without_shift(X, window, shift):
    windows, mask = right(X, window, shift)
    return windows, mask if shift else None


def labels_alone(X, window, shift):
    windows, _ = right(X, window, shift)
    labels = parts.four_regions(*X.shape[1:3], window, shift)
    return windows, parts.row_by_row(labels[None, ..., None], window)[..., 0] == 0


def rows_for_columns(X, window, shift):
    B, R, C, D = X.shape
    moved = X.roll((-shift, -shift), dims=(1, 2))
    windows = moved.reshape(B, C // window, window, R // window, window, D).transpose(2, 3)
    return windows.reshape(-1, window**2, D), right(X, window, shift)[1]


def shift_by_half(X, window, shift):
    return right(X, window, window // 2)


def without_return(X, window, shift):
    right(X, window, shift)
