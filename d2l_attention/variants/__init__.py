"""Attention in other forms: fewer keys and values, fewer links, other mathematics."""

from d2l_attention.attention.positional import rotary_speeds as rotary_speeds  # its older place
from d2l_attention.variants.bigbird import BigBirdAttention
from d2l_attention.variants.chosen_blocks import ChosenBlocksAttention, chosen_blocks_mask
from d2l_attention.variants.delta_rule import GatedDeltaNet, delta_rule, delta_rule_step
from d2l_attention.variants.flex import (
    causal_rule,
    why_not_compiled,
    window_rule,
)
from d2l_attention.variants.global_local import GlobalLocalAttention
from d2l_attention.variants.grouped import GroupedQueryAttention
from d2l_attention.variants.hyena import HyenaOperator, long_convolution
from d2l_attention.variants.indexer import IndexedAttention, Indexer, best_keys, follow_loss
from d2l_attention.variants.latent import MultiHeadLatentAttention
from d2l_attention.variants.linear import (
    LinearAttention,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
)
from d2l_attention.variants.longer_rotary import (
    interpolated_speeds,
    ntk_speeds,
    yarn_scale,
    yarn_speeds,
    yarn_speeds_by_pair,
)
from d2l_attention.variants.low_rank import LinformerAttention
from d2l_attention.variants.multi_token import MultiTokenAttention
from d2l_attention.variants.object_queries import LearnedQueries
from d2l_attention.variants.sinks import SinkAttention
from d2l_attention.variants.swin import WindowAttention, merge_windows, partition_windows
from d2l_attention.variants.window import SlidingWindowAttention

__all__ = [
    "BigBirdAttention",
    "ChosenBlocksAttention",
    "GatedDeltaNet",
    "GlobalLocalAttention",
    "GroupedQueryAttention",
    "HyenaOperator",
    "IndexedAttention",
    "Indexer",
    "LearnedQueries",
    "LinearAttention",
    "LinformerAttention",
    "MultiHeadLatentAttention",
    "MultiTokenAttention",
    "SinkAttention",
    "SlidingWindowAttention",
    "WindowAttention",
    "best_keys",
    "causal_rule",
    "chosen_blocks_mask",
    "delta_rule",
    "delta_rule_step",
    "elu_plus_one",
    "follow_loss",
    "interpolated_speeds",
    "linear_attention",
    "linear_attention_step",
    "long_convolution",
    "merge_windows",
    "ntk_speeds",
    "partition_windows",
    "why_not_compiled",
    "window_rule",
    "yarn_scale",
    "yarn_speeds",
    "yarn_speeds_by_pair",
]
