"""Exercises of chapter 4: masks, where they act, and how to prove that they work."""

from d2l_attention.exercises.chapter_04.attend import find_the_bugs
from d2l_attention.exercises.chapter_04.by_hand import share_of_the_first, weights_by_hand
from d2l_attention.exercises.chapter_04.decoder_lens import write_decoder_lens
from d2l_attention.exercises.chapter_04.hides_padding import write_the_test
from d2l_attention.exercises.chapter_04.masked_softmax import write_masked_softmax
from d2l_attention.exercises.chapter_04.mean_loss import write_mean_loss

TITLE = "Masked softmax"

EXERCISES = [
    weights_by_hand,
    write_masked_softmax,
    share_of_the_first,
    write_decoder_lens,
    write_mean_loss,
    find_the_bugs,
    write_the_test,
]
