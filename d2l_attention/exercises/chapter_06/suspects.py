"""Implementations that the student's test of 6.6 has to accept, and others to reject."""

import torch

from d2l_attention.exercises.chapter_06 import parts
from d2l_attention.exercises.chapter_06.parts import multi_head_with, right


def other_last_digits(*inputs, **named):
    """Right as well: another order of sums gives other last digits."""
    output = right(*inputs, **named)
    return torch.nextafter(output, torch.full_like(output, torch.inf))


def nothing_like_it(*inputs, **named):
    return torch.zeros(1)


def zeros(*inputs, **named):
    return torch.zeros_like(right(*inputs, **named))


cut_by_view = multi_head_with(split=parts.by_view)
merged_by_reshape = multi_head_with(merge=parts.reshaped)
heads_summed = multi_head_with(merge=parts.summed)
first_head_for_all = multi_head_with(project=parts.first_head_for_all)
scaled_by_all = multi_head_with(scale=parts.root_of_all_heads)
mask_on_heads = multi_head_with(hide=parts.on_heads)

BROKEN = {
    cut_by_view: "cuts the heads by `view` alone",
    merged_by_reshape: "merges the heads by `reshape` alone",
    heads_summed: "sums the heads instead of concatenating them",
    first_head_for_all: "gives every head the first head's columns of W_q, W_k and W_v",
    scaled_by_all: "divides the scores by the root of D instead of D / H",
    mask_on_heads: "lays the mask of sentence h on head h where B = H, and is right elsewhere",
}
