"""Every public function on the device: the CPU's numbers, and the CPU's gradients."""

import types

import pytest
import torch
from both import same_on
from parts import LENGTHS, B, D, K, Q

import d2l_attention
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
IS_GLOBAL = torch.arange(K) == 2


def rows(*shape):
    return torch.randn(B, *shape)


def qkv():
    return rows(Q, D), rows(K, D), rows(K, 4)


def positions():
    return torch.arange(Q)[:, None], torch.arange(K)


def step(function):
    """Two tokens, one after the other: the second finds the state of the first."""

    def run(query, key, value, *more):
        first, state = function(query, key, value, *more)
        return first, *function(key, query, value, *more, state=state)

    return run


# Each a function and how to make what it is called with.
FUNCTIONS = {
    "additive_score": (
        d2l_attention.additive_score,
        lambda: (rows(Q, D), rows(K, D), torch.randn(D)),
    ),
    "attention_mask": (
        lambda lens, mask: d2l_attention.attention_mask((B, Q, K), lens, mask, True),
        lambda: (LENGTHS, MASK),
    ),
    "attention_pooling": (
        d2l_attention.attention_pooling,
        lambda: (rows(Q, K), rows(K, 4), LENGTHS),
    ),
    "bilinear_score": (
        d2l_attention.bilinear_score,
        lambda: (rows(Q, D), rows(K, 4), torch.randn(D, 4)),
    ),
    "boxcar": (d2l_attention.boxcar, lambda: (rows(K),)),
    "causal_mask": (lambda X: d2l_attention.causal_mask(Q, K, device=X.device), lambda: (rows(K),)),
    "causal_rule": (lambda i, j: variants.causal_rule(i, i, i, j), positions),
    "chosen_blocks_mask": (
        lambda *given: variants.chosen_blocks_mask(*given, block_size=2, num_chosen=1),
        lambda: (rows(Q, D), rows(K, D), LENGTHS),
    ),
    "combine_masks": (d2l_attention.combine_masks, lambda: (MASK, torch.arange(K) < 3)),
    "constant": (d2l_attention.constant, lambda: (rows(K),)),
    "delta_rule": (
        variants.delta_rule,
        lambda: (rows(K, D), rows(K, D) / D, rows(K, 4), rows(K).sigmoid(), None, LENGTHS),
    ),
    "delta_rule_step": (
        step(variants.delta_rule_step),
        lambda: (rows(D), rows(D), rows(4), rows().sigmoid()),
    ),
    "dot_product_attention": (d2l_attention.dot_product_attention, lambda: (*qkv(), LENGTHS)),
    "dot_score": (d2l_attention.dot_score, lambda: (rows(Q, D), rows(K, D))),
    "elu_plus_one": (variants.elu_plus_one, lambda: (rows(K),)),
    "epanechikov": (d2l_attention.epanechikov, lambda: (rows(K),)),
    "gaussian": (d2l_attention.gaussian, lambda: (rows(K),)),
    "gaussian_score": (
        d2l_attention.gaussian_score,
        lambda: (rows(Q, D), rows(K, D), torch.tensor(0.7)),
    ),
    "best_keys": (lambda X: variants.best_keys(X, None, 2), lambda: (rows(Q, K),)),
    "follow_loss": (
        lambda scores, weights: variants.follow_loss(scores, weights.softmax(dim=-1)),
        lambda: (rows(K, K), torch.randn(B, 2, K, K)),
    ),
    "global_tokens_mask": (d2l_attention.global_tokens_mask, lambda: (IS_GLOBAL,)),
    "length_mask": (lambda lens: d2l_attention.length_mask(lens, K), lambda: (LENGTHS,)),
    "linear_attention": (
        lambda *given: variants.linear_attention(*given, is_causal=True),
        lambda: (*qkv(), LENGTHS),
    ),
    "linear_attention_step": (
        step(variants.linear_attention_step),
        lambda: (rows(D), rows(D), rows(4)),
    ),
    "long_convolution": (variants.long_convolution, lambda: (rows(K, D), torch.randn(K, D))),
    "masked_softmax": (d2l_attention.masked_softmax, lambda: (rows(Q, K), LENGTHS)),
    "merge_windows": (
        lambda X: variants.merge_windows(X, 2, 4, 6),
        lambda: (torch.randn(12, 4, D),),
    ),
    "nadaraya_watson": (
        lambda x, y, at: d2l_attention.nadaraya_watson(x, y, at, d2l_attention.gaussian),
        lambda: (torch.randn(K), torch.randn(K), torch.randn(Q)),
    ),
    "partition_windows": (lambda X: variants.partition_windows(X, 2), lambda: (rows(4, 6, D),)),
    "scaled_dot_score": (d2l_attention.scaled_dot_score, lambda: (rows(Q, D), rows(K, D))),
    "sliding_window_mask": (
        lambda X: d2l_attention.sliding_window_mask(Q, window=1, device=X.device),
        lambda: (rows(K),),
    ),
    "window_rule": (lambda i, j: variants.window_rule(1)(i, i, i, j), positions),
}
SCALE = {
    "online_softmax": (lambda X: scale.online_softmax(X, 2), lambda: (rows(Q, K),)),
    "tiled_attention": (
        lambda *given: scale.tiled_attention(*given, block_size=2, is_causal=True),
        qkv,
    ),
    "merge_partial": (
        lambda q, k, v: scale.merge_partial(
            *zip(
                *(scale.partial_attention(q, k[:, i : i + 4], v[:, i : i + 4]) for i in (0, 4)),
                strict=True,
            )
        ),
        qkv,
    ),
}


def test_every_public_function_is_here():
    public = {
        name
        for room in (d2l_attention, variants)
        for name in room.__all__
        if isinstance(getattr(room, name), types.FunctionType)
    }
    assert public == FUNCTIONS.keys() | NO_DEVICE.keys()


@pytest.mark.parametrize("name", [*FUNCTIONS, *SCALE])
def test_a_function(device, name):
    run, inputs = (FUNCTIONS | SCALE)[name]
    same_on(device, run, *inputs())
