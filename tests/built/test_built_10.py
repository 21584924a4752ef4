"""Chapter 10's own attention in tiles and in a ring."""

import pytest
import torch
from builds import built

from d2l_attention import dot_product_attention
from d2l_attention.scale.online_softmax import tiled_attention

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13  # all different: a swapped axis cannot pass
page = built("10")


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


def test_tiles_by_hand():
    keys, values = torch.tensor([[1.0], [2.0], [4.0]]).log(), torch.tensor([[7.0], [14.0], [0.0]])
    for size in (1, 2, 3):
        for shift in (0.0, 1000.0):  # e^1000 is infinite
            output = page["plain_tiled_attention"](torch.ones(1, 1), keys + shift, values, size)
            torch.testing.assert_close(output, torch.tensor([[5.0]]), atol=1e-3, rtol=0)


def test_gradients_of_the_tiles_are_the_formulas():
    qkv = [torch.randn(n, width).double() for n, width in ((Q, D), (K, D), (K, V))]
    grads = []
    for attend in (page["plain_attention"], lambda *X: page["plain_tiled_attention"](*X, 3)):
        inputs = [X.clone().requires_grad_() for X in qkv]
        attend(*inputs).square().sum().backward()
        grads.append([X.grad for X in inputs])
    torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_the_ring_equals_plain_attention_forward_and_backward(processes):
    grads, outputs = [], []
    qkv = [30 * torch.randn(B, H, n, w).double() for n, w in ((17, D), (17, D), (17, V))]
    before = [X.clone() for X in qkv]
    for is_ring in (True, False):
        inputs = [X.clone().requires_grad_() for X in qkv]
        if is_ring:
            lists = [list(X.tensor_split(processes, dim=-2)) for X in inputs]
            stretches = page["plain_ring_attention"](*lists)
            assert [len(each) for each in lists] == [processes] * 3  # the lists are not turned
            output = torch.cat(stretches, dim=-2)
        else:
            output = page["plain_attention"](*inputs)
        output.square().sum().backward()
        outputs.append(output)
        grads.append([X.grad for X in inputs])
    assert outputs[0].shape == (B, H, 17, V)
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(grads[0], grads[1])
    assert all(map(torch.equal, qkv, before))


def test_the_ring_by_hand():
    # Two processes of unequal stretches: the sums of e^a are 3 and 4, the outputs 35 / 3 and 0.
    keys, values = torch.tensor([[1.0], [2.0], [4.0]]).log(), torch.tensor([[7.0], [14.0], [0.0]])
    lists = [list(X.split([2, 1])) for X in (torch.ones(3, 1), keys, values)]
    for output in page["plain_ring_attention"](*lists):
        torch.testing.assert_close(output, torch.full_like(output, 5.0))
    large = [[torch.ones(1, 1)] * 2, [keys[:2] + 1000, keys[2:] + 1000], [values[:2], values[2:]]]
    for output in page["plain_ring_attention"](*large):  # e^1000 is infinite
        torch.testing.assert_close(output, torch.tensor([[5.0]]), atol=1e-3, rtol=0)
