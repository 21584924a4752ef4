"""Chapter 3's own scaled dot-product and additive attention."""

import pytest
import torch
from builds import built

from d2l_attention import AdditiveAttention, DotProductAttention, masked_softmax

B, Q, K, D, E, V, H = 2, 3, 5, 7, 13, 11, 17  # H units; all different: no axis can be swapped
LENGTHS = [None, torch.tensor([5, 0]), torch.tensor([[1, 0, 5], [4, 2, 3]])]
page = built("03")


def inputs(query_size):
    torch.manual_seed(0)
    return torch.randn(B, Q, query_size), torch.randn(B, K, D), torch.randn(B, K, V)


def same(ours, package, qkv, lens):
    before = [X.clone() for X in qkv]
    torch.testing.assert_close(ours(*qkv, lens), package(*qkv, lens))
    torch.testing.assert_close(ours.attention_weights, package.attention_weights)
    assert all(map(torch.equal, qkv, before)), "an input was changed"


@pytest.mark.parametrize("lens", LENGTHS)
def test_plain_masked_softmax_equals_the_packages(lens):
    scores = torch.randn(B, Q, K)
    torch.testing.assert_close(
        page["plain_masked_softmax"](scores, lens), masked_softmax(scores, lens)
    )


@pytest.mark.parametrize("lens", LENGTHS)
def test_dot_product_attention_equals_the_packages(lens):
    ours, package = page["PlainDotProductAttention"](0.1), DotProductAttention(0.1)
    same(ours.eval(), package.eval(), inputs(D), lens)


@pytest.mark.parametrize("lens", LENGTHS)
def test_additive_attention_equals_the_packages_with_its_parameters(lens):
    ours, package = page["PlainAdditiveAttention"](H, 0.1), AdditiveAttention(H, 0.1)
    ours.eval()(*inputs(E))  # fixes the sizes of W_q and W_k
    package.load_state_dict(ours.state_dict(), strict=True)
    same(ours, package.eval(), inputs(E), lens)


@pytest.mark.parametrize("name", ["PlainDotProductAttention", "PlainAdditiveAttention"])
def test_gradients_are_numbers_also_where_there_is_nothing_to_see(name):
    layer = page[name](0.0) if "Dot" in name else page[name](H, 0.0)
    qkv = [X.requires_grad_() for X in inputs(D)]
    layer(*qkv, torch.tensor([5, 0])).sum().backward()
    assert all(X.grad.isfinite().all() for X in qkv)
    assert all((X.grad[1] == 0).all() for X in qkv), "sentence 1 sees nothing"


@pytest.mark.parametrize("name", ["PlainDotProductAttention", "PlainAdditiveAttention"])
def test_dropout_acts_in_training_only(name):
    layer = page[name](0.5) if "Dot" in name else page[name](H, 0.5)
    qkv = inputs(D)
    torch.testing.assert_close(layer.eval()(*qkv), layer(*qkv))
    torch.manual_seed(0)
    assert not torch.equal(layer.train()(*qkv), layer(*qkv))
