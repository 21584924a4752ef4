"""Chapter 2's own kernels and poolings."""

import pytest
import torch
from builds import built

import d2l_attention

page = built("02")
K, Q, D = 7, 5, 3


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


def test_gaussian_pooling_equals_score_and_softmax_of_the_package():
    queries, keys, values = torch.randn(Q, D), torch.randn(K, D), torch.randn(K)
    for width in (0.7, torch.rand(D) + 0.5):
        output, weights = page["gaussian_pooling"](queries, keys, values, width)
        scores = d2l_attention.gaussian_score(queries / width, keys / width)
        expected = d2l_attention.attention_pooling(scores, values[:, None])
        torch.testing.assert_close((output[:, None], weights), expected)


def test_other_points_hides_each_point_from_itself():
    keys, values = torch.randn(K, D), torch.randn(K)
    output, weights = page["other_points"](keys, values, 0.7)
    scores = d2l_attention.gaussian_score(keys, keys, width=0.7)
    mask = ~torch.eye(K, dtype=torch.bool)
    expected = d2l_attention.attention_pooling(scores, values[:, None], mask=mask)
    torch.testing.assert_close((output[:, None], weights), expected)
    assert not weights.diagonal().any()
