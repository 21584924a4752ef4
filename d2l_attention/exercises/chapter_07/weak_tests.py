"""Tests that students write for 7.6 and that let broken ones through, or fail right ones."""

import torch
from torch.testing import assert_close

from d2l_attention.exercises.chapter_07 import suspects, turning


def given(B=2, H=3, Q=2, K=5, D=6, V=4):
    shapes = (B, H, Q, D), (B, H, K, D), (B, H, K, V)
    return tuple(torch.randn(shape) for shape in shapes)


def expected(queries, keys, values, first_query, first_key, *, size=None, rotate=turning.right):
    q, k = rotate(queries, first_query), rotate(keys, first_key)
    scores = q @ k.mT / (size or queries.shape[-1]) ** 0.5
    return scores.softmax(dim=-1) @ values


def compare(attend, inputs, first_query=4, first_key=1, **wrong):
    right = expected(*inputs, first_query, first_key, **wrong)
    assert_close(attend(*inputs, first_query, first_key), right)


def without_a_call(attend):
    inputs = given()
    assert_close(suspects.right(*inputs, 4, 1), expected(*inputs, 4, 1))


def shape_only(attend):
    assert attend(*given(), 4, 1).shape == (2, 3, 2, 4)


def not_nan(attend):
    assert not attend(*given(), 4, 1).isnan().any()


def compares_with_itself(attend):
    inputs = given()
    assert_close(attend(*inputs, 4, 1), attend(*inputs, 4, 1))


def returns_instead_of_asserting(attend):
    inputs = given()
    return torch.allclose(attend(*inputs, 4, 1), expected(*inputs, 4, 1))


def every_digit(attend):
    inputs = given()
    assert torch.equal(attend(*inputs, 4, 1), expected(*inputs, 4, 1))


def shift_alone(attend):
    inputs = given()
    assert_close(attend(*inputs, 4, 1), attend(*inputs, 9, 6), rtol=1e-3, atol=1e-3)
    assert attend(*inputs, 4, 1).any()


def shift_and_distance(attend):
    inputs = given()
    shift_alone(attend)
    assert not torch.allclose(attend(*inputs, 4, 1), attend(*inputs, 9, 1))


def from_position_0(attend):
    compare(attend, given(), 0, 0)


def same_start(attend):
    compare(attend, given(), 3, 3)


def one_key(attend):
    compare(attend, given(K=1))


def single_pair(attend):
    compare(attend, given(D=2))


def queries_of_zeros(attend):
    queries, *others = given()
    compare(attend, (torch.zeros_like(queries), *others))


def values_alike(attend):
    queries, keys, values = given()
    compare(attend, (queries, keys, torch.ones_like(values)))


def one_column_of_values(attend):
    compare(attend, given(V=1))


def expects_turned_values(attend):
    queries, keys, values = given()
    right = suspects.values_turned(queries, keys, values, 4, 1)
    assert_close(attend(queries, keys, values, 4, 1), right)


def expects_no_scale(attend):
    compare(attend, given(), size=1)


def expects_halves(attend):
    compare(attend, given(), rotate=suspects.in_halves)


def expects_backwards(attend):
    compare(attend, given(), rotate=suspects.backwards)


def expects_a_shift_to_matter(attend):
    inputs = given()
    assert not torch.allclose(attend(*inputs, 4, 1), attend(*inputs, 9, 6), rtol=1e-3, atol=1e-3)


def raises_another_error(attend):
    inputs = given()
    if not torch.allclose(attend(*inputs, 4, 1), expected(*inputs, 4, 1), atol=1e-5):
        raise ValueError("broken positions")


def forgets_the_positions(attend):
    assert attend(*given()).shape == (2, 3, 2, 4)
