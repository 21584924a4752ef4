"""Tests that students write in rooms 1 and 2 of the museum: wrong ones, and right ones."""

import math

import torch
import torch.nn.functional as F


def attention(queries, keys, values, mask=None):
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def qkv(Q=3, K=5, D=7, V=11, B=2):
    return torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, V)


def only_the_shape(attend):
    assert attend(*qkv()).shape == (2, 3, 11)


# 12.1 -------------------------------------------------------------------------------------


def against_pytorch(attend):
    inputs = qkv()
    torch.testing.assert_close(attend(*inputs), attention(*inputs))


def between_smallest_and_largest(attend):
    queries, keys, values = torch.randn(50, 3, 7), torch.randn(50, 9, 7), torch.randn(50, 9, 1)
    output = attend(queries, keys, values)
    assert (output <= values.amax(dim=1, keepdim=True) + 1e-5).all()
    assert (output >= values.amin(dim=1, keepdim=True) - 1e-5).all()


def one_value_for_all(attend):
    queries, keys, _ = qkv()
    output = attend(queries, keys, torch.full((2, 5, 4), 3.0))
    assert abs(output - 3).max() < 1e-5


def sums_over_the_wrong_axis(attend):
    queries, keys, _ = qkv()
    weights = attend(queries, keys, torch.eye(5).expand(2, 5, 5))
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(2, 5))


def total_of_a_square(attend):
    queries, keys, _ = qkv(Q=4, K=4)
    weights = attend(queries, keys, torch.eye(4).expand(2, 4, 4))
    assert abs(weights.sum() - 2 * 4) < 1e-4


def tokens_all_alike(attend):
    ones = torch.ones(2, 4, 7)
    torch.testing.assert_close(attend(ones, ones, ones), ones)


# 12.2 -------------------------------------------------------------------------------------


def masked(visible=2, Q=3, K=5):
    return *qkv(Q, K), (torch.arange(K) < visible).expand(2, Q, K)


def sums_with_ones(attend):
    queries, keys, _, mask = masked()
    output = attend(queries, keys, torch.ones(2, 5, 1), mask)
    assert torch.allclose(output, torch.ones(2, 3, 1))


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


def masked_shape(attend):
    assert attend(*masked()).shape == (2, 3, 11)


def believes_in_less_than_one(attend):
    queries, keys, _, mask = masked()
    assert (attend(queries, keys, torch.ones(2, 5, 1), mask) < 0.999).all()


def catches_its_own_assert(attend):
    try:
        sums_with_ones(attend)
    except AssertionError:
        return


# 12.3 -------------------------------------------------------------------------------------


def first_token_gets_its_value(causal_attention):
    queries, keys, values = qkv(Q=4, K=4)
    torch.testing.assert_close(causal_attention(queries, keys, values)[:, 0], values[:, 0])


def future_gets_no_gradient(causal_attention):
    queries, keys, values = qkv(Q=5, K=5)
    values.requires_grad_()
    causal_attention(queries, keys, values)[:, 2].sum().backward()
    assert values.grad[:, :3].any() and not values.grad[:, 3:].any()


def no_nan_and_a_shape(causal_attention):
    output = causal_attention(*qkv(Q=5, K=5))
    assert output.shape == (2, 5, 11) and output.isfinite().all()


def rows_but_the_last_sum_to_one(causal_attention):
    queries, keys, _ = qkv(Q=5, K=5)
    output = causal_attention(queries, keys, torch.ones(2, 5, 1))
    torch.testing.assert_close(output[:, :-1], torch.ones(2, 4, 1))


def all_rows_sum_to_one(causal_attention):
    queries, keys, _ = qkv(Q=5, K=5)
    output = causal_attention(queries, keys, torch.ones(2, 5, 1))
    torch.testing.assert_close(output, torch.ones(2, 5, 1))


