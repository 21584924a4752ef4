"""Exercises of chapter 13: an attention for real models, their configurations, and their heads."""

from d2l_attention.exercises.chapter_13.groups import write_groups
from d2l_attention.exercises.chapter_13.induction import write_induction_score
from d2l_attention.exercises.chapter_13.new_query import repair_new_queries
from d2l_attention.exercises.chapter_13.previous_token import find_previous_token_head
from d2l_attention.exercises.chapter_13.read_configuration import write_cache_numbers
from d2l_attention.exercises.chapter_13.sinks import write_sinks
from d2l_attention.exercises.chapter_13.write_the_test import write_the_test

TITLE = "Your attention in a real model"

EXERCISES = [
    write_groups,
    write_sinks,
    write_cache_numbers,
    repair_new_queries,
    write_the_test,
    find_previous_token_head,
    write_induction_score,
]
