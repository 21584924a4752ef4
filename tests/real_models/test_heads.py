"""Heads of real models: a window, groups and sinks together, each also on its own."""

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import KeyValueCache
from d2l_attention.real_models.heads import GroupedSinkAttention, WindowedGroups, WindowedSinks
from d2l_attention.variants import GroupedQueryAttention, SinkAttention
from d2l_attention.variants.grouped import GroupedDotProductAttention, repeat_heads

WINDOWED = {"groups": lambda: WindowedGroups(2, 0.0), "sinks": lambda: WindowedSinks(2, 4, 0.0)}
NAN = float("nan")


@pytest.mark.parametrize("name", WINDOWED)
def test_what_no_window_holds_may_be_anything(name):
    """Keys that every window has passed, and a query whose window is all padding."""
    layer = WINDOWED[name]()
    queries, keys = torch.randn(1, 4, 3, 5), torch.randn(1, 2, 6, 5)
    expected = layer(queries, keys, keys, is_causal=True, offset=3)
    keys[:, :, :2] = NAN  # queries 3, 4 and 5 see two keys each, from 2 on
    assert_close(layer(queries, keys, keys, is_causal=True, offset=3), expected)
    X = torch.randn(1, 4, 4, 5)
    X[:, :, 3] = NAN
    assert not layer(X, X, X, torch.tensor([2]), is_causal=True)[:, :, 3].any()


@pytest.mark.parametrize("name", WINDOWED)
def test_behind_a_cache_a_window_leaves_what_it_has_passed(name):
    layer, X = GroupedQueryAttention(8, 4, 2, 0.0), torch.randn(1, 6, 8)
    layer.attention = WINDOWED[name]()
    whole = layer(X, X, X, is_causal=True)
    cache, dirty = KeyValueCache(), X.clone()
    dirty[:, 0] = NAN
    with torch.no_grad():
        steps = [layer(Y, Y, Y, is_causal=True, cache=cache) for Y in dirty.split([3, 1, 2], dim=1)]
    assert_close(torch.cat(steps[1:], dim=1), whole[:, 3:].detach())


def test_sinks_in_groups_alone():
    grouped, plain = GroupedSinkAttention(4, 0.0), SinkAttention(4, 0.0)
    queries, pairs = torch.randn(2, 4, 3, 5), torch.randn(2, 2, 7, 5)
    repeated = repeat_heads(pairs, 4)
    assert_close(grouped(queries, pairs, pairs), plain(queries, repeated, repeated))


def test_a_key_that_one_group_may_not_see_does_not_reach_it():
    layer, queries = GroupedDotProductAttention(0.0), torch.randn(1, 4, 1, 3)
    keys, values = torch.randn(1, 2, 2, 3), torch.randn(1, 2, 2, 3)
    mask = torch.ones(1, 4, 1, 2, dtype=torch.bool)
    mask[:, :2, :, 1] = False
    expected = layer(queries, keys, values, mask=mask)
    keys[0, 0, 1] = NAN
    assert_close(layer(queries, keys, values, mask=mask), expected)


@pytest.mark.parametrize("keys", [None, torch.randn(3)], ids=["none", "one axis"])
def test_errors(keys):
    with pytest.raises((TypeError, ValueError), match="keys"):
        GroupedDotProductAttention(0.0)(torch.randn(2, 4, 3, 5), keys, keys)
