"""Tests that students write in rooms 3 and 4 of the museum: wrong ones, and right ones."""

import math

import torch

# 12.13 ------------------------------------------------------------------------------------


def positions_of_zeros(embed):
    vectors = torch.randn(5, 8)
    X = embed(torch.tensor([[2, 1]]), vectors, torch.zeros(9, 8))
    torch.testing.assert_close(X, vectors[[2, 1]][None] * 8**0.5)


def expects_no_root(embed):
    vectors, positions = torch.randn(5, 8), torch.randn(9, 8)
    X = embed(torch.tensor([[2, 1]]), vectors, positions)
    torch.testing.assert_close(X[0], vectors[[2, 1]] + positions[:2])


def another_order_other_rows(embed):
    vectors, positions = torch.randn(5, 8), torch.randn(9, 8)
    first, second = (embed(torch.tensor([t]), vectors, positions)[0] for t in ([1, 2], [2, 1]))
    assert not torch.allclose(first.flip(0), second)


# 12.14 ------------------------------------------------------------------------------------


def powers_of_two(sinusoids):
    for D in (2, 4, 8, 64):
        assert sinusoids(3, D)[0].tolist() == [0, 1] * (D // 2)


def first_row_of_odd(sinusoids):
    assert sinusoids(3, 5)[0].tolist() == [0, 1, 0, 1, 0]


def one_by_one_in_python(sinusoids):
    P = sinusoids(4, 5)
    for i in range(4):
        for j in range(5):
            angle = i / 10_000 ** ((j - j % 2) / 5)
            assert abs(P[i, j] - (math.cos(angle) if j % 2 else math.sin(angle))) < 1e-5


# 12.15 ------------------------------------------------------------------------------------


def first_step(step):
    x, positions = torch.randn(2, 1, 4), torch.randn(5, 4)
    torch.testing.assert_close(step(x, [], positions), x + positions[0])


def cache_grows(step):
    cache, positions = [], torch.randn(5, 4)
    for n in range(1, 4):
        step(torch.randn(2, 1, 4), cache, positions)
        assert len(cache) == n


def cache_holds_the_positions(step):
    X, positions, cache = torch.randn(2, 3, 4), torch.randn(5, 4), []
    for t in range(3):
        step(X[:, t : t + 1], cache, positions)
    torch.testing.assert_close(torch.cat(cache, dim=1), X + positions[:3])


# 12.16 ------------------------------------------------------------------------------------


def two_tokens(attend_to_the_past):
    X = torch.randn(1, 2, 4)
    torch.testing.assert_close(attend_to_the_past(X)[:, 0], X[:, 0])


def only_the_first_row(attend_to_the_past):
    X = torch.randn(1, 6, 4)
    other = X.clone()
    other[:, 5] = 0.0
    assert torch.equal(attend_to_the_past(X)[:, 0], attend_to_the_past(other)[:, 0])


def by_gradient(attend_to_the_past):
    X = torch.randn(1, 4, 3, requires_grad=True)
    for t in range(4):
        (gradient,) = torch.autograd.grad(attend_to_the_past(X)[0, t].sum(), X)
        assert not gradient[0, t + 1 :].any()


# 12.17 ------------------------------------------------------------------------------------


def never_eval(attention):
    X = torch.randn(1, 4, 3)
    other = X.clone()
    other[:, 2:] = 0.0
    torch.manual_seed(1)
    before = attention(X)
    torch.manual_seed(1)
    torch.testing.assert_close(attention(other)[:, :2], before[:, :2])


def modes_must_agree(attention):
    X = torch.randn(1, 4, 3)
    training = attention(X)
    torch.testing.assert_close(attention.eval()(X), training)


def eval_alone(attention):
    X = torch.randn(2, 6, 3)
    whole = attention.eval()(X)
    for n in range(1, 7):
        torch.testing.assert_close(attention(X[:, :n]), whole[:, :n])


def switches_the_dropout_off(attention):
    attention.dropout.p = 0.0
    X = torch.randn(1, 4, 3)
    other = X.clone()
    other[:, 2:] = 0.0
    for training in (True, False):
        attention.train(training)
        torch.testing.assert_close(attention(other)[:, :2], attention(X)[:, :2])


# 12.18 ------------------------------------------------------------------------------------


def no_padding(mean_loss):
    logits, targets = torch.randn(2, 3, 5), torch.randint(5, (2, 3))
    expected = torch.nn.functional.cross_entropy(logits.mT, targets)
    torch.testing.assert_close(mean_loss(logits, targets, torch.tensor([3, 3])), expected)


def other_padding(mean_loss):
    logits, targets, lens = torch.randn(2, 4, 5), torch.randint(5, (2, 4)), torch.tensor([2, 1])
    before = mean_loss(logits, targets, lens)
    logits[0, 2:], logits[1, 1:] = 3 * torch.randn(2, 5), 3 * torch.randn(3, 5)
    torch.testing.assert_close(mean_loss(logits, targets, lens), before)


def one_word(mean_loss):
    logits, targets = torch.randn(1, 4, 5), torch.tensor([[2, 0, 0, 0]])
    expected = -logits[0, 0].log_softmax(dim=0)[2]
    torch.testing.assert_close(mean_loss(logits, targets, torch.tensor([1])), expected)


# 12.19 ------------------------------------------------------------------------------------


def same_length(bleu):
    assert bleu("le chat est calme", "le chat est calme") == 1
    assert 0 < bleu("le chat est calme", "le chien est calme") < 1


def expects_no_penalty(bleu):
    assert bleu("le chat", "le chat est calme") == 1


def longer_prediction(bleu):
    assert math.isclose(bleu("le chat est calme", "le chat", k=1), 0.5**0.5)


# 12.20 ------------------------------------------------------------------------------------


def rows_of_one(drop):
    weights = torch.tensor([[0.7, 0.2, 0.1]])
    torch.testing.assert_close(drop(weights, 0.25).sum(dim=-1), torch.ones(1))


def without_dropping(drop):
    weights = torch.tensor([[0.7, 0.2, 0.1]])
    torch.testing.assert_close(drop(weights, 0.0), weights)


def draws_the_same(drop):
    weights = torch.tensor([[0.7, 0.2, 0.1]])
    torch.manual_seed(1)
    dropped = drop(weights, 0.5)
    torch.manual_seed(1)
    kept = torch.rand_like(weights) >= 0.5
    torch.testing.assert_close(dropped, weights * kept / 0.5)


def mean_of_many(drop):
    weights = torch.tensor([0.6, 0.3, 0.1]).expand(200_000, 3)
    assert (drop(weights, 0.5).mean(dim=0) - weights[0]).abs().max() < 0.02


# 12.21 ------------------------------------------------------------------------------------


def only_the_values(attend):
    queries, keys, values = (torch.randn(2, 4, 5, requires_grad=True) for _ in range(3))
    attend(queries, keys, values).pow(2).sum().backward()
    assert values.grad.abs().sum() > 0


def sum_of_ones(attend):
    queries, keys = (torch.randn(2, 4, 5, requires_grad=True) for _ in range(2))
    attend(queries, keys, torch.ones(2, 4, 1)).sum().backward()
    assert queries.grad.abs().sum() > 1e-3


def changes_with_the_keys(attend):
    keys = torch.randn(1, 4, 5, requires_grad=True)
    output = attend(torch.randn(1, 3, 5), keys, torch.randn(1, 4, 2))
    assert output.requires_grad
    (gradient,) = torch.autograd.grad(output[0, 0, 0], keys)
    assert gradient.any()


RIGHT = {
    "12.13": [another_order_other_rows],
    "12.14": [one_by_one_in_python],
    "12.15": [cache_holds_the_positions],
    "12.16": [by_gradient],
    "12.17": [eval_alone],
    "12.18": [one_word],
    "12.19": [longer_prediction],
    "12.20": [mean_of_many],
    "12.21": [changes_with_the_keys],
}
WRONG = {
    "12.13": [
        (positions_of_zeros, "All your positions are 0"),
        (expects_no_root, "does not multiply the vectors"),
    ],
    "12.14": [
        (powers_of_two, "All your sizes are even"),
        (first_row_of_odd, "Look at the numbers of the last column"),
    ],
    "12.15": [
        (first_step, "you try only the first step"),
        (cache_grows, "looks at the shape alone"),
    ],
    "12.16": [
        (two_tokens, "Your sentences have two tokens or fewer"),
        (only_the_first_row, "does not notice"),
    ],
    "12.17": [
        (never_eval, "never calls `attention.eval()`"),
        (modes_must_agree, "has no dropout"),
        (switches_the_dropout_off, "has no attribute 'dropout'"),
    ],
    "12.18": [
        (no_padding, "there is no padding"),
        (other_padding, "cut to its length"),
    ],
    "12.19": [
        (same_length, "as many words"),
        (expects_no_penalty, "has no penalty"),
    ],
    "12.20": [
        (rows_of_one, "the mistake is in what you expect"),
        (without_dropping, "With p = 0 nothing is dropped"),
        (draws_the_same, "fails on a right implementation"),
    ],
    "12.21": [
        (only_the_values, "is it not 0?"),
        (sum_of_ones, "fails on a right implementation"),
    ],
}
