import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from d2l_attention import KeyValueCache, MultiHeadAttention, dot_product_attention
from d2l_attention.variants import BigBirdAttention
from d2l_attention.variants.masks import bigbird_blocks, bigbird_mask


def qkv(n, size=3):
    return torch.randn(3, 2, n, size, dtype=torch.float64).unbind()


def test_by_hand():
    """Equal keys: each output is the mean of the values that its block sees."""
    zeros, values = torch.zeros(7, 1), torch.tensor([1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 20.0])[:, None]
    output = BigBirdAttention(2, 0, 1, 0, 0.0, seed=0)(zeros, zeros, values)
    expected = [8.0, 8.0, 4.0, 4.0, 6.0, 6.0, 8.0]  # means of all, of 4, of 4, of 1, 3 and 20
    assert_close(output[:, 0], torch.tensor(expected))


@given(
    st.integers(1, 80),
    st.integers(1, 20),
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)),
    st.booleans(),
    st.tuples(st.integers(0, 80), st.integers(0, 80)) | st.none(),
)
def test_any_links(n, block_size, numbers, is_causal, lens):
    torch.manual_seed(n)
    names = ("window", "num_global", "num_random", "seed")
    links = dict(zip(names, numbers, strict=True)) | {"block_size": block_size}
    lens = None if lens is None else torch.tensor(lens).clamp(max=n)
    inputs, mask = qkv(n), bigbird_mask(n, **links)
    expected = dot_product_attention(*inputs, lens, mask=mask, is_causal=is_causal)
    output = BigBirdAttention(**links, dropout=0.0)(*inputs, lens, is_causal=is_causal)
    assert_close(output, expected, atol=1e-10, rtol=1e-10)


def test_the_links_are_the_same_at_every_call():
    inputs = qkv(53)
    one, same, other = (BigBirdAttention(3, 1, 1, 2, 0.0, seed=seed) for seed in (0, 0, 1))
    state = torch.get_rng_state()
    first = one(*inputs)
    assert torch.equal(first, one(*inputs)) and torch.equal(first, same(*inputs))
    assert not torch.allclose(first, other(*inputs))
    assert torch.equal(torch.get_rng_state(), state)  # the seed draws, not the global generator


GRAPHS = {
    "export": lambda *given: torch.export.export(*given).module(),
    "make_fx": lambda layer, X: make_fx(layer)(*X),
}


@pytest.mark.parametrize("how", GRAPHS)
@pytest.mark.parametrize("need_weights", [False, True], ids=["output", "weights"])
def test_a_graph_holds_the_links_and_draws_none(how, need_weights):
    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = BigBirdAttention(4, 1, 1, 1, 0.0, seed=0)

        def forward(self, X):
            result = self.attention(X, X, X, need_weights=need_weights)
            return result[1] if need_weights else result

    layer, X = SelfAttention(), torch.randn(1, 40, 12)
    expected, graph = layer(X), GRAPHS[how](layer, (X,))
    for _ in range(3):
        assert_close(graph(X), expected)


def test_vmap_draws_the_same_links():
    X = torch.randn(2, 1, 40, 12, dtype=torch.float64)
    layer = BigBirdAttention(4, 1, 1, 2, 0.0, seed=0)

    def weights(X):
        return layer(X, X, X, need_weights=True)[1]

    assert_close(torch.func.vmap(weights)(X), torch.stack([weights(each) for each in X]))


def test_random_links_are_drawn_in_linear_memory_and_only_where_there_are_some(monkeypatch):
    lots = torch.rand(300, 300, generator=torch.Generator().manual_seed(5))
    block = torch.arange(300)
    seen = (block[:, None] - block).abs() <= 1
    expected = lots.masked_fill(seen, -1.0).topk(2).indices
    sizes, draw = [], torch.rand
    monkeypatch.setattr(torch, "rand", lambda *n, **how: sizes.append(n) or draw(*n, **how))
    links = dict(window=1, num_global=0, seed=5)
    assert torch.equal(bigbird_blocks(300, num_random=2, **links)[:, -2:], expected)
    assert max(rows for rows, _ in sizes) <= 64
    assert bigbird_blocks(0, num_random=2, **links).shape[0] == 0
    sizes.clear()
    assert bigbird_blocks(300, num_random=0, **links).shape == (300, 3) and not sizes


def test_errors():
    right = dict(block_size=2, window=1, num_global=1, num_random=1)
    for name in right:
        with pytest.raises(ValueError, match=f"{name} must be a whole number from . on, got -1"):
            BigBirdAttention(**(right | {name: -1}), dropout=0.0, seed=0)


def test_no_query_behind_a_cache():
    layer = MultiHeadAttention(6, 2, 0.0, attention=BigBirdAttention(2, 1, 1, 0, 0.0, seed=0))
    X, cache = torch.randn(1, 7, 6), KeyValueCache()
    layer(X, X, X, is_causal=True, cache=cache)
    assert layer(X[:, :0], X[:, :0], X[:, :0], is_causal=True, cache=cache).shape == (1, 0, 6)


def test_random_links_have_no_cache():
    layer = MultiHeadAttention(6, 2, 0.0, attention=BigBirdAttention(2, 1, 0, 1, 0.0, seed=0))
    X, cache = torch.randn(1, 17, 6), KeyValueCache()
    layer(X, X, X, is_causal=True, cache=cache)
    with pytest.raises(ValueError, match="no cache, got 1 queries and 18 keys"):
        layer(X[:, :1], X[:, :1], X[:, :1], is_causal=True, cache=cache)
