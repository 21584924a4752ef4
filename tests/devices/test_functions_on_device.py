"""Every public function on the device: the CPU's numbers, and the CPU's gradients."""

import types
from functools import partial

import pytest
import torch
from both import same_on
from parts import LENGTHS, B, D, K, Q

import d2l_attention as ours
from d2l_attention import variants
from d2l_attention.scale import online_softmax as scale

# What has nothing to do with a device, and why.
NO_DEVICE = {
    "bigbird_mask": "takes only numbers: what it makes is on the CPU, and layers move it",
    "check_shape": "reads a shape",
    "interpolated_speeds": "takes only numbers; speeds are kept on the CPU, which has float64",
    "ntk_speeds": "takes only numbers",
    "rotary_speeds": "takes only numbers",
    "show_source": "shows text",
    "try_gpu": "names a device",
    "why_not_compiled": "gives text",
    "yarn_scale": "gives a number",
    "yarn_speeds": "takes only numbers",
    "yarn_speeds_by_pair": "takes only numbers",
}
MASK = torch.arange(Q * K).reshape(Q, K) % 3 > 0


def rows(*shape):
    return torch.randn(B, *shape)


def qkv():
    return rows(Q, D), rows(K, D), rows(K, 4)


def positions():
    return torch.arange(Q)[:, None], torch.arange(K)


def alike():
    return rows(K, D), rows(K, D) / D


def in_two_parts(queries, keys, values):
    halves = zip(keys.split(4, dim=1), values.split(4, dim=1), strict=True)
    parts = [scale.partial_attention(queries, *half) for half in halves]
    return scale.merge_partial(*zip(*parts, strict=True))


def step(function):
    """Two tokens, one after the other: the second finds the state of the first."""

    def run(query, key, value, *more):
        first, state = function(query, key, value, *more)
        return first, *function(key, query, value, *more, state=state)

    return run


# What each function is called with.
INPUTS = {
    "additive_score": lambda: (rows(Q, D), rows(K, D), torch.randn(D)),
    "attention_mask": lambda: (LENGTHS, MASK),
    "attention_pooling": lambda: (rows(Q, K), rows(K, 4), LENGTHS),
    "best_keys": lambda: (rows(Q, K),),
    "bilinear_score": lambda: (rows(Q, D), rows(K, 4), torch.randn(D, 4)),
    "boxcar": lambda: (rows(K),),
    "causal_mask": lambda: (rows(K),),
    "causal_rule": positions,
    "chosen_blocks_mask": lambda: (rows(Q, D), rows(K, D), LENGTHS),
    "combine_masks": lambda: (MASK, torch.arange(K) < 3),
    "constant": lambda: (rows(K),),
    "delta_rule": lambda: (*alike(), rows(K, 4), rows(K).sigmoid(), None, LENGTHS),
    "delta_rule_step": lambda: (rows(D), rows(D), rows(4), rows().sigmoid()),
    "dot_product_attention": lambda: (*qkv(), LENGTHS),
    "dot_score": lambda: (rows(Q, D), rows(K, D)),
    "elu_plus_one": lambda: (rows(K),),
    "epanechikov": lambda: (rows(K),),
    "follow_loss": lambda: (rows(K, K), torch.randn(B, 2, K, K)),
    "gaussian": lambda: (rows(K),),
    "gaussian_score": lambda: (rows(Q, D), rows(K, D), torch.tensor(0.7)),
    "global_tokens_mask": lambda: (torch.arange(K) == 2,),
    "length_mask": lambda: (LENGTHS,),
    "linear_attention": lambda: (*qkv(), LENGTHS),
    "linear_attention_step": lambda: (rows(D), rows(D), rows(4)),
    "long_convolution": lambda: (rows(K, D), torch.randn(K, D)),
    "masked_softmax": lambda: (rows(Q, K), LENGTHS),
    "merge_partial": qkv,
    "merge_windows": lambda: (torch.randn(12, 4, D),),
    "nadaraya_watson": lambda: (torch.randn(K), torch.randn(K), torch.randn(Q)),
    "online_softmax": lambda: (rows(Q, K),),
    "partition_windows": lambda: (rows(4, 6, D),),
    "scaled_dot_score": lambda: (rows(Q, D), rows(K, D)),
    "sliding_window_mask": lambda: (rows(K),),
    "tiled_attention": qkv,
    "window_rule": positions,
}
# How a function is called that takes more than tensors.
CALLS = {
    "attention_mask": lambda lens, mask: ours.attention_mask((B, Q, K), lens, mask, True),
    "best_keys": lambda X: variants.best_keys(X, None, 2),
    "causal_mask": lambda X: ours.causal_mask(Q, K, device=X.device),
    "causal_rule": lambda i, j: variants.causal_rule(i, i, i, j),
    "chosen_blocks_mask": partial(variants.chosen_blocks_mask, block_size=2, num_chosen=1),
    "delta_rule_step": step(variants.delta_rule_step),
    "follow_loss": lambda scores, X: variants.follow_loss(scores, X.softmax(dim=-1)),
    "length_mask": lambda lens: ours.length_mask(lens, K),
    "linear_attention": partial(variants.linear_attention, is_causal=True),
    "linear_attention_step": step(variants.linear_attention_step),
    "merge_partial": in_two_parts,
    "merge_windows": lambda X: variants.merge_windows(X, 2, 4, 6),
    "nadaraya_watson": lambda x, y, at: ours.nadaraya_watson(x, y, at, ours.gaussian),
    "online_softmax": lambda X: scale.online_softmax(X, 2),
    "partition_windows": lambda X: variants.partition_windows(X, 2),
    "sliding_window_mask": lambda X: ours.sliding_window_mask(Q, window=1, device=X.device),
    "tiled_attention": partial(scale.tiled_attention, block_size=2, is_causal=True),
    "window_rule": lambda i, j: variants.window_rule(1)(i, i, i, j),
}
OF_CHAPTER_10 = {"merge_partial", "online_softmax", "tiled_attention"}


def test_every_public_function_is_here():
    public = {
        name
        for room in (ours, variants)
        for name in room.__all__
        if isinstance(getattr(room, name), types.FunctionType)
    }
    assert public | OF_CHAPTER_10 == INPUTS.keys() | NO_DEVICE.keys()


@pytest.mark.parametrize("name", INPUTS)
def test_a_function(device, name):
    run = CALLS.get(name) or getattr(ours, name, None) or getattr(variants, name)
    same_on(device, run, *INPUTS[name]())
