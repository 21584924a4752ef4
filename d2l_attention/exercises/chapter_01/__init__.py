"""Exercises of chapter 1: from scores to weights, from weights to an answer, and back."""

from d2l_attention.exercises.chapter_01.all_pairs import repair_the_pairing
from d2l_attention.exercises.chapter_01.attend import write_attend
from d2l_attention.exercises.chapter_01.attention_by_hand import pool_by_hand
from d2l_attention.exercises.chapter_01.gradient import write_the_gradient
from d2l_attention.exercises.chapter_01.one_score_rises import one_score_rises
from d2l_attention.exercises.chapter_01.temperature import find_the_temperature

TITLE = "Queries, keys and values"

EXERCISES = [
    pool_by_hand,
    write_attend,
    one_score_rises,
    find_the_temperature,
    repair_the_pairing,
    write_the_gradient,
]
