"""Tests that students write in the museum: wrong ones with their words, and right ones."""

import torch
import torch.nn.functional as F
from answers import right, wrong


def attention(queries, keys, values, mask=None):
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def qkv(Q=3, K=5):
    return torch.randn(2, Q, 7), torch.randn(2, K, 7), torch.randn(2, K, 11)


@right("12.1")
def against_pytorch(attend):
    inputs = qkv()
    torch.testing.assert_close(attend(*inputs), attention(*inputs))


@wrong("12.1", "Let all values be 1")
def total_of_a_square(attend):
    queries, keys, _ = qkv(Q=4, K=4)
    weights = attend(queries, keys, torch.eye(4).expand(2, 4, 4))
    assert abs(weights.sum() - 2 * 4) < 1e-4


@wrong("12.1", "All your queries are alike")
def tokens_all_alike(attend):
    ones = torch.ones(2, 4, 7)
    torch.testing.assert_close(attend(ones, ones, ones), ones)


def batch(B, H, lengths):
    tensors = [torch.randn(B, H, n, 7) for n in (3, 5, 5)]
    return *tensors, (torch.arange(5) < torch.tensor(lengths)[:, None, None]).expand(B, 3, 5)


@right("12.2")
def in_a_loop(attend):
    queries, keys, values, mask = batch(3, 3, [1, 3, 5])
    output = attend(queries, keys, values, mask)
    for b in range(3):
        for h in range(3):
            expected = attention(queries[b, h], keys[b, h], values[b, h], mask[b])
            torch.testing.assert_close(output[b, h], expected)


@wrong("12.2", "(an error unless B equals H, or one of them is 1) your test breaks off")
def all_sizes_differ(attend):
    queries, keys, values, mask = batch(2, 4, [2, 5])
    expected = attention(queries, keys, values, mask[:, None])
    torch.testing.assert_close(attend(queries, keys, values, mask), expected)


@wrong("12.2", "with what it gives alone")
def first_head_of_the_first(attend):
    queries, keys, values, mask = batch(2, 2, [2, 5])
    expected = attention(queries[0, 0], keys[0, 0], values[0, 0], mask[0])
    torch.testing.assert_close(attend(queries, keys, values, mask)[0, 0], expected)


@wrong("12.2", "The first sentence is right there")
def all_heads_of_the_first(attend):
    queries, keys, values, mask = batch(2, 2, [2, 5])
    alone = attend(queries[:1], keys[:1], values[:1], mask[:1])
    torch.testing.assert_close(attend(queries, keys, values, mask)[:1], alone)


@wrong("12.3", "you try only the first step")
def first_step(step):
    x, positions = torch.randn(2, 1, 4), torch.randn(5, 4)
    torch.testing.assert_close(step(x, [], positions), x + positions[0])


@right("12.3")
def cache_holds_the_positions(step):
    X, positions, cache = torch.randn(2, 3, 4), torch.randn(5, 4), []
    for t in range(3):
        step(X[:, t : t + 1], cache, positions)
    torch.testing.assert_close(torch.cat(cache, dim=1), X + positions[:3])


@wrong("12.3", "Two steps do not show it")
def two_steps(step):
    X, positions, cache = torch.randn(2, 2, 4), torch.randn(5, 4), []
    for t in range(2):
        output = step(X[:, t : t + 1], cache, positions)
    whole = X + positions[:2]
    torch.testing.assert_close(output, attention(whole, whole, whole)[:, 1:])


@wrong("12.4", "never calls `attention.eval()`")
def never_eval(attention):
    X = torch.randn(1, 4, 3)
    other = X.clone()
    other[:, 2:] = 0.0
    torch.manual_seed(1)
    before = attention(X)
    torch.manual_seed(1)
    torch.testing.assert_close(attention(other)[:, :2], before[:, :2])


@wrong("12.4", "Your test tries eval mode only")
def eval_alone(attention):
    X = torch.randn(2, 6, 3)
    whole = attention.eval()(X)
    for n in range(1, 7):
        torch.testing.assert_close(attention(X[:, :n]), whole[:, :n])


@right("12.4")
def by_gradient_in_both_modes(attention):
    for mode in (attention.train, attention.eval):
        mode()
        X = torch.randn(1, 5, 3, requires_grad=True)
        for t in range(5):
            (gradient,) = torch.autograd.grad(attention(X)[0, t].sum(), X)
            assert not gradient[0, t + 1 :].any()


