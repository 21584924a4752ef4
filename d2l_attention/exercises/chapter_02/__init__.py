"""Exercises of chapter 2: weights from similarity, and what they average."""

from d2l_attention.exercises.chapter_02.effective_keys import count_effective_keys
from d2l_attention.exercises.chapter_02.leave_one_out import write_leave_one_out
from d2l_attention.exercises.chapter_02.parabola import write_parabola
from d2l_attention.exercises.chapter_02.smooth import repair_smooth
from d2l_attention.exercises.chapter_02.triangle_by_hand import triangle_by_hand
from d2l_attention.exercises.chapter_02.unit_length import keys_of_unit_length
from d2l_attention.exercises.chapter_02.write_a_test import write_pooling_test

TITLE = "Attention pooling by similarity"

EXERCISES = [
    triangle_by_hand,
    write_parabola,
    repair_smooth,
    count_effective_keys,
    write_leave_one_out,
    write_pooling_test,
    keys_of_unit_length,
]
