"""Chapter 10's own online softmax and tiled attention."""

import math

import pytest
import torch
from builds import built

from d2l_attention import dot_product_attention
from d2l_attention.scale.online_softmax import online_softmax, tiled_attention

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13  # all different: a swapped axis cannot pass
page = built("10")


@pytest.mark.parametrize("size", [1, 100, 10_000], ids=lambda size: f"scores-of-{size}")
def test_online_softmax_equals_the_packages_and_changes_nothing(size):
    scores = size * torch.randn(B, Q, K)
    scores[:, :, 2] = -math.inf  # a hidden key
    scores[1, 0] = -math.inf  # a query that may see nothing
    scores[0, 1, 0] = -math.inf  # the first one that is read
    before = scores.clone()
    weights = page["plain_online_softmax"](scores)
    torch.testing.assert_close(weights, online_softmax(scores, block_size=3))
    torch.testing.assert_close(weights[0], scores[0].softmax(dim=-1))
    assert (weights[1, 0] == 0).all()
    assert torch.equal(scores, before)


def test_online_softmax_by_hand():
    scores = torch.tensor([1.0, 2.0, 4.0]).log()
    expected = torch.tensor([1.0, 2.0, 4.0]) / 7
    torch.testing.assert_close(page["plain_online_softmax"](scores), expected)
    torch.testing.assert_close(page["plain_online_softmax"](scores + 1000), expected)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 17])
def test_tiled_attention_equals_formula_and_package_and_changes_nothing(size):
    qkv = [torch.randn(B, H, n, width) for n, width in ((Q, D), (K, D), (K, V))]
    qkv = [10 * X.double() for X in qkv]  # scores of some hundred
    before = [X.clone() for X in qkv]
    output = page["plain_tiled_attention"](*qkv, size)
    assert output.shape == (B, H, Q, V)
    torch.testing.assert_close(output, tiled_attention(*qkv, block_size=size))
    torch.testing.assert_close(output, dot_product_attention(*qkv))
    torch.testing.assert_close(output, page["plain_attention"](*qkv))
    assert all(map(torch.equal, qkv, before))


def test_gradients_of_the_tiles_are_the_formulas():
    qkv = [torch.randn(n, width).double() for n, width in ((Q, D), (K, D), (K, V))]
    grads = []
    for attend in (page["plain_attention"], lambda *X: page["plain_tiled_attention"](*X, 3)):
        inputs = [X.clone().requires_grad_() for X in qkv]
        attend(*inputs).square().sum().backward()
        grads.append([X.grad for X in inputs])
    torch.testing.assert_close(grads[1], grads[0])
