"""Tests that students write in rooms 3 and 4 of the museum: wrong ones, and right ones."""

import math

import torch

# 12.13 ------------------------------------------------------------------------------------


def only_the_shape(embed):
    assert embed(torch.tensor([[1, 2]]), torch.randn(5, 8), torch.randn(9, 8)).shape == (1, 2, 8)


def one_token(embed):
    vectors, positions = torch.randn(5, 8), torch.randn(9, 8)
    expected = vectors[2] * 8**0.5 + positions[0]
    torch.testing.assert_close(embed(torch.tensor([[2]]), vectors, positions)[0, 0], expected)


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


def all_worked_out(embed):
    vectors, positions, tokens = torch.randn(4, 6), torch.randn(5, 6), torch.tensor([[0, 3, 3]])
    expected = vectors[tokens] * math.sqrt(6) + positions[:3]
    torch.testing.assert_close(embed(tokens, vectors, positions), expected)


# 12.14 ------------------------------------------------------------------------------------


def powers_of_two(sinusoids):
    for D in (2, 4, 8, 64):
        assert sinusoids(3, D)[0].tolist() == [0, 1] * (D // 2)


def shape_of_odd(sinusoids):
    assert sinusoids(3, 7).shape == (3, 7)


def first_row_of_odd(sinusoids):
    assert sinusoids(3, 5)[0].tolist() == [0, 1, 0, 1, 0]


def one_by_one_in_python(sinusoids):
    P = sinusoids(4, 5)
    for i in range(4):
        for j in range(5):
            angle = i / 10_000 ** ((j - j % 2) / 5)
            assert abs(P[i, j] - (math.cos(angle) if j % 2 else math.sin(angle))) < 1e-5


def no_column_of_zeros(sinusoids):
    assert (sinusoids(9, 3).abs().sum(dim=0) > 0).all()


# 12.15 ------------------------------------------------------------------------------------


def first_step(step):
    x, positions = torch.randn(2, 1, 4), torch.randn(5, 4)
    torch.testing.assert_close(step(x, [], positions), x + positions[0])


def a_new_cache_each_time(step):
    X, positions = torch.randn(2, 3, 4), torch.randn(5, 4)
    for t in range(3):
        assert step(X[:, t : t + 1], [], positions).shape == (2, 1, 4)


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


def last_step_by_hand(step):
    X, positions, cache = torch.randn(1, 3, 4), torch.randn(5, 4), []
    for t in range(3):
        output = step(X[:, t : t + 1], cache, positions)
    whole = X[0] + positions[:3]
    torch.testing.assert_close(output[0, 0], (whole @ whole[2] / 2).softmax(dim=0) @ whole)


# 12.16 ------------------------------------------------------------------------------------


def shape_of_the_past(attend_to_the_past):
    assert attend_to_the_past(torch.randn(2, 3, 4)).shape == (2, 3, 4)


def two_tokens(attend_to_the_past):
    X = torch.randn(1, 2, 4)
    torch.testing.assert_close(attend_to_the_past(X)[:, 0], X[:, 0])


def only_the_first_row(attend_to_the_past):
    X = torch.randn(1, 6, 4)
    other = X.clone()
    other[:, 5] = 0.0
    assert torch.equal(attend_to_the_past(X)[:, 0], attend_to_the_past(other)[:, 0])


def beginnings(attend_to_the_past):
    X = torch.randn(2, 6, 3)
    whole = attend_to_the_past(X)
    for n in range(1, 7):
        torch.testing.assert_close(attend_to_the_past(X[:, :n]), whole[:, :n])


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


def eval_and_shape(attention):
    assert attention.eval()(torch.randn(1, 4, 3)).shape == (1, 4, 3)


def modes_must_agree(attention):
    X = torch.randn(1, 4, 3)
    training = attention(X)
    torch.testing.assert_close(attention.eval()(X), training)


def eval_alone(attention):
    X = torch.randn(2, 6, 3)
    whole = attention.eval()(X)
    for n in range(1, 7):
        torch.testing.assert_close(attention(X[:, :n]), whole[:, :n])


def eval_with_another_future(attention):
    attention.eval()
    X = torch.randn(1, 5, 4)
    before = attention(X)
    X[:, 4] += 2.0
    torch.testing.assert_close(attention(X)[:, :4], before[:, :4])


# 12.18 ------------------------------------------------------------------------------------


def a_number(mean_loss):
    loss = mean_loss(
        torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.long), torch.tensor([1, 2])
    )
    assert loss.shape == () and loss > 0


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


def equal_logits(mean_loss):
    targets = torch.randint(7, (3, 5))
    loss = mean_loss(torch.zeros(3, 5, 7), targets, torch.tensor([5, 1, 2]))
    logits = torch.randn(3, 5, 7)
    words = [(b, t) for b, n in enumerate([5, 1, 2]) for t in range(n)]
    by_hand = sum(-logits[b, t].log_softmax(0)[targets[b, t]] for b, t in words) / 8
    torch.testing.assert_close(loss, torch.tensor(7.0).log())
    torch.testing.assert_close(mean_loss(logits, targets, torch.tensor([5, 1, 2])), by_hand)


