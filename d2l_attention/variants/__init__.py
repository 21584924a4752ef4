"""Attention in other forms: fewer keys and values, fewer links, other mathematics."""

from d2l_attention.variants.bigbird import BigBirdAttention
from d2l_attention.variants.global_local import GlobalLocalAttention
from d2l_attention.variants.grouped import GroupedQueryAttention
from d2l_attention.variants.hyena import HyenaOperator, long_convolution
from d2l_attention.variants.linear import (
    LinearAttention,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
)
from d2l_attention.variants.low_rank import LinformerAttention
from d2l_attention.variants.multi_token import MultiTokenAttention
from d2l_attention.variants.object_queries import LearnedQueries
from d2l_attention.variants.swin import WindowAttention, merge_windows, partition_windows
from d2l_attention.variants.window import SlidingWindowAttention

__all__ = [
    "BigBirdAttention",
    "GlobalLocalAttention",
    "GroupedQueryAttention",
    "HyenaOperator",
    "LearnedQueries",
    "LinearAttention",
    "LinformerAttention",
    "MultiTokenAttention",
    "SlidingWindowAttention",
    "WindowAttention",
    "elu_plus_one",
    "linear_attention",
    "linear_attention_step",
    "long_convolution",
    "merge_windows",
    "partition_windows",
]
