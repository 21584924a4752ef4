"""Chapter 1's own score and attention pooling."""

import torch
from builds import built

from d2l_attention import attention_pooling, gaussian_score

Q, K, D, V = 2, 5, 3, 7

page = built("01")


def test_distance_score_equals_the_packages():
    queries, keys = torch.randn(Q, D), torch.randn(K, D)
    torch.testing.assert_close(page["distance_score"](queries, keys), gaussian_score(queries, keys))


def test_pool_equals_the_packages_and_changes_nothing():
    for axes in ((), (11,)):
        for size in (1, 1000):  # the exponential of 1000 overflows
            scores, values = size * torch.randn(*axes, Q, K), torch.randn(*axes, K, V)
            before = scores.clone(), values.clone()
            output, weights = page["pool"](scores, values)
            expected_output, expected_weights = attention_pooling(scores, values)
            torch.testing.assert_close(output, expected_output)
            torch.testing.assert_close(weights, expected_weights)
            assert torch.equal(scores, before[0]) and torch.equal(values, before[1])


def test_pool_by_hand():
    scores, values = torch.tensor([[1.0, 3.0]]).log(), torch.tensor([[4.0, 0.0], [0.0, 8.0]])
    output, weights = page["pool"](scores, values)
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(output, torch.tensor([[1.0, 6.0]]))
