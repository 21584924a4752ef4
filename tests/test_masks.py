import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from d2l_attention import attention_mask, causal_mask, combine_masks, length_mask

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


def test_empty_batch():
    assert length_mask(torch.empty(0, dtype=torch.int64), 3).shape == (0, 1, 3)
