"""Tests that students write for 9.7 and that let a leak through, or a causal layer fail."""

import torch
from torch.testing import assert_close


def some(n=10, seed=1):
    return torch.randn(2, n, 8, generator=torch.Generator().manual_seed(seed))


def other_from(X, t, stop=None):
    """X with another future from place t on, up to ``stop``."""
    changed = X.clone()
    changed[:, t:stop] = some(X.shape[1], seed=2)[:, t:stop]
    return changed


def never_calls(layer):
    assert callable(layer)


def shape_only(layer):
    assert layer(some()).shape == (2, 10, 8)


def same_twice(layer):
    assert_close(layer(some()), layer(some()))


def changes_nothing(layer):
    X = some()
    other = X
    other[:, 5:] = 0
    assert_close(layer(other)[:, :5], layer(X)[:, :5])


def returns_true_or_false(layer):
    X = some()
    return torch.allclose(layer(other_from(X, 5))[:, :5], layer(X)[:, :5])


def swallows_the_failure(layer):
    try:
        full(layer)
    except AssertionError:
        print("a leak")


def full(layer, X=None):
    X = some() if X is None else X
    for t in range(1, X.shape[1]):
        assert_close(layer(other_from(X, t))[:, :t], layer(X)[:, :t])


def far_too_tolerant(layer):
    X = some()
    for t in range(1, 10):
        assert (layer(other_from(X, t))[:, :t] - layer(X)[:, :t]).abs().max() < 1000


def raises_another_error(layer):
    X = some()
    for t in range(1, 10):
        if not torch.allclose(layer(other_from(X, t))[:, :t], layer(X)[:, :t], atol=1e-5):
            raise ValueError("a leak")


def pours_nan(layer):
    X = some()
    for t in range(1, 10):
        dyed = X.clone()
        dyed[:, t:] = torch.nan
        assert not layer(dyed)[:, :t].isnan().any()


def a_billion(layer):
    X = some()
    for t in range(1, 10):
        changed = X.clone()
        changed[:, t:] = 1e9
        assert_close(layer(changed)[:, :t], layer(X)[:, :t])


def every_digit(layer):
    X = some()
    for t in range(1, 10):
        assert torch.equal(layer(other_from(X, t))[:, :t], layer(X)[:, :t])


def gradient_of_exactly_0(layer):
    X = some().requires_grad_()
    for t in range(9):
        (gradient,) = torch.autograd.grad(layer(X)[:, t].sum(), X)
        assert not gradient[:, t + 1 :].any()


def one_place(layer):
    X = some()
    assert_close(layer(other_from(X, 6))[:, :6], layer(X)[:, :6])


def next_token_alone(layer):
    X = some()
    for t in range(1, 10):
        assert_close(layer(other_from(X, t, t + 1))[:, t - 1], layer(X)[:, t - 1])


def last_place_left_out(layer):
    X = some()
    for t in range(2, 10):
        assert_close(layer(other_from(X, t))[:, : t - 1], layer(X)[:, : t - 1])


def far_future_alone(layer):
    X = some()
    for t in range(1, 8):
        assert_close(layer(other_from(X, t + 1))[:, :t], layer(X)[:, :t])


def last_token_alone(layer):
    X = some()
    assert_close(layer(other_from(X, 9))[:, :9], layer(X)[:, :9])


def four_tokens(layer):
    full(layer, some(4))


def neighbours_alone(layer):
    """The end of the sequence never changes."""
    X = some(16)
    for t in range(1, 8):
        assert_close(layer(other_from(X, t, t + 5))[:, :t], layer(X)[:, :t])


def compares_its_own_place(layer):
    X = some()
    assert_close(layer(other_from(X, 5))[:, :6], layer(X)[:, :6])


def changes_the_past(layer):
    X = some()
    changed = X.clone()
    changed[:, 0] += 1
    assert_close(layer(changed)[:, 1:], layer(X)[:, 1:])


def the_wrong_way_round(layer):
    X = some()
    for t in range(1, 10):
        assert not torch.allclose(layer(other_from(X, t))[:, :t], layer(X)[:, :t])


def expects_a_mean(layer):
    """Equal tokens have equal outputs: true of softmax weights alone."""
    X = torch.ones(1, 6, 8)
    assert_close(layer(X), layer(X)[:, :1].expand(1, 6, 8))


def expects_plain_attention(layer):
    X = some()[:, None]
    expected = torch.nn.functional.scaled_dot_product_attention(X, X, X, is_causal=True)
    assert_close(layer(X[:, 0]), expected[:, 0])


def one_word_for_all(layer):
    for t in range(1, 6):
        X = torch.ones(1, 6, 8)
        assert_close(layer(X[:, :t]), layer(X)[:, :t])


def wrong_size(layer):
    layer(torch.randn(2, 10, 7))
