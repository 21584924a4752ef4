"""Exercises of chapter 11: caches, rules, sinks, the delta rule, and choices that must not leak."""

from d2l_attention.exercises.chapter_11.absorb import write_absorb
from d2l_attention.exercises.chapter_11.cache_by_hand import latent_cache_by_hand
from d2l_attention.exercises.chapter_11.delta_step import write_delta_step
from d2l_attention.exercises.chapter_11.differential import write_differential
from d2l_attention.exercises.chapter_11.rule import write_rule
from d2l_attention.exercises.chapter_11.sink_softmax import repair_sink_softmax
from d2l_attention.exercises.chapter_11.write_the_test import write_the_test

TITLE = "Attention in today's models"

EXERCISES = [
    latent_cache_by_hand,
    write_rule,
    write_absorb,
    repair_sink_softmax,
    write_delta_step,
    write_differential,
    write_the_test,
]