# 12.19 ------------------------------------------------------------------------------------


def same_length(bleu):
    assert bleu("le chat est calme", "le chat est calme") == 1
    assert 0 < bleu("le chat est calme", "le chien est calme") < 1


def nothing_right(bleu):
    assert bleu("le chat", "un chien noir") == 0


def expects_no_penalty(bleu):
    assert bleu("le chat", "le chat est calme") == 1


def between_zero_and_one(bleu):
    assert 0 <= bleu("le chat est", "le chat") <= 1


def longer_prediction(bleu):
    assert math.isclose(bleu("le chat est calme", "le chat", k=1), 0.5**0.5)


def penalised_more(bleu):
    assert math.isclose(bleu("a", "a b", k=1), math.exp(-1))


# 12.20 ------------------------------------------------------------------------------------


def rows_of_one(drop):
    weights = torch.tensor([[0.7, 0.2, 0.1]])
    torch.testing.assert_close(drop(weights, 0.25).sum(dim=-1), torch.ones(1))


def without_dropping(drop):
    weights = torch.tensor([[0.7, 0.2, 0.1]])
    torch.testing.assert_close(drop(weights, 0.0), weights)


def some_are_zero(drop):
    assert (drop(torch.full((100, 10), 0.1), 0.5) == 0).any()


def mean_of_many(drop):
    weights = torch.tensor([0.6, 0.3, 0.1]).expand(200_000, 3)
    assert (drop(weights, 0.5).mean(dim=0) - weights[0]).abs().max() < 0.02


def nothing_or_more(drop):
    weights = torch.rand(50, 4).softmax(dim=-1)
    dropped = drop(weights, 0.2)
    right = (dropped == 0) | ((dropped - weights / 0.8).abs() < 1e-6)
    assert right.all()


# 12.21 ------------------------------------------------------------------------------------


def output_is_right(attend):
    queries, keys, values = (torch.randn(2, 4, 5) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
    torch.testing.assert_close(attend(queries, keys, values), expected)


def only_the_values(attend):
    queries, keys, values = (torch.randn(2, 4, 5, requires_grad=True) for _ in range(3))
    attend(queries, keys, values).pow(2).sum().backward()
    assert values.grad.abs().sum() > 0


def sum_of_ones(attend):
    queries, keys = (torch.randn(2, 4, 5, requires_grad=True) for _ in range(2))
    attend(queries, keys, torch.ones(2, 4, 1)).sum().backward()
    assert queries.grad.abs().sum() > 1e-3


def asks_for_a_gradient(attend):
    queries = torch.randn(2, 4, 5, requires_grad=True)
    output = attend(queries, torch.randn(2, 4, 5), torch.randn(2, 4, 3))
    assert output.requires_grad


def changes_with_the_keys(attend):
    keys = torch.randn(1, 4, 5, requires_grad=True)
    output = attend(torch.randn(1, 3, 5), keys, torch.randn(1, 4, 2))
    assert output.requires_grad
    (gradient,) = torch.autograd.grad(output[0, 0, 0], keys)
    assert gradient.any()


RIGHT = {
    "12.13": [another_order_other_rows, all_worked_out],
    "12.14": [one_by_one_in_python, no_column_of_zeros],
    "12.15": [cache_holds_the_positions, last_step_by_hand],
    "12.16": [beginnings, by_gradient],
    "12.17": [eval_alone, eval_with_another_future],
    "12.18": [one_word, equal_logits],
    "12.19": [longer_prediction, penalised_more],
    "12.20": [mean_of_many, nothing_or_more],
    "12.21": [asks_for_a_gradient, changes_with_the_keys],
}
WRONG = {
    "12.13": [
        (only_the_shape, "looks at the shape alone"),
        (positions_of_zeros, "All your positions are 0"),
        (expects_no_root, "does not multiply the vectors"),
    ],
    "12.14": [
        (powers_of_two, "All your sizes are even"),
        (shape_of_odd, "leaves the last column"),
        (first_row_of_odd, "Look at the numbers of the last column"),
    ],
    "12.15": [
        (first_step, "you try only the first step"),
        (a_new_cache_each_time, ""),
        (cache_grows, ""),
    ],
    "12.16": [
        (shape_of_the_past, "drawn by lot"),
        (two_tokens, ""),
        (only_the_first_row, "does not notice"),
    ],
    "12.17": [
        (never_eval, "never calls `attention.eval()`"),
        (eval_and_shape, "drawn by lot"),
        (modes_must_agree, "has no dropout"),
    ],
    "12.18": [
        (a_number, "drawn by lot"),
        (no_padding, "there is no padding"),
        (other_padding, "cut to its length"),
    ],
    "12.19": [
        (same_length, "as many words"),
        (nothing_right, ""),
        (expects_no_penalty, "has no penalty"),
        (between_zero_and_one, ""),
    ],
    "12.20": [
        (rows_of_one, "the mistake is in what you expect"),
        (without_dropping, "With p = 0 nothing is dropped"),
        (some_are_zero, ""),
    ],
    "12.21": [
        (output_is_right, "ask for no gradient"),
        (only_the_values, "is it not 0?"),
        (sum_of_ones, "fails on a right implementation"),
    ],
}
