"""An exercise of an instructor's own: the example of a private folder."""

from d2l_attention.exercises.chapter_50.sharpest import sharpest_query

TITLE = "A quiz of our own"

EXERCISES = [sharpest_query]
