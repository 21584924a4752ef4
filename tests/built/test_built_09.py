"""Chapter 9's own forms: grouped, window, linear and the others, in plain code."""

import pytest
import torch
from builds import built

from d2l_attention import causal_mask, dot_product_attention
from d2l_attention.variants import (
    HyenaOperator,
    LearnedQueries,
    LinformerAttention,
    SlidingWindowAttention,
    elu_plus_one,
    linear_attention,
    long_convolution,
    partition_windows,
)
from d2l_attention.variants.grouped import GroupedDotProductAttention
from d2l_attention.variants.masks import global_tokens_mask, sliding_window_mask
from d2l_attention.variants.multi_token import multi_token_weights

page = built("09")
B, Q, K, D, V = 2, 3, 5, 7, 11  # all different: a swapped axis cannot pass
N = 13


@pytest.mark.parametrize("masked", [False, True])
def test_attend_equals_the_packages(masked):
    q, k, v = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, V)
    mask = torch.rand(B, Q, K) < 0.6
    mask[..., 0] = True
    mask = mask if masked else None
    torch.testing.assert_close(
        page["attend"](q, k, v, mask), dot_product_attention(q, k, v, mask=mask)
    )


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_grouped_attention_equals_the_packages(groups):
    q = torch.randn(B, 6, Q, D)
    k, v = torch.randn(B, groups, K, D), torch.randn(B, groups, K, V)
    found = page["plain_grouped_attention"](q, k, v)
    torch.testing.assert_close(found, GroupedDotProductAttention(0.0)(q, k, v))


@pytest.mark.parametrize("window", [0, 1, 4, N, 2 * N])
def test_window_equals_the_packages(window):
    assert torch.equal(page["plain_window_mask"](N, window), sliding_window_mask(N, window=window))
    q, k, v = torch.randn(N, D), torch.randn(N, D), torch.randn(N, V)
    found = page["plain_window_attention"](q, k, v, window)
    expected = SlidingWindowAttention(window, 0.0)(q[None], k[None], v[None])[0]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("num_global", [0, 2, N])
def test_global_mask_equals_the_packages(num_global):
    expected = global_tokens_mask(torch.arange(N) < num_global)
    assert torch.equal(page["plain_global_mask"](N, num_global), expected)


def test_windows_equal_the_packages():
    X = torch.randn(B, 6, 15, D)
    assert torch.equal(page["plain_windows"](X, 3), partition_windows(X, 3))


def test_linformer_equals_the_packages():
    q, k, v = torch.randn(3, N, D)
    E_k, E_v = torch.randn(2, 5, N)
    package = LinformerAttention(D, 1, max_len=N, rank=5, dropout=0.0).attention
    package.E.data, package.F.data = E_k, E_v
    expected = package(*(X[None, None] for X in (q, k, v)))[0, 0]
    torch.testing.assert_close(page["plain_linformer"](q, k, v, E_k, E_v), expected)


def test_linear_attention_with_a_state_equals_the_packages():
    q, k, v = torch.randn(N, D), torch.randn(N, D), torch.randn(N, V)
    before = [X.clone() for X in (q, k, v)]
    torch.testing.assert_close(page["phi"](q), elu_plus_one(q))
    expected = linear_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(page["plain_linear_attention"](q, k, v), expected)
    assert all(map(torch.equal, (q, k, v), before)), "an input was changed"


@pytest.mark.parametrize("order", [1, 2, 3])
def test_hyena_equals_the_packages(order):
    v, c = torch.randn(2, N, D)
    found = page["plain_long_convolution"](v, c)
    torch.testing.assert_close(found, long_convolution(v, c), atol=1e-5, rtol=1e-4)
    hyena, X = HyenaOperator(D, max_len=N, order=order), torch.randn(1, N, D)
    projected = torch.nn.functional.pad(hyena.W_in(X).transpose(1, 2), (2, 0))
    v, *gates = hyena.short(projected).transpose(1, 2)[0].chunk(order + 1, dim=-1)
    found = hyena.W_o(page["plain_hyena"](v, gates, hyena.filters(N)))
    torch.testing.assert_close(found, hyena(X)[0], atol=1e-5, rtol=1e-4)


def test_learned_queries_equal_the_packages_without_their_other_projections():
    ours, package = page["PlainLearnedQueries"](Q, D), LearnedQueries(Q, D, 1, 0.0)
    X = torch.randn(B, K, D)
    ours(X), package(X)
    state = {f"attention.W_{name}.weight": torch.eye(D) for name in "qo"}
    state |= {f"attention.W_{name}.weight": getattr(ours, f"W_{name}").weight for name in "kv"}
    package.load_state_dict(state | {"queries": ours.queries}, strict=True)
    torch.testing.assert_close(ours(X), package(X))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_multi_token_weights_equal_the_packages(causal, rows):
    q, k = torch.randn(2, 3, N, D)
    kernel = torch.randn(3, rows, 5)
    mask = causal_mask(N) if causal else torch.ones(N, N, dtype=torch.bool)
    found = page["plain_multi_token_weights"](q @ k.mT / D**0.5, kernel, mask)
    expected = multi_token_weights(q[None], k[None], kernel, torch.ones(3, 1, 1), mask=mask)
    torch.testing.assert_close(found, expected[0])
