import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from d2l_attention import (
    attention_mask,
    causal_mask,
    combine_masks,
    dot_product_attention,
    length_mask,
    masked_softmax,
    scaled_dot_score,
)
from d2l_attention.variants.masks import (
    bigbird_blocks,
    bigbird_mask,
    global_tokens_mask,
    sliding_window_mask,
)

B, H, Q, K = 2, 3, 5, 7


def test_length_mask_by_hand():
    assert length_mask(torch.tensor([1, 3, 0]), 3).tolist() == [
        [[True, False, False]],
        [[True, True, True]],
        [[False, False, False]],
    ]


def test_length_mask_with_one_length_a_query():
    mask = length_mask(torch.tensor([[1, 2], [0, 3]]), 3)
    assert mask.shape == (2, 2, 3)
    assert mask.sum(-1).tolist() == [[1, 2], [0, 3]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_length_mask_takes_every_integer_type(dtype):
    assert length_mask(torch.tensor([2], dtype=dtype), 3).tolist() == [[[True, True, False]]]


def test_causal_mask_by_hand():
    T, F = True, False
    assert causal_mask(3).tolist() == [[T, F, F], [T, T, F], [T, T, T]]
    assert causal_mask(2, 4).tolist() == [[T, F, F, F], [T, T, F, F]]
    assert causal_mask(2, offset=2).tolist() == [[T, T, T, F], [T, T, T, T]]


@given(st.integers(0, 6), st.integers(1, 6), st.integers(1, 9))
def test_causal_offset_continues_the_square(offset, num_queries, num_keys):
    whole = causal_mask(offset + num_queries, num_keys)
    assert torch.equal(causal_mask(num_queries, num_keys, offset=offset), whole[offset:])


def test_combining_is_a_logical_and_that_skips_none():
    a, b = torch.tensor([[True, False]]), torch.tensor([[True], [False]])
    assert combine_masks(None, a, None, b).tolist() == [[True, False], [False, False]]
    assert combine_masks(None, None) is None
    assert combine_masks() is None


def test_everything_together_is_what_each_says():
    lens = torch.tensor([4, 0])
    mask = torch.rand(Q, K) < 0.7
    together = attention_mask((B, H, Q, K), lens, mask, is_causal=True)
    expected = torch.zeros(B, H, Q, K, dtype=torch.bool)
    for b in range(B):
        for q in range(Q):
            for k in range(K):
                expected[b, :, q, k] = bool(mask[q, k]) and k <= q and k < lens[b]
    assert torch.equal(together.expand(B, H, Q, K), expected)
    assert attention_mask((B, H, Q, K)) is None


@pytest.mark.parametrize("lens", [None, torch.tensor([1])])
def test_scores_are_floats(lens):
    with pytest.raises(TypeError, match="X must be a tensor of floats, got torch.int64"):
        masked_softmax(torch.tensor([[[1, 2]]]), lens)
    with pytest.raises(TypeError, match="keys must be a tensor of floats, got torch.int64"):
        scaled_dot_score(torch.ones(1, 2), torch.tensor([[1, 2]]))


@pytest.mark.parametrize("mask", [torch.ones(5, 7), torch.ones(5, 7, dtype=torch.uint8), [[True]]])
def test_only_boolean_masks(mask):
    with pytest.raises(TypeError, match=r"mask must be a boolean tensor \(True = may attend\)"):
        attention_mask((Q, K), mask=mask)
    with pytest.raises(TypeError, match="mask must be a boolean tensor"):
        combine_masks(torch.ones(1, 1, dtype=torch.bool), mask)


@pytest.mark.parametrize("shape", [(7, 5), (5, 6), (3, 5, 7), (2, 2, 5, 7), (1, 2, 3, 5, 7), ()])
def test_masks_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"mask of shape .* does not fit scores .*2, 3, 5, 7"):
        attention_mask((B, H, Q, K), mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("lens", [[-1, 2], [2, 8], [[1] * 5, [8] * 5]])
def test_lengths_out_of_range(lens):
    with pytest.raises(ValueError, match="between 0 and the number of keys, 7, got values from"):
        attention_mask((B, Q, K), torch.tensor(lens))


@pytest.mark.parametrize("lens", [[1, 2, 3], [[1] * 4] * 2, [[1] * 5] * 3])
def test_lengths_of_another_batch(lens):
    with pytest.raises(ValueError, match=r"does not fit scores of shape \(2, 5, 7\)"):
        attention_mask((B, Q, K), torch.tensor(lens))


def test_lengths_that_are_no_integers():
    with pytest.raises(TypeError, match=r"tensor of integers, got torch\.float32"):
        length_mask(torch.tensor([1.0, 2.0]), 3)
    with pytest.raises(TypeError, match=r"got torch\.bool"):
        length_mask(torch.tensor([True]), 3)
    with pytest.raises(TypeError, match="got list"):
        length_mask([1, 2], 3)
    with pytest.raises(ValueError, match=r"shape \(B,\) or \(B, Q\), got \(1, 1, 1\)"):
        length_mask(torch.ones(1, 1, 1, dtype=torch.int64), 3)


def test_other_clear_errors():
    with pytest.raises(ValueError, match="offset must be 0 or more, got -1"):
        causal_mask(2, offset=-1)
    with pytest.raises(ValueError, match=r"scores must have shape \(\*, Q, K\), got \(3,\)"):
        attention_mask((3,), mask=torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="does not fit scores"):  # no batch axis to count along
        attention_mask((Q, K), torch.tensor([1]))


class TestTheLowestScoreThereIs:
    """Hidden is less than any number: beside a hidden key the lowest float has all the weight."""

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    def test_by_hand(self, dtype):
        lowest = torch.finfo(dtype).min
        scores = torch.tensor([[lowest, 0.0], [0.0, lowest], [lowest, lowest]], dtype=dtype)
        mask = torch.tensor([[True, False], [False, True], [False, False]])
        expected = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=dtype)
        assert torch.equal(masked_softmax(scores, mask=mask), expected)

    @pytest.mark.parametrize("num_keys", [3, 40])
    def test_in_every_path(self, num_keys):
        size = torch.finfo(torch.float32).max ** 0.5
        queries, keys = torch.full((1, 1, 1), -size), torch.full((1, num_keys, 1), size)
        keys[:, 0] = 0  # hidden, with the score 0
        values = torch.arange(float(num_keys))[None, :, None]
        mask = torch.arange(num_keys)[None] > 0
        right = torch.tensor([[[num_keys / 2]]])  # the mean of 1 to K - 1
        assert_close(dot_product_attention(queries, keys, values, mask=mask), right)
        explicit, _ = dot_product_attention(queries, keys, values, mask=mask, need_weights=True)
        assert_close(explicit, right)

    @pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
    def test_no_nan_on_the_way_back(self):
        scores = torch.randn(2, 3, 4, requires_grad=True)
        mask = torch.rand(2, 3, 4) < 0.5
        mask[0, 1] = False
        with torch.autograd.detect_anomaly(check_nan=True):
            masked_softmax(scores, mask=mask).square().sum().backward()
        assert scores.grad.isfinite().all() and not scores.grad[~mask].any()


