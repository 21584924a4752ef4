"""Attention over several processes: data, tensor and context parallel, small enough to read.

``run_processes`` starts a group on this machine. ``python -m d2l_attention.scale.parallel``
compares each way of sharing the work with one process, and under ``torchrun`` on any number of
machines.
"""

from d2l_attention.scale.parallel.checks import Check, check_all
from d2l_attention.scale.parallel.context import ring_attention, share_sequence
from d2l_attention.scale.parallel.data import (
    data_parallel_gradients,
    share_batch,
    shared_token_mean,
    squared_error,
)
from d2l_attention.scale.parallel.launch import run_processes
from d2l_attention.scale.parallel.tensor import split_ffn_over, split_heads_over
from d2l_attention.scale.parallel.traffic import (
    LayerShape,
    Times,
    all_reduce,
    bytes_per_layer,
    flops_per_layer,
    layer_times,
)

__all__ = [
    "Check",
    "LayerShape",
    "Times",
    "all_reduce",
    "bytes_per_layer",
    "check_all",
    "data_parallel_gradients",
    "flops_per_layer",
    "layer_times",
    "ring_attention",
    "run_processes",
    "share_batch",
    "share_sequence",
    "shared_token_mean",
    "split_ffn_over",
    "split_heads_over",
    "squared_error",
]
