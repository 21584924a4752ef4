"""Chapter 4's own masked softmax and causal mask."""

import torch
from builds import built

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
    torch.testing.assert_close(page["plain_attention"](queries, keys, values, lens), expected)
    padding = torch.arange(5)[:, None] >= lens[:, None, None]
    keys, values = (tensor.masked_fill(padding, torch.nan) for tensor in (keys, values))
    torch.testing.assert_close(page["plain_safe_attention"](queries, keys, values, lens), expected)
