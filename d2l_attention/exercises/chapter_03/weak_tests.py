"""Tests that students write for 3.6 and that let a wrong score through, or a right one fail."""

import torch

from d2l_attention import scaled_dot_score


def without_a_call(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    scores = scaled_dot_score(queries, keys)
    assert scores.shape == (3, 5)


def shape_only(implementation):
    assert implementation(torch.randn(2, 3, 7), torch.randn(2, 5, 7)).shape == (2, 3, 5)


def returns_instead_of_asserting(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    return torch.allclose(implementation(queries, keys), scaled_dot_score(queries, keys))


def every_digit(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    assert torch.equal(implementation(queries, keys), queries @ keys.T / 7**0.5)


def forgets_to_divide(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    torch.testing.assert_close(implementation(queries, keys), queries @ keys.T)


def expects_d(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    torch.testing.assert_close(implementation(queries, keys), queries @ keys.T / 7)


def one_size_for_all(implementation):
    x = torch.randn(4, 4)
    torch.testing.assert_close(implementation(x, x), x @ x.T / 4**0.5)


def one_tensor_for_both(implementation):
    x = torch.randn(4, 7)
    torch.testing.assert_close(implementation(x, x), x @ x.T / 7**0.5)


def as_many_keys_as_numbers(implementation):
    queries, keys = torch.randn(3, 16), torch.randn(16, 16)
    torch.testing.assert_close(implementation(queries, keys), queries @ keys.T / 4)


def vectors_of_one_number(implementation):
    queries, keys = torch.tensor([[2.0], [3.0]]), torch.tensor([[1.0], [4.0], [5.0]])
    assert implementation(queries, keys).tolist() == [[2, 8, 10], [3, 12, 15]]


def zeros_only(implementation):
    assert (implementation(torch.zeros(2, 5), torch.randn(3, 5)) == 0).all()


def variance_not_too_large(implementation):
    scores = implementation(torch.randn(500, 64), torch.randn(400, 64))
    assert scores.var() < 1.5


def compares_with_itself(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    torch.testing.assert_close(implementation(queries, keys), implementation(queries, keys))


def prints(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    print(torch.allclose(implementation(queries, keys), scaled_dot_score(queries, keys)))


def asks_for_the_name(implementation):
    assert implementation(torch.randn(3, 7), torch.randn(5, 7)).shape == (3, 5)
    assert implementation is scaled_dot_score


def expects_the_root_of_q(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    torch.testing.assert_close(implementation(queries, keys), queries @ keys.T / 3**0.5)


def subtracts(implementation):
    queries, keys = torch.randn(3, 7), torch.randn(5, 7)
    difference = implementation(queries, keys) - queries @ keys.T / 7**0.5
    assert difference.abs().max() < 1e-5


def whole_numbers(implementation):
    queries, keys = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 0, 0, 1], [0, 1, 0, 0]])
    assert implementation(queries, keys).tolist() == [[2.5, 1.0]]
