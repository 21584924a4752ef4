"""What holds for every attention with a fixed pattern: windows, global tokens, BigBird."""

import math

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import (
    KeyValueCache,
    MultiHeadAttention,
    attention_mask,
    causal_mask,
    dot_product_attention,
)
from d2l_attention.variants import BigBirdAttention, GlobalLocalAttention, SlidingWindowAttention
from d2l_attention.variants.masks import bigbird_mask, global_tokens_mask, sliding_window_mask

B, H, N, D, V = 2, 3, 37, 5, 7
LINKS = dict(block_size=5, window=1, num_global=1, num_random=1, seed=4)


def global_local(num_tokens, window, num_global):
    local = sliding_window_mask(num_tokens, window=window)
    return local | global_tokens_mask(torch.arange(num_tokens) < num_global)


FORMS = {  # name: what makes the layer, and the mask that says the same
    "window": (lambda: SlidingWindowAttention(3, 0.0), lambda n: sliding_window_mask(n, window=3)),
    "wide window": (
        lambda: SlidingWindowAttention(33, 0.0),
        lambda n: sliding_window_mask(n, window=33),
    ),
    "dilated": (
        lambda: SlidingWindowAttention(2, 0.0, dilation=3),
        lambda n: sliding_window_mask(n, window=2, dilation=3),
    ),
    "global and local": (lambda: GlobalLocalAttention(3, 2, 0.0), lambda n: global_local(n, 3, 2)),
    "bigbird": (
        lambda: BigBirdAttention(5, 1, 1, 1, 0.0, seed=4),
        lambda n: bigbird_mask(n, **LINKS),
    ),
}


@pytest.fixture(params=FORMS)
def form(request):
    make, mask = FORMS[request.param]
    return make(), mask


def qkv(num_tokens=N, leading=(B,), dtype=torch.float64):
    return [torch.randn(*leading, num_tokens, size, dtype=dtype) for size in (D, D, V)]


def grads(run, inputs):
    inputs = [X.clone().requires_grad_() for X in inputs]
    output = run(*inputs)
    (
        output * torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    ).sum().backward()
    return [output, *(X.grad for X in inputs)]


