"""Tests that students write in rooms 1 and 2 of the museum: wrong ones, and right ones."""

import torch
import torch.nn.functional as F


def attention(queries, keys, values, mask=None):
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def qkv(Q=3, K=5):
    return torch.randn(2, Q, 7), torch.randn(2, K, 7), torch.randn(2, K, 11)


# 12.1 -------------------------------------------------------------------------------------


def against_pytorch(attend):
    inputs = qkv()
    torch.testing.assert_close(attend(*inputs), attention(*inputs))


def between_smallest_and_largest(attend):
    queries, keys, values = torch.randn(50, 3, 7), torch.randn(50, 9, 7), torch.randn(50, 9, 1)
    output = attend(queries, keys, values)
    assert (output <= values.amax(dim=1, keepdim=True) + 1e-5).all()
    assert (output >= values.amin(dim=1, keepdim=True) - 1e-5).all()


def total_of_a_square(attend):
    queries, keys, _ = qkv(Q=4, K=4)
    weights = attend(queries, keys, torch.eye(4).expand(2, 4, 4))
    assert abs(weights.sum() - 2 * 4) < 1e-4


def tokens_all_alike(attend):
    ones = torch.ones(2, 4, 7)
    torch.testing.assert_close(attend(ones, ones, ones), ones)


# 12.2 -------------------------------------------------------------------------------------


def masked(visible=2):
    return *qkv(), (torch.arange(5) < visible).expand(2, 3, 5)


def masked_against_pytorch(attend):
    *inputs, mask = masked()
    torch.testing.assert_close(attend(*inputs, mask), attention(*inputs, mask))


def hidden_values_change_nothing(attend):
    queries, keys, values, mask = masked()
    before = attend(queries, keys, values, mask)
    values[:, 2:] = 100.0
    torch.testing.assert_close(attend(queries, keys, values, mask), before)


def hides_nothing(attend):
    *inputs, mask = masked(visible=5)
    torch.testing.assert_close(attend(*inputs, mask), attention(*inputs))


def nan_in_hidden_keys(attend):
    queries, keys, values, mask = masked()
    expected = attention(queries, keys, values, mask)
    keys[:, 2:] = torch.nan
    torch.testing.assert_close(attend(queries, keys, values, mask), expected)


# 12.3 -------------------------------------------------------------------------------------


def future_gets_no_gradient(causal_attention):
    queries, keys, values = qkv(Q=5, K=5)
    values.requires_grad_()
    causal_attention(queries, keys, values)[:, 2].sum().backward()
    assert values.grad[:, :3].any() and not values.grad[:, 3:].any()


def all_rows_sum_to_one(causal_attention):
    queries, keys, _ = qkv(Q=5, K=5)
    output = causal_attention(queries, keys, torch.ones(2, 5, 1))
    torch.testing.assert_close(output, torch.ones(2, 5, 1))


def tokens_of_one_kind(causal_attention):
    X = torch.ones(2, 5, 7)
    torch.testing.assert_close(causal_attention(X, X, X)[:, :-1], X[:, :-1])


# 12.4 -------------------------------------------------------------------------------------


def with_an_empty_row():
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, 1] = False
    return *qkv(), mask


def no_nan_anywhere(attend):
    assert not torch.isnan(attend(*with_an_empty_row())).any()


def every_row_sees_something(attend):
    *inputs, mask = masked()
    assert attend(*inputs, mask).isfinite().all()


def largest_is_small(attend):
    queries, keys, values, mask = with_an_empty_row()
    assert not (attend(queries, keys, values, mask) > values.max() + 1).any()


# 12.5 -------------------------------------------------------------------------------------


def twice_with_other_lengths(masked_softmax):
    scores = torch.randn(1, 2, 4)
    masked_softmax(scores, torch.tensor([1]))
    weights = masked_softmax(scores, torch.tensor([4]))
    assert (weights > 0).all()


def another_name(masked_softmax):
    scores = torch.randn(2, 3, 5)
    before = scores
    masked_softmax(scores, torch.tensor([5, 2]))
    assert torch.equal(scores, before)