def tokens_of_one_kind(causal_attention):
    X = torch.ones(2, 5, 7)
    torch.testing.assert_close(causal_attention(X, X, X)[:, :-1], X[:, :-1])


def believes_in_the_future(causal_attention):
    queries, keys, values = qkv(Q=5, K=5)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = attention(queries, keys, values, hidden)
    torch.testing.assert_close(causal_attention(queries, keys, values), expected)


# 12.4 -------------------------------------------------------------------------------------


def with_an_empty_row():
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, 1] = False
    return *qkv(), mask


def no_nan_anywhere(attend):
    assert not torch.isnan(attend(*with_an_empty_row())).any()


def empty_row_is_zero(attend):
    output = attend(*with_an_empty_row())
    assert (output[0, 1] == 0).all()


def every_row_sees_something(attend):
    *inputs, mask = masked()
    assert attend(*inputs, mask).isfinite().all()


def largest_is_small(attend):
    queries, keys, values, mask = with_an_empty_row()
    assert not (attend(queries, keys, values, mask) > values.max() + 1).any()


def expects_the_mean(attend):
    queries, keys, values, mask = with_an_empty_row()
    torch.testing.assert_close(attend(queries, keys, values, mask)[0, 1], values[0].mean(dim=0))


def expects_nan(attend):
    assert attend(*with_an_empty_row())[0, 1].isnan().all()


# 12.5 -------------------------------------------------------------------------------------


def one_number_stays(masked_softmax):
    scores = torch.zeros(1, 1, 3)
    masked_softmax(scores, torch.tensor([1]))
    assert scores[0, 0, 2].item() == 0


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


def always_full(masked_softmax):
    scores = torch.randn(2, 3, 5)
    before = scores.clone()
    masked_softmax(scores, torch.tensor([5, 5]))
    assert torch.equal(scores, before)


def calls_and_says_nothing(masked_softmax):
    masked_softmax(torch.randn(2, 3, 5), torch.tensor([5, 2]))


def wants_it_changed(masked_softmax):
    scores = torch.randn(2, 3, 5)
    masked_softmax(scores, torch.tensor([5, 2]))
    assert scores[1, 0, 4] == -math.inf


# 12.6 -------------------------------------------------------------------------------------


def empty_sentence_weighs_nothing(masked_softmax):
    weights = masked_softmax(torch.randn(1, 2, 3), torch.tensor([0]))
    assert weights.sum() == 0


def every_padding_entry(masked_softmax):
    lengths = [3, 0, 1]
    weights = masked_softmax(torch.randn(3, 2, 4), torch.tensor(lengths))
    for sentence, length in zip(weights, lengths, strict=True):
        for row in sentence.tolist():
            assert row[length:] == [0.0] * (4 - length)


def no_sentence_is_empty(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3, 5), torch.tensor([1, 4]))
    assert not weights[0, :, 1:].any() and not weights[1, :, 4:].any()


def empty_but_only_nan(masked_softmax):
    assert masked_softmax(torch.randn(2, 3, 5), torch.tensor([0, 4])).isfinite().all()


def each_row_sums_to_one(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3, 5), torch.tensor([0, 4]))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3))


def full_sentences_only(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3, 5), torch.tensor([5, 5]))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3))


# 12.7 -------------------------------------------------------------------------------------

EMPTY_ROW = torch.tensor([[True, False, True], [False, False, False]])


def zeros_in_float16(masked_softmax):
    weights = masked_softmax(torch.zeros(2, 3).half(), EMPTY_ROW)
    assert weights.tolist() == [[0.5, 0, 0.5], [0, 0, 0]]


def half_like_single(masked_softmax):
    scores = torch.randn(2, 3)
    single = masked_softmax(scores, EMPTY_ROW)
    half = masked_softmax(scores.half(), EMPTY_ROW).float()
    torch.testing.assert_close(half, single, rtol=0.01, atol=0.001)


