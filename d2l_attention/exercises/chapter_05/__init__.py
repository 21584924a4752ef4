"""Exercises of chapter 5: a decoder that looks back, how it is trained and how it is judged."""

from d2l_attention.exercises.chapter_05.attention_step import write_attention_step
from d2l_attention.exercises.chapter_05.error_rate import error_rate_by_hand
from d2l_attention.exercises.chapter_05.one_look import look_by_hand
from d2l_attention.exercises.chapter_05.run_decoder import repair_run_decoder
from d2l_attention.exercises.chapter_05.teacher_forcing import write_teacher_forcing
from d2l_attention.exercises.chapter_05.translate import repair_translate
from d2l_attention.exercises.chapter_05.write_the_test import write_the_test

TITLE = "Bahdanau attention"

EXERCISES = [
    look_by_hand,
    error_rate_by_hand,
    write_attention_step,
    write_teacher_forcing,
    repair_run_decoder,
    repair_translate,
    write_the_test,
]
