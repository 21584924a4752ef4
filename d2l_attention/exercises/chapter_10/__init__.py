"""Exercises of chapter 10: softmax in one pass, and attention shared by several processes."""

from d2l_attention.exercises.chapter_10.bytes_moved import predict_bytes
from d2l_attention.exercises.chapter_10.memory_by_hand import memory_by_hand
from d2l_attention.exercises.chapter_10.merge import write_merge
from d2l_attention.exercises.chapter_10.online_sums import write_online_sums
from d2l_attention.exercises.chapter_10.process_loss import repair_process_loss
from d2l_attention.exercises.chapter_10.share_of_output import write_share_of_output
from d2l_attention.exercises.chapter_10.tiled_attention import repair_tiled_attention

TITLE = "Attention at scale"

EXERCISES = [
    memory_by_hand,
    predict_bytes,
    write_online_sums,
    repair_tiled_attention,
    write_merge,
    repair_process_loss,
    write_share_of_output,
]