@wrong("12.5", "is it not 0?")
def only_the_values(attend):
    queries, keys, values = (torch.randn(2, 4, 5, requires_grad=True) for _ in range(3))
    attend(queries, keys, values).pow(2).sum().backward()
    assert values.grad.abs().sum() > 0


@wrong("12.5", "fails on a right implementation")
def sum_of_ones(attend):
    queries, keys = (torch.randn(2, 4, 5, requires_grad=True) for _ in range(2))
    attend(queries, keys, torch.ones(2, 4, 1)).sum().backward()
    assert queries.grad.abs().sum() > 1e-3


@right("12.5")
def changes_with_the_keys(attend):
    keys = torch.randn(1, 4, 5, requires_grad=True)
    output = attend(torch.randn(1, 3, 5), keys, torch.randn(1, 4, 2))
    assert output.requires_grad
    (gradient,) = torch.autograd.grad(output[0, 0, 0], keys)
    assert gradient.any()


@right("12.6")
def by_differences(run, X, t):
    other = torch.cat((X[:, :t], 3 * torch.randn_like(X[:, t:])), dim=1)
    for (name, before), after in zip(run(X).items(), run(other).values(), strict=True):
        gap = (before[:, :t] - after[:, :t]).nan_to_num().abs().max().item()
        if gap > 1e-4:
            return name


@wrong("12.6", "Your function changes its in")
def without_a_copy(run, X, t):
    before = run(X)
    other = X
    other[:, t:] = torch.randn_like(other[:, t:])
    after = run(other)
    for name in before:
        if not torch.allclose(before[name][:, :t], after[name][:, :t]):
            return name
    return None


@wrong("12.6", "Return the name of a result")
def the_number_of_the_first(run, X, t):
    other = X.clone()
    other[:, t:] = torch.randn_like(other[:, t:])
    for number, (before, after) in enumerate(
        zip(run(X).values(), run(other).values(), strict=True)
    ):
        if not torch.allclose(before[:, :t], after[:, :t]):
            return number


@right("12.7")
def each_future_gets_no_gradient(causal_attention):
    queries, keys, values = qkv(Q=5, K=5)
    for t in range(5):
        given = values.clone().requires_grad_()
        causal_attention(queries, keys, given)[:, t].sum().backward()
        assert given.grad[:, : t + 1].any() and not given.grad[:, t + 1 :].any()


@wrong("12.7", "has no mask at all")
def all_rows_sum_to_one(causal_attention):
    queries, keys, _ = qkv(Q=5, K=5)
    output = causal_attention(queries, keys, torch.ones(2, 5, 1))
    torch.testing.assert_close(output, torch.ones(2, 5, 1))


@wrong("12.7", "Token 0 is right there")
def only_the_first_token(causal_attention):
    queries, keys, values = qkv(Q=5, K=5)
    torch.testing.assert_close(causal_attention(queries, keys, values)[:, 0], values[:, 0])


@wrong("12.7", "Only the next token leaks")
def only_from_token_three_on(causal_attention):
    queries, keys, values = qkv(Q=5, K=5)
    before = causal_attention(queries, keys, values)
    values[:, 3:] = 0.0
    torch.testing.assert_close(causal_attention(queries, keys, values)[:, :2], before[:, :2])


def with_an_empty_row():
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, 1] = False
    return *qkv(), mask


@right("12.8")
def no_nan_anywhere(attend):
    assert not torch.isnan(attend(*with_an_empty_row())).any()


@wrong("12.8", "Each of your queries sees a key")
def every_row_sees_something(attend):
    *inputs, mask = *qkv(), (torch.arange(5) < 2).expand(2, 3, 5)
    assert attend(*inputs, mask).isfinite().all()


@wrong("12.8", "can it see NaN?")
def largest_is_small(attend):
    queries, keys, values, mask = with_an_empty_row()
    assert not (attend(queries, keys, values, mask) > values.max() + 1).any()


EMPTY_ROW = torch.tensor([[True, False, True], [False, False, False]])


