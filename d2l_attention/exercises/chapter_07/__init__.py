"""Exercises of chapter 7: where a token stands, added, turned in, or taken from the scores."""

from d2l_attention.exercises.chapter_07.add_positions import write_add_positions
from d2l_attention.exercises.chapter_07.by_hand import row_by_hand
from d2l_attention.exercises.chapter_07.find_the_bugs import find_the_bugs
from d2l_attention.exercises.chapter_07.rotate import write_rotate
from d2l_attention.exercises.chapter_07.two_words_swapped import two_words_swapped
from d2l_attention.exercises.chapter_07.write_the_test import write_the_test

TITLE = "Self-attention and positional encoding"

EXERCISES = [
    row_by_hand,
    two_words_swapped,
    write_add_positions,
    write_rotate,
    find_the_bugs,
    write_the_test,
]