def test_empty_batch():
    assert length_mask(torch.empty(0, dtype=torch.int64), 3).shape == (0, 1, 3)


def test_sliding_window_by_hand():
    T, F = True, False
    assert sliding_window_mask(4, window=1).tolist() == [
        [T, T, F, F],
        [T, T, T, F],
        [F, T, T, T],
        [F, F, T, T],
    ]
    assert sliding_window_mask(1, 7, window=1, dilation=2, offset=3).tolist() == [
        [F, T, F, T, F, T, F]
    ]
    assert sliding_window_mask(2, window=0, offset=1).tolist() == [[F, T, F], [F, F, T]]


@given(
    st.integers(1, 9), st.integers(1, 11), st.integers(0, 4), st.integers(1, 4), st.integers(0, 5)
)
def test_sliding_window_is_its_definition(num_queries, num_keys, window, dilation, offset):
    mask = sliding_window_mask(
        num_queries, num_keys, window=window, dilation=dilation, offset=offset
    )
    for i in range(num_queries):
        seen = {i + offset + step * dilation for step in range(-window, window + 1)}
        assert [j for j in range(num_keys) if mask[i, j]] == sorted(seen & set(range(num_keys)))


def test_global_tokens_by_hand():
    T, F = True, False
    mask = global_tokens_mask(torch.tensor([F, T, F]))
    assert mask.tolist() == [[F, T, F], [T, T, T], [F, T, F]]


