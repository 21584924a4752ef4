"""Exercises of chapter 3: scores, what the dot product leaves out, and 1/sqrt(d)."""

from d2l_attention.exercises.chapter_03.all_scores import repair_the_scores
from d2l_attention.exercises.chapter_03.attention import repair_the_attention
from d2l_attention.exercises.chapter_03.distance_score import write_distance_score
from d2l_attention.exercises.chapter_03.like_finds_like import find_the_weights
from d2l_attention.exercises.chapter_03.product_or_distance import product_or_distance
from d2l_attention.exercises.chapter_03.shifted_entries import shifted_entries
from d2l_attention.exercises.chapter_03.write_the_test import write_the_test

TITLE = "Scoring functions"

EXERCISES = [
    product_or_distance,
    repair_the_scores,
    shifted_entries,
    write_distance_score,
    repair_the_attention,
    write_the_test,
    find_the_weights,
]