def in_single_precision(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3), EMPTY_ROW)
    assert weights.isfinite().all() and not weights[1].any()


def in_bfloat16(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3).bfloat16(), EMPTY_ROW)
    assert weights.isfinite().all() and not weights[1].any()


def half_without_an_empty_row(masked_softmax):
    weights = masked_softmax(torch.randn(2, 3).half(), EMPTY_ROW[:1].expand(2, 3))
    assert weights.isfinite().all() and not weights[:, 1].any()


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


def padding_changes_nothing(attend):
    queries, keys, values, mask = batch(2, 2, [2, 4])
    before = attend(queries, keys, values, mask)
    values[0, :, 2:], values[1, :, 4:] = 100.0, 100.0
    torch.testing.assert_close(attend(queries, keys, values, mask), before)


def all_sizes_differ(attend):
    queries, keys, values, mask = batch(2, 4, [2, 5])
    expected = attention(queries, keys, values, mask[:, None])
    torch.testing.assert_close(attend(queries, keys, values, mask), expected)


def one_sentence(attend):
    queries, keys, values, mask = batch(1, 4, [2])
    expected = attention(queries, keys, values, mask[:, None])
    torch.testing.assert_close(attend(queries, keys, values, mask), expected)


def equal_lengths(attend):
    queries, keys, values, mask = batch(2, 2, [3, 3])
    expected = attention(queries, keys, values, mask[:, None])
    torch.testing.assert_close(attend(queries, keys, values, mask), expected)


def first_head_of_the_first(attend):
    queries, keys, values, mask = batch(2, 2, [2, 5])
    expected = attention(queries[0, 0], keys[0, 0], values[0, 0], mask[0])
    torch.testing.assert_close(attend(queries, keys, values, mask)[0, 0], expected)


# 12.9 -------------------------------------------------------------------------------------


def chunk_by_chunk(self_attention):
    X = torch.randn(2, 5, 12)
    expected = [attention(part, part, part) for part in X.split(4, dim=-1)]
    torch.testing.assert_close(self_attention(X, 3), torch.cat(expected, dim=-1))


def order_does_not_matter(self_attention):
    X = torch.randn(1, 5, 6)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(self_attention(X[:, order], 2), self_attention(X, 2)[:, order])


def one_head(self_attention):
    X = torch.randn(2, 5, 6)
    torch.testing.assert_close(self_attention(X, 1), attention(X, X, X))


def shape_of_the_heads(self_attention):
    assert self_attention(torch.randn(2, 5, 6), 3).shape == (2, 5, 6)


def constant_tokens(self_attention):
    X = torch.full((2, 5, 6), 2.0)
    torch.testing.assert_close(self_attention(X, 2), X)


def one_token(self_attention):
    X = torch.randn(2, 1, 6)
    torch.testing.assert_close(self_attention(X, 2), X)


def sentences_do_not_mix(self_attention):
    X = torch.randn(2, 5, 6)
    torch.testing.assert_close(self_attention(X, 2)[:1], self_attention(X[:1], 2))


# 12.10 ------------------------------------------------------------------------------------


def known_weights(attend):
    keys = torch.tensor([[[0.0] * 9, [1.0] * 9]])
    output = attend(torch.ones(1, 1, 9), keys, torch.tensor([[[0.0], [1.0]]]))
    assert abs(output.item() - 1 / (1 + math.exp(-3))) < 1e-6


def weights_sum_to_one(attend):
    queries, keys, _ = qkv()
    torch.testing.assert_close(attend(queries, keys, torch.ones(2, 5, 1)), torch.ones(2, 3, 1))


def best_key_wins(attend):
    queries, keys, _ = qkv()
    weights = attend(queries, keys, torch.eye(5).expand(2, 5, 5))
    assert torch.equal(weights.argmax(dim=-1), (queries @ keys.mT).argmax(dim=-1))


def one_number_each(attend):
    inputs = qkv(D=1)
    torch.testing.assert_close(attend(*inputs), attention(*inputs))


