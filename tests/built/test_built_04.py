"""Chapter 4's own masked softmax and causal mask."""

import torch
from builds import build_cells, built

from d2l_attention import causal_mask, dot_product_attention, masked_softmax

page = built("04")


def test_masked_softmax_equals_the_packages_and_changes_nothing():
    X = torch.randn(3, 2, 5)
    before = X.clone()
    for lens in (None, torch.tensor([5, 2, 0]), torch.tensor([[1, 4], [0, 5], [3, 3]])):
        expected = masked_softmax(X, lens)
        torch.testing.assert_close(page["plain_masked_softmax"](X, lens), expected)
    assert torch.equal(X, before)


def test_causal_mask_equals_the_packages():
    for n in (1, 2, 7):
        assert torch.equal(page["plain_causal_mask"](n), causal_mask(n, n))


def test_attention_equals_the_packages_whatever_is_in_the_padding():
    queries, keys, values = torch.randn(3, 2, 7), torch.randn(3, 5, 7), torch.randn(3, 5, 11)
    lens = torch.tensor([5, 2, 0])
    expected = dot_product_attention(queries, keys, values, lens)
    visible = page["plain_length_mask"](lens, 5)
    torch.testing.assert_close(page["plain_attention"](queries, keys, values, visible), expected)
    padding = ~visible.mT
    keys, values = (tensor.masked_fill(padding, torch.nan) for tensor in (keys, values))
    torch.testing.assert_close(page["plain_safe_attention"](queries, keys, values, lens), expected)


def test_the_layer_equals_the_packages_attention_and_hides_padding_and_future():
    layer = page["PlainCausalSelfAttention"](7)
    X, lens = torch.randn(3, 5, 7), torch.tensor([5, 3, 0])
    queries, keys, values = layer.W_q(X), layer.W_k(X), layer.W_v(X)
    expected = dot_product_attention(queries, keys, values, lens, is_causal=True)
    torch.testing.assert_close(layer(X, lens), expected)
    assert (layer(X, lens)[2] == 0).all()
    other = X.clone()
    other[:, 3:] = torch.randn(3, 2, 7)
    assert torch.equal(layer(other, lens)[:, :3], layer(X, lens)[:, :3])
    layer(X, lens).sum().backward()
    assert all(W.weight.grad.isfinite().all() for W in (layer.W_q, layer.W_k, layer.W_v))


def test_the_layer_stands_in_one_cell():
    (cell,) = (source for source in build_cells("04") if "class " in source)
    names = {}
    exec(compile(cell, "<the cell that a student takes along>", "exec"), names)
    layer = names["PlainCausalSelfAttention"](8)
    assert layer(torch.randn(2, 4, 8), torch.tensor([4, 2])).shape == (2, 4, 8)
