"""Exercises of chapter 8: norms, masks and a cache, and how to prove that nothing leaks."""

from d2l_attention.exercises.chapter_08.decode_step import repair_decode_step
from d2l_attention.exercises.chapter_08.decoder_block import write_decoder_block
from d2l_attention.exercises.chapter_08.decoding_cost import count_the_cost
from d2l_attention.exercises.chapter_08.norms_by_hand import norms_by_hand
from d2l_attention.exercises.chapter_08.three_masks import write_three_masks
from d2l_attention.exercises.chapter_08.write_the_test import write_the_test

TITLE = "The Transformer"

EXERCISES = [
    norms_by_hand,
    count_the_cost,
    write_three_masks,
    write_decoder_block,
    repair_decode_step,
    write_the_test,
]
