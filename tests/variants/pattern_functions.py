"""Layers with a pattern, made and called at once: what most tests of them want."""

from d2l_attention.variants import BigBirdAttention, GlobalLocalAttention, SlidingWindowAttention


def sliding_window_attention(*inputs, window, dilation=1, dropout=0.0, **options):
    return SlidingWindowAttention(window, dropout, dilation=dilation)(*inputs, **options)


def global_local_attention(*inputs, window, num_global, dropout=0.0, **options):
    return GlobalLocalAttention(window, num_global, dropout)(*inputs, **options)


def bigbird_attention(
    *inputs, block_size, window, num_global, num_random, seed, dropout=0.0, **options
):
    layer = BigBirdAttention(block_size, window, num_global, num_random, dropout, seed=seed)
    return layer(*inputs, **options)