@right("12.9")
def half_like_single(masked_softmax):
    scores = torch.randn(2, 3)
    single = masked_softmax(scores, EMPTY_ROW)
    half = masked_softmax(scores.half(), EMPTY_ROW).float()
    torch.testing.assert_close(half, single, rtol=0.01, atol=0.001)


@wrong("12.9", "None of your scores are float16")
def in_single_precision(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3), EMPTY_ROW)
    assert weights.isfinite().all() and not weights[1].any()


@wrong("12.9", "A row of its weights is NaN")
def half_and_a_comparison(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3).half(), EMPTY_ROW)
    assert weights.shape == (2, 3) and not (weights > 1).any() and (weights[0] > 0).any()


CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril().expand(2, 5, 5)


@wrong("12.10", "a hidden *key* does")
def hidden_value_is_not_heard(attend):
    queries, keys, values = qkv(Q=5)
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[:, 1, 4] = False  # token 1 must not see token 4
    before = attend(queries, keys, values, mask)
    values[:, 4] = 100.0
    torch.testing.assert_close(attend(queries, keys, values, mask)[:, 1], before[:, 1])


@wrong("12.10", "Your mask is its own transpose")
def with_a_band(attend):
    inputs = qkv(Q=5)
    near = (torch.arange(5)[:, None] - torch.arange(5)).abs() <= 1
    mask = near.expand(2, 5, 5)
    torch.testing.assert_close(attend(*inputs, mask), attention(*inputs, mask))


@wrong("12.10", "All your sentences have the same mask")
def only_token_zero(attend):
    queries, keys, values = qkv(Q=5)
    output = attend(queries, keys, values, CAUSAL)
    torch.testing.assert_close(output[:, 0], values[:, 0])


@right("12.10")
def with_a_mask_for_each(attend):
    queries, keys, values = qkv(Q=5)
    mask = torch.rand(2, 5, 5) < 0.5
    mask[:, :, 0] = True
    torch.testing.assert_close(
        attend(queries, keys, values, mask), attention(queries, keys, values, mask)
    )


@right("12.11")
def like_pytorch_with_a_mask(attend):
    queries, keys, values = qkv(Q=9, K=9)
    for window in (1, 2, 4):
        visible = torch.ones(9, 9, dtype=torch.bool).tril().triu(1 - window)
        expected = attention(queries, keys, values, visible)
        torch.testing.assert_close(attend(queries, keys, values, window), expected)


@wrong("12.11", "one token more than the window holds")
def the_far_past_is_hidden(attend):
    queries, keys, values = qkv(Q=7, K=7)
    before = attend(queries, keys, values, 3)
    values[:, 0] = 100.0
    torch.testing.assert_close(attend(queries, keys, values, 3)[:, 6], before[:, 6])


@wrong("12.11", "one token less than the window holds")
def no_key_too_many(attend):
    queries, keys, _ = qkv(Q=7, K=7)
    weights = attend(queries, keys, torch.eye(7).expand(2, 7, 7), 3)
    assert not weights.tril(-3).any() and not weights.triu(1).any()


def one_batch_of(lens, n=5):
    logits, targets = torch.randn(len(lens), n, 7), torch.randint(7, (len(lens), n))
    return logits, targets.masked_fill(torch.arange(n) >= torch.tensor(lens)[:, None], -100)


@wrong("12.12", "the same number of words")
def equal_parts(mean_loss):
    logits, targets = one_batch_of([5, 5])
    parts = [(logits[:1], targets[:1]), (logits[1:], targets[1:])]
    torch.testing.assert_close(mean_loss(parts), F.cross_entropy(logits.mT, targets))


@wrong("12.12", "counts it below")
def only_two_ways(mean_loss):
    logits, targets = one_batch_of([5, 2])
    parts = [(logits[:1], targets[:1]), (logits[1:], targets[1:])]
    torch.testing.assert_close(mean_loss(parts), mean_loss([(logits, targets)]))


@right("12.12")
def word_by_word(mean_loss):
    parts = [one_batch_of([5, 1]), one_batch_of([2], n=4)]
    losses = [
        -logits[b, i].log_softmax(dim=0)[targets[b, i]]
        for logits, targets in parts
        for b, i in (targets != -100).nonzero().tolist()
    ]
    torch.testing.assert_close(mean_loss(parts), torch.stack(losses).mean())