@pytest.mark.parametrize("lens", [None, [N, 11], [0, 30]], ids=str)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_the_plain_form_under_the_mask(form, lens, is_causal):
    layer, mask = form
    options = dict(valid_lens=None if lens is None else torch.tensor(lens), is_causal=is_causal)
    inputs = qkv()
    sparse = grads(lambda *X: layer(*X, **options), inputs)
    plain = grads(lambda *X: dot_product_attention(*X, mask=mask(N), **options), inputs)
    explicit = grads(lambda *X: layer(*X, **options, need_weights=True)[0], inputs)
    for one, other, third in zip(sparse, plain, explicit, strict=True):
        assert_close(one, other, atol=1e-10, rtol=1e-10)
        assert_close(third, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("num_tokens", [1, 32, 67])
@pytest.mark.parametrize("leading", [(), (B, 1, H)], ids=str)
def test_every_length_and_any_leading_axes(form, num_tokens, leading):
    layer, mask = form
    for is_causal in (False, True):
        inputs = qkv(num_tokens, leading)
        output = layer(*inputs, is_causal=is_causal)
        visible = mask(num_tokens) & causal_mask(num_tokens) if is_causal else mask(num_tokens)
        expected = dot_product_attention(*inputs, mask=visible)
        assert_close(output, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("need_weights", [False, True], ids=["sparse", "explicit"])
def test_a_query_with_nothing_in_its_window(need_weights):
    """Behind the sequence's end and its window a token sees nothing, and may hold anything."""
    lens, results = torch.tensor([5]), []
    inputs = qkv(leading=(1,))
    for garbage in (0.0, math.nan):
        inputs = [X.clone() for X in inputs]
        for X in inputs:
            X[:, 5 + 3 :] = garbage

        def run(*X):
            result = SlidingWindowAttention(3, 0.0)(*X, lens, need_weights=need_weights)
            return result[0] if need_weights else result

        results.append(grads(run, inputs))
    for one, other in zip(*results, strict=True):
        assert other.isfinite().all() and (other[:, 8:] == 0).all()
        assert_close(one, other)


def test_weights_are_those_of_the_plain_form(form):
    layer, mask = form
    inputs, lens = qkv(), torch.tensor([N, 11])
    _, weights = layer(*inputs, lens, is_causal=True, need_weights=True)
    _, expected = dot_product_attention(
        *inputs, lens, mask=mask(N), is_causal=True, need_weights=True
    )
    assert_close(weights, expected)
    layer(*inputs, lens, is_causal=True)
    assert_close(layer.attention_weights, expected)
    visible = attention_mask((B, N, N), lens, mask(N), True).expand(B, N, N)
    assert torch.equal(weights > 0, visible)


def test_masks_biases_and_lengths_for_each_query_combine(form):
    layer, pattern = form
    inputs = qkv()
    mask, bias = torch.rand(B, N, N) < 0.6, torch.randn(N, N, dtype=torch.float64)
    lens = torch.randint(0, N + 1, (B, N))
    for options in (dict(mask=mask), dict(bias=bias), dict(valid_lens=lens)):
        both = options | {"mask": pattern(N) & mask if "mask" in options else pattern(N)}
        for is_causal in (False, True):
            output = layer(*inputs, **options, is_causal=is_causal)
            expected, weights = dot_product_attention(
                *inputs, **both, is_causal=is_causal, need_weights=True
            )
            assert_close(output, expected)
            assert_close(layer.attention_weights, weights)


def test_in_the_heads_of_multi_head_attention(form):
    attention, mask = form
    layer = MultiHeadAttention(12, H, 0.0, attention=attention)
    plain = MultiHeadAttention(12, H, 0.0)
    X, lens = torch.randn(B, N, 12), torch.tensor([11, N])
    layer(X, X, X), plain(X, X, X)
    plain.load_state_dict(layer.state_dict())
    for is_causal in (False, True):
        output = layer(X, X, X, lens, is_causal=is_causal)
        expected = plain(X, X, X, lens, mask=mask(N), is_causal=is_causal)
        assert_close(output, expected)
        assert_close(layer.attention_weights, plain.attention_weights)
        assert layer.attention_weights.shape == (B, H, N, N)


@pytest.mark.parametrize("sizes", [[1] * 23, [5, 1, 17], [22, 1]], ids=str)
def test_token_by_token_behind_a_cache(form, sizes):
    attention, _ = form
    if isinstance(attention, BigBirdAttention):  # its random links have no cache: see test_bigbird
        attention = BigBirdAttention(5, 1, 1, 0, 0.0, seed=4)
    layer, cache = MultiHeadAttention(12, H, 0.0, attention=attention), KeyValueCache()
    X = torch.randn(B, 23, 12)
    parts = [layer(x, x, x, is_causal=True, cache=cache) for x in X.split(sizes, dim=1)]
    assert_close(torch.cat(parts, dim=1), layer(X, X, X, is_causal=True), atol=1e-6, rtol=1e-6)


def test_errors(form):
    layer, _ = form
    queries, keys, values = qkv()
    with pytest.raises(ValueError, match="for self-attention, .* got 36 queries and 37 keys"):
        layer(queries[:, 1:], keys, values)
    with pytest.raises(ValueError, match="queries and keys must have the same size"):
        layer(queries[..., 1:], keys, values)
    with pytest.raises(TypeError, match="valid_lens must be a tensor of integers"):
        layer(queries, keys, values, torch.ones(B))
    with pytest.raises(ValueError, match="got values from 1 to 38"):
        layer(queries, keys, values, torch.tensor([1, N + 1]))
    with pytest.raises(AttributeError, match="attention_weights"):
        _ = layer.attention_weights
    heads, X, memory = MultiHeadAttention(12, H, 0.0, attention=layer), *torch.randn(2, B, N, 12)
    with pytest.raises(ValueError, match="for self-attention, .* got 37 queries and 5 keys"):
        heads(X, memory[:, :5], memory[:, :5])