def looks_at_the_weights(masked_softmax):
    scores = torch.randn(2, 3, 5)
    weights = masked_softmax(scores, torch.tensor([5, 2]))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3))
    assert not weights[1, :, 2:].any()


# 12.6 -------------------------------------------------------------------------------------


def every_padding_entry(masked_softmax):
    lengths = [3, 0, 1]
    weights = masked_softmax(torch.randn(3, 2, 4), torch.tensor(lengths))
    for sentence, length in zip(weights, lengths, strict=True):
        for row in sentence.tolist():
            assert row[length:] == [0.0] * (4 - length)


def no_sentence_is_empty(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3, 5), torch.tensor([1, 4]))
    assert not weights[0, :, 1:].any() and not weights[1, :, 4:].any()


def each_row_sums_to_one(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3, 5), torch.tensor([0, 4]))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3))


# 12.7 -------------------------------------------------------------------------------------

EMPTY_ROW = torch.tensor([[True, False, True], [False, False, False]])


def half_like_single(masked_softmax):
    scores = torch.randn(2, 3)
    single = masked_softmax(scores, EMPTY_ROW)
    half = masked_softmax(scores.half(), EMPTY_ROW).float()
    torch.testing.assert_close(half, single, rtol=0.01, atol=0.001)


def in_single_precision(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3), EMPTY_ROW)
    assert weights.isfinite().all() and not weights[1].any()


def half_and_a_comparison(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3).half(), EMPTY_ROW)
    assert weights.shape == (2, 3) and not (weights > 1).any() and (weights[0] > 0).any()


# 12.8 -------------------------------------------------------------------------------------


def batch(B, H, lengths):
    tensors = [torch.randn(B, H, n, 7) for n in (3, 5, 5)]
    return *tensors, (torch.arange(5) < torch.tensor(lengths)[:, None, None]).expand(B, 3, 5)


def in_a_loop(attend):
    queries, keys, values, mask = batch(3, 3, [1, 3, 5])
    output = attend(queries, keys, values, mask)
    for b in range(3):
        for h in range(3):
            expected = attention(queries[b, h], keys[b, h], values[b, h], mask[b])
            torch.testing.assert_close(output[b, h], expected)


def all_sizes_differ(attend):
    queries, keys, values, mask = batch(2, 4, [2, 5])
    expected = attention(queries, keys, values, mask[:, None])
    torch.testing.assert_close(attend(queries, keys, values, mask), expected)


def first_head_of_the_first(attend):
    queries, keys, values, mask = batch(2, 2, [2, 5])
    expected = attention(queries[0, 0], keys[0, 0], values[0, 0], mask[0])
    torch.testing.assert_close(attend(queries, keys, values, mask)[0, 0], expected)


# 12.9 -------------------------------------------------------------------------------------


def order_does_not_matter(self_attention):
    X = torch.randn(1, 5, 6)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(self_attention(X[:, order], 2), self_attention(X, 2)[:, order])


def constant_tokens(self_attention):
    X = torch.full((2, 5, 6), 2.0)
    torch.testing.assert_close(self_attention(X, 2), X)


def sentences_do_not_mix(self_attention):
    X = torch.randn(2, 5, 6)
    torch.testing.assert_close(self_attention(X, 2)[:1], self_attention(X[:1], 2))


# 12.10 ------------------------------------------------------------------------------------


def weights_sum_to_one(attend):
    queries, keys, _ = qkv()
    torch.testing.assert_close(attend(queries, keys, torch.ones(2, 5, 1)), torch.ones(2, 3, 1))


def best_key_wins(attend):
    queries, keys, _ = qkv()
    weights = attend(queries, keys, torch.eye(5).expand(2, 5, 5))
    assert torch.equal(weights.argmax(dim=-1), (queries @ keys.mT).argmax(dim=-1))


# 12.11 ------------------------------------------------------------------------------------


def tokens_with_heads():
    return [torch.randn(2, 5, 3, 7) for _ in range(3)]


