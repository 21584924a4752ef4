"""Exercises of chapter 6: heads cut, attended in, merged, and how to prove it."""

from d2l_attention.exercises.chapter_06.find_the_bugs import find_the_bugs
from d2l_attention.exercises.chapter_06.head_without_a_question import head_without_a_question
from d2l_attention.exercises.chapter_06.heads_by_hand import heads_by_hand
from d2l_attention.exercises.chapter_06.multi_head import write_multi_head
from d2l_attention.exercises.chapter_06.split_heads import write_split_heads
from d2l_attention.exercises.chapter_06.write_the_test import write_the_test

TITLE = "Multi-head attention"

EXERCISES = [
    heads_by_hand,
    head_without_a_question,
    write_split_heads,
    write_multi_head,
    find_the_bugs,
    write_the_test,
]
