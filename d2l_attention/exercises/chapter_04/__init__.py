"""Exercises of chapter 4: masks, where they act, and how to prove that they work."""

from d2l_attention.exercises.chapter_04.decoder_lens import write_decoder_lens
from d2l_attention.exercises.chapter_04.find_the_bugs import find_the_bugs
from d2l_attention.exercises.chapter_04.leak_through_layers import leak_through_layers
from d2l_attention.exercises.chapter_04.masked_softmax import write_masked_softmax
from d2l_attention.exercises.chapter_04.mean_loss import write_mean_loss
from d2l_attention.exercises.chapter_04.weights_by_hand import weights_by_hand
from d2l_attention.exercises.chapter_04.write_the_test import write_the_test

TITLE = "Masked softmax"

EXERCISES = [
    weights_by_hand,
    write_masked_softmax,
    leak_through_layers,
    write_decoder_lens,
    write_mean_loss,
    find_the_bugs,
    write_the_test,
]
