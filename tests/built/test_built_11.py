"""Chapter 11's own latent attention, explicit and absorbed, and its own delta rule."""

import pytest
import torch
from builds import built

from d2l_attention import causal_mask
from d2l_attention.variants import (
    GatedDeltaNet,
    Indexer,
    MultiHeadLatentAttention,
    SinkAttention,
    best_keys,
    delta_rule,
)
from d2l_attention.variants.grouped import GroupedDotProductAttention

page = built("11")
B, H, N = 2, 3, 5  # all different: a swapped axis cannot pass
SIZES = {"num_hiddens": 11, "num_heads": H, "head_size": 7, "latent_size": 13, "rotary_size": 4}


@pytest.mark.parametrize("name", ["PlainLatentAttention", "PlainAbsorbedAttention"])
@pytest.mark.parametrize("absorbed", [False, True])
def test_latent_attention_equals_the_packages_and_changes_nothing(name, absorbed):
    plain, package = page[name](**SIZES), MultiHeadLatentAttention(**SIZES)
    X = torch.randn(B, N, 17)
    before = X.clone()
    output = plain(X)
    package(X)  # the first call fixes the sizes
    package.load_state_dict(plain.state_dict(), strict=True)
    expected = package(X, is_causal=True, absorbed=absorbed)
    torch.testing.assert_close(output, expected)
    assert torch.equal(X, before)


def inputs(n, D, V):
    queries, keys, values = torch.randn(n, D), torch.randn(n, D), torch.randn(n, V)
    keys = keys / keys.norm(dim=-1, keepdim=True)
    return queries, keys, values, torch.rand(n), torch.rand(n)


@pytest.mark.parametrize("n", [1, 5, 67])  # 67: more than two chunks of the package
def test_the_delta_rule_equals_the_packages_and_changes_nothing(n):
    given = inputs(n, 7, 3)
    before = [X.clone() for X in given]
    for mine, package in zip(page["plain_delta_rule"](*given), delta_rule(*given), strict=True):
        torch.testing.assert_close(mine, package, atol=1e-5, rtol=1e-4)
    assert all(map(torch.equal, given, before))


@pytest.mark.parametrize("n", [1, 5, 31])
def test_all_tokens_at_once_equal_one_by_one(n):
    queries, keys, values, beta, _ = inputs(n, 7, 3)
    expected, _ = page["plain_delta_rule"](queries, keys, values, beta, torch.ones(n))
    at_once = page["plain_delta_at_once"](queries, keys, values, beta)
    torch.testing.assert_close(at_once, expected, atol=1e-5, rtol=1e-4)


def test_grouped_attention_equals_the_packages():
    torch.manual_seed(0)
    q, k, v = torch.randn(B, 6, N, 7), torch.randn(B, 3, N, 7), torch.randn(B, 3, N, 7)
    expected = GroupedDotProductAttention(0.0)(q, k, v, is_causal=True)
    torch.testing.assert_close(page["plain_grouped"](q, k, v), expected)


def test_a_sink_equals_the_packages():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, B, H, N, 7)
    layer = SinkAttention(H, 0.0)
    with torch.no_grad():
        layer.sinks.copy_(torch.tensor([0.5, -1.0, 2.0]))
    found = page["plain_sink_attention"](q, k, v, layer.sinks)
    torch.testing.assert_close(found, layer(q, k, v, is_causal=True))


def test_the_gated_delta_net_equals_the_packages():
    torch.manual_seed(0)
    plain, package, X = page["PlainGatedDeltaNet"](12, H), GatedDeltaNet(12, H), torch.randn(N, 11)
    output = plain(X)
    package(X[None])  # the first call fixes the sizes
    package.load_state_dict(plain.state_dict(), strict=True)
    torch.testing.assert_close(output, package(X[None])[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("k", [1, 3, N, 20])
def test_the_indexer_and_its_choice_equal_the_packages(k):
    torch.manual_seed(0)
    plain, package, X = page["PlainIndexer"](12, H, 7), Indexer(12, H, 7), torch.randn(N, 12)
    package.load_state_dict(plain.state_dict(), strict=True)
    scores = plain(X)
    torch.testing.assert_close(scores, package(X[None])[0])
    expected = best_keys(scores, causal_mask(N), k)
    assert torch.equal(page["best_keys"](scores, k), expected)