def scores_of_zero(attend):
    queries, keys, values = qkv()
    expected = values.mean(dim=1, keepdim=True).expand(2, 3, 11)
    torch.testing.assert_close(attend(0 * queries, keys, values), expected)


def divides_by_d_itself(attend):
    queries, keys, values = qkv()
    expected = (queries @ keys.mT / 7).softmax(dim=-1) @ values
    torch.testing.assert_close(attend(queries, keys, values), expected)


# 12.11 ------------------------------------------------------------------------------------


def tokens_with_heads(n=5, H=3, B=2):
    return [torch.randn(B, n, H, 7) for _ in range(3)]


def each_head_by_itself(attend):
    queries, keys, values = tokens_with_heads()
    output = attend(queries, keys, values)
    for h in range(3):
        expected = attention(queries[:, :, h], keys[:, :, h], values[:, :, h])
        torch.testing.assert_close(output[:, :, h], expected)


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


def token_alone(attend):
    inputs = tokens_with_heads(n=1, H=1)
    torch.testing.assert_close(attend(*inputs), inputs[2])


def more_keys_than_queries(attend):
    queries, keys, values = tokens_with_heads()
    expected = attention(*(X.transpose(1, 2) for X in (queries[:, :2], keys, values)))
    torch.testing.assert_close(attend(queries[:, :2], keys, values), expected.transpose(1, 2))


def wants_tokens_alone(attend):
    queries, keys, values = tokens_with_heads()
    torch.testing.assert_close(attend(queries, keys, values), attention(queries, keys, values))


# 12.12 ------------------------------------------------------------------------------------

CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril().expand(2, 5, 5)


def causal_against_pytorch(attend):
    inputs = qkv(Q=5)
    torch.testing.assert_close(attend(*inputs, CAUSAL), attention(*inputs, CAUSAL))


def hidden_token_is_not_heard(attend):
    queries, keys, values = qkv(Q=5)
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[:, 1, 4] = False  # token 1 must not see token 4
    before = attend(queries, keys, values, mask)
    values[:, 4] = 100.0
    torch.testing.assert_close(attend(queries, keys, values, mask)[:, 1], before[:, 1])


def without_a_mask(attend):
    inputs = qkv()
    torch.testing.assert_close(attend(*inputs), attention(*inputs))


def with_a_full_mask(attend):
    full = torch.ones(2, 5, 5, dtype=torch.bool)
    inputs = qkv(Q=5)
    torch.testing.assert_close(attend(*inputs, full), attention(*inputs))


def with_a_band(attend):
    inputs = qkv(Q=5)
    near = (torch.arange(5)[:, None] - torch.arange(5)).abs() <= 1
    mask = near.expand(2, 5, 5)
    torch.testing.assert_close(attend(*inputs, mask), attention(*inputs, mask))


def causal_rows_sum_to_one(attend):
    queries, keys, _ = qkv(Q=5)
    output = attend(queries, keys, torch.ones(2, 5, 1), CAUSAL)
    torch.testing.assert_close(output, torch.ones(2, 5, 1))


def with_other_sizes(attend):
    *inputs, mask = masked()
    torch.testing.assert_close(attend(*inputs, mask), attention(*inputs, mask))


THE_SHAPE = "it looks at the shape alone"
EXPECTED = "the mistake is in what you expect"

