"""Exercises of chapter 9: what a form saves, whom it shows, and whether it keeps the order."""

from d2l_attention.exercises.chapter_09.cache_by_hand import cache_by_hand
from d2l_attention.exercises.chapter_09.groups import mend_the_groups
from d2l_attention.exercises.chapter_09.links import count_the_links
from d2l_attention.exercises.chapter_09.recurrence import write_linear_step
from d2l_attention.exercises.chapter_09.swin import write_shifted_windows
from d2l_attention.exercises.chapter_09.window import write_window_mask
from d2l_attention.exercises.chapter_09.write_the_test import write_the_test

TITLE = "Attention in all its forms"

EXERCISES = [
    cache_by_hand,
    count_the_links,
    write_window_mask,
    mend_the_groups,
    write_linear_step,
    write_shifted_windows,
    write_the_test,
]
