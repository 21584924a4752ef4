"""Chapter 2's own kernels and poolings."""

import pytest
import torch
from builds import built

import d2l_attention

page = built("02")
K, Q = 7, 5


@pytest.fixture
def data():
    return torch.randn(K), torch.randn(K), torch.randn(Q)


@pytest.mark.parametrize("name", ["gaussian", "boxcar", "constant", "epanechikov"])
def test_kernels_and_pooling_equal_the_packages(data, name):
    ours, theirs = page[name], getattr(d2l_attention, name)
    x = torch.tensor([-2.0, -1.0, -0.3, 0.0, 0.99, 1.0, 3.0])
    assert torch.equal(ours(x), theirs(x))
    # Of width 9 every kernel has some key in reach.
    found = page["smooth"](*data, lambda difference: ours(difference / 9))
    expected = d2l_attention.nadaraya_watson(*data, lambda difference: theirs(difference / 9))
    torch.testing.assert_close(found, expected)


def test_gaussian_pooling_equals_score_and_softmax_of_the_package(data):
    keys, values, queries = data
    mask = torch.rand(Q, K) < 0.6
    mask[:, 0] = True
    for hidden in (None, mask):
        output, weights = page["gaussian_pooling"](queries, keys, values, 0.7, hidden)
        scores = d2l_attention.gaussian_score(queries[:, None], keys[:, None], width=0.7)
        expected = d2l_attention.attention_pooling(scores, values[:, None], mask=hidden)
        torch.testing.assert_close((output[:, None], weights), expected)