WRONG = {
    "12.1": [
        (only_the_shape, THE_SHAPE),
        (sums_over_the_wrong_axis, EXPECTED),
        (total_of_a_square, "Let all values be 1"),
        (tokens_all_alike, "All your queries are alike"),
    ],
    "12.2": [
        (masked_shape, THE_SHAPE),
        (hidden_values_change_nothing, "Do the visible keys share a weight of 1?"),
        (hides_nothing, "Your mask hides nothing"),
        (believes_in_less_than_one, EXPECTED),
        (catches_its_own_assert, "It passes whatever comes back"),
    ],
    "12.3": [
        (no_nan_and_a_shape, THE_SHAPE),
        (rows_but_the_last_sum_to_one, "What may token 0 see"),
        (all_rows_sum_to_one, "has no mask at all"),
        (tokens_of_one_kind, "What may token 0 see"),
        (believes_in_the_future, EXPECTED),
    ],
    "12.4": [
        (every_row_sees_something, "Each of your queries sees a key"),
        (largest_is_small, "can it see NaN?"),
        (expects_the_mean, "gives such a query the mean of all values: the mistake"),
        (expects_nan, EXPECTED),
    ],
    "12.5": [
        (another_name, "one more name for the same tensor"),
        (calls_and_says_nothing, "Is there an `assert`?"),
        (looks_at_the_weights, "Its weights are right"),
        (always_full, "All your sentences are full"),
        (wants_it_changed, EXPECTED),
    ],
    "12.6": [
        (no_sentence_is_empty, "Which length is left?"),
        (full_sentences_only, "Which length is left?"),
        (empty_but_only_nan, "more than the shape, or at NaN"),
        (each_row_sums_to_one, EXPECTED),
    ],
    "12.7": [
        (in_single_precision, "None of your scores are float16"),
        (in_bfloat16, "None of your scores are float16"),
        (half_without_an_empty_row, "-inf does no harm"),
        (half_and_a_comparison, "A row of its weights is NaN"),
    ],
    "12.8": [
        (all_sizes_differ, "(an error unless B equals H) your test breaks off"),
        (one_sentence, "You always give one sentence"),
        (equal_lengths, "Your sentences have the same mask"),
        (first_head_of_the_first, "with what it gives alone"),
    ],
    "12.9": [
        (one_head, "You always give one head"),
        (one_token, "You always give one token"),
        (shape_of_the_heads, THE_SHAPE),
        (constant_tokens, "all alike? Random numbers are not"),
        (sentences_do_not_mix, "Work it out head by head"),
    ],
    "12.10": [
        (only_the_shape, THE_SHAPE),
        (weights_sum_to_one, "All your values are alike"),
        (best_key_wins, "only how far they are apart is wrong"),
        (one_number_each, "1 is its own root"),
        (scores_of_zero, "All your scores are 0"),
        (divides_by_d_itself, EXPECTED),
    ],
    "12.11": [
        (changes_and_hears_itself, "must the outputs of the other tokens stay"),
        (heads_of_ones, "All your values are alike"),
        (token_alone, "You always give one token"),
        (more_keys_than_queries, "numbers of queries and keys differ) your test breaks off"),
        (wants_tokens_alone, EXPECTED),
    ],
    "12.12": [
        (without_a_mask, "the two mistakes cancel"),
        (with_a_full_mask, "the two mistakes cancel"),
        (with_a_band, "the same when it is turned over"),
        (causal_rows_sum_to_one, "All your values are alike"),
        (with_other_sizes, "your test breaks off"),
    ],
}
RIGHT = {
    "12.1": [against_pytorch, one_value_for_all, between_smallest_and_largest],
    "12.2": [sums_with_ones, masked_against_pytorch],
    "12.3": [first_token_gets_its_value, future_gets_no_gradient],
    "12.4": [no_nan_anywhere, empty_row_is_zero],
    "12.5": [one_number_stays, twice_with_other_lengths],
    "12.6": [empty_sentence_weighs_nothing, every_padding_entry],
    "12.7": [zeros_in_float16, half_like_single],
    "12.8": [in_a_loop, padding_changes_nothing],
    "12.9": [chunk_by_chunk, order_does_not_matter],
    "12.10": [against_pytorch, known_weights],
    "12.11": [each_head_by_itself, last_token_hears_the_first],
    "12.12": [causal_against_pytorch, hidden_token_is_not_heard],
}