def last_token_hears_the_first(attend):
    queries, keys, values = tokens_with_heads()
    values.requires_grad_()
    attend(queries, keys, values)[:, -1].sum().backward()
    assert (values.grad[:, 0] != 0).any()


def changes_and_hears_itself(attend):
    queries, keys, values = tokens_with_heads()
    before = attend(queries, keys, values)
    values[:, 0] += 1
    assert not torch.allclose(attend(queries, keys, values), before)


def heads_of_ones(attend):
    queries, keys, _ = tokens_with_heads()
    ones = torch.ones(2, 5, 3, 1)
    torch.testing.assert_close(attend(queries, keys, ones), ones)


# 12.12 ------------------------------------------------------------------------------------

CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril().expand(2, 5, 5)


def hidden_token_is_not_heard(attend):
    queries, keys, values = qkv(Q=5)
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[:, 1, 4] = False  # token 1 must not see token 4
    before = attend(queries, keys, values, mask)
    values[:, 4] = 100.0
    torch.testing.assert_close(attend(queries, keys, values, mask)[:, 1], before[:, 1])


def with_a_band(attend):
    inputs = qkv(Q=5)
    near = (torch.arange(5)[:, None] - torch.arange(5)).abs() <= 1
    mask = near.expand(2, 5, 5)
    torch.testing.assert_close(attend(*inputs, mask), attention(*inputs, mask))


def causal_rows_sum_to_one(attend):
    queries, keys, _ = qkv(Q=5)
    output = attend(queries, keys, torch.ones(2, 5, 1), CAUSAL)
    torch.testing.assert_close(output, torch.ones(2, 5, 1))


WRONG = {
    "12.1": [
        (total_of_a_square, "Let all values be 1"),
        (tokens_all_alike, "All your queries are alike"),
    ],
    "12.2": [
        (hidden_values_change_nothing, "Do the visible keys share a weight of 1?"),
        (hides_nothing, "Your mask hides nothing"),
        (nan_in_hidden_keys, "fails on a right implementation"),
    ],
    "12.3": [
        (all_rows_sum_to_one, "has no mask at all"),
        (tokens_of_one_kind, "What may token 0 see"),
    ],
    "12.4": [
        (every_row_sees_something, "Each of your queries sees a key"),
        (largest_is_small, "can it see NaN?"),
    ],
    "12.5": [
        (another_name, "one more name for the same tensor"),
        (looks_at_the_weights, "Its weights are right"),
    ],
    "12.6": [
        (no_sentence_is_empty, "Which length is left?"),
        (each_row_sums_to_one, "the mistake is in what you expect"),
    ],
    "12.7": [
        (in_single_precision, "None of your scores are float16"),
        (half_and_a_comparison, "A row of its weights is NaN"),
    ],
    "12.8": [
        (all_sizes_differ, "(an error unless B equals H) your test breaks off"),
        (first_head_of_the_first, "with what it gives alone"),
    ],
    "12.9": [
        (constant_tokens, "all alike? Random numbers are not"),
        (sentences_do_not_mix, "Work it out head by head"),
    ],
    "12.10": [
        (weights_sum_to_one, "All your values are alike"),
        (best_key_wins, "only how far they are apart is wrong"),
    ],
    "12.11": [
        (changes_and_hears_itself, "must the outputs of the other tokens stay"),
        (heads_of_ones, "All your values are alike"),
    ],
    "12.12": [
        (with_a_band, "the same when it is turned over"),
        (causal_rows_sum_to_one, "All your values are alike"),
    ],
}
RIGHT = {
    "12.1": [between_smallest_and_largest],
    "12.2": [masked_against_pytorch],
    "12.3": [future_gets_no_gradient],
    "12.4": [no_nan_anywhere],
    "12.5": [twice_with_other_lengths],
    "12.6": [every_padding_entry],
    "12.7": [half_like_single],
    "12.8": [in_a_loop],
    "12.9": [order_does_not_matter],
    "12.10": [against_pytorch],
    "12.11": [last_token_hears_the_first],
    "12.12": [hidden_token_is_not_heard],
}