@pytest.mark.parametrize(("num_tokens", "block_size"), [(35, 5), (37, 5), (13, 1), (3, 5), (1, 1)])
def test_bigbird_has_its_three_kinds_of_links(num_tokens, block_size):
    window, num_global, num_random = 1, 1, 2
    options = dict(window=window, num_global=num_global, num_random=num_random, seed=3)
    mask = bigbird_mask(num_tokens, block_size=block_size, **options)
    assert mask.shape == (num_tokens, num_tokens)
    starts = range(0, num_tokens, block_size)
    blocks = mask[::block_size, ::block_size]
    for a, start in enumerate(starts):
        for b, other in enumerate(starts):
            part = mask[start : start + block_size, other : other + block_size]
            assert (part == blocks[a, b]).all()  # blocks are seen whole or not at all
            if abs(a - b) <= window or a < num_global or b < num_global:
                assert blocks[a, b]
    for a in range(num_global, len(starts)):
        near = {b for b in range(len(starts)) if abs(a - b) <= window or b < num_global}
        assert blocks[a].sum() == min(len(near) + num_random, len(starts))


def test_bigbird_links_come_from_the_seed():
    options = dict(block_size=2, window=1, num_global=1, num_random=2)
    one, other = (bigbird_mask(41, seed=seed, **options) for seed in (0, 1))
    assert torch.equal(one, bigbird_mask(41, seed=0, **options))
    assert not torch.equal(one, other)
    without = options | {"num_random": 0}
    assert torch.equal(bigbird_mask(41, seed=0, **without), bigbird_mask(41, seed=1, **without))


def test_bigbird_lists_no_block_twice():
    table = bigbird_blocks(17, window=2, num_global=3, num_random=4, seed=0)
    assert table.shape == (17, 3 + 5 + 4)
    for row in table.tolist():
        blocks = [block for block in row if block >= 0]
        assert len(blocks) == len(set(blocks))


def test_errors_of_patterns():
    with pytest.raises(ValueError, match="window must be a whole number from 0 on, got -1"):
        sliding_window_mask(3, window=-1)
    with pytest.raises(ValueError, match="offset must be 0 or more, got -1"):
        sliding_window_mask(3, window=1, offset=-1)
    with pytest.raises(ValueError, match="dilation must be a whole number from 1 on, got 0"):
        sliding_window_mask(3, window=1, dilation=0)
    with pytest.raises(ValueError, match=r"window must be a whole number from 0 on, got 1\.5"):
        sliding_window_mask(3, window=1.5)
    with pytest.raises(TypeError, match="mask must be a boolean tensor"):
        global_tokens_mask(torch.tensor([1, 0]))
    with pytest.raises(ValueError, match=r"is_global must have shape \(n,\), got \(1, 2\)"):
        global_tokens_mask(torch.tensor([[True, False]]))
    right = dict(block_size=2, window=1, num_global=1, num_random=1)
    for name in right:
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            bigbird_mask(9, seed=0, **(right | {name: -1}))
