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
    X, is_word = torch.randn(4, 5, 7), torch.ones(4, 5).bool()
    is_word[1, 3:], is_word[2, :2], is_word[3] = False, False, False  # right, left, everything
    queries, keys, values = layer.W_q(X), layer.W_k(X), layer.W_v(X)
    before = layer(X, is_word)
    expected = dot_product_attention(queries, keys, values, mask=is_word[:, None], is_causal=True)
    torch.testing.assert_close(before, expected)
    assert (before[3] == 0).all() and (before[2, :2] == 0).all()
    other = torch.where(is_word[:, :, None], X, torch.randn(4, 5, 7))
    other[:, 3:] = torch.randn(4, 2, 7)
    assert torch.equal(layer(other, is_word)[:, :3], before[:, :3])
    before.sum().backward()
    assert all(W.weight.grad.isfinite().all() for W in (layer.W_q, layer.W_k, layer.W_v))


def test_the_layer_stands_in_one_cell():
    (cell,) = (source for source in build_cells("04") if "class " in source)
    names = {}
    exec(compile(cell, "<the cell that a student takes along>", "exec"), names)
    layer = names["PlainCausalSelfAttention"](8)
    assert layer(torch.randn(2, 4, 8), torch.ones(2, 4).bool()).shape == (2, 4, 8)
