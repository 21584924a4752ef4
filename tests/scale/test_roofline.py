"""Operations and bytes counted by hand."""

import itertools

import pytest

from d2l_attention.scale.roofline import Roofline, Work, attention_work


def test_the_roof_by_hand():
    """100 operations and 20 bytes a second: they meet at 5 operations a byte."""
    machine = Roofline(flops_per_second=100.0, bytes_per_second=20.0)
    assert machine.ridge == 5.0
    assert [machine.attainable(x) for x in (0.5, 5.0, 50.0)] == [10.0, 100.0, 100.0]


def test_work_by_hand():
    """Two heads of size 3, 5 queries, 7 keys: 4 * 2 * 5 * 7 * 3 operations; queries and outputs
    2 * 5 * 2 * 3 numbers, keys and values 2 * 7 * 2 * 3, all of 4 bytes."""
    work = attention_work(5, 7, 3, num_heads=2)
    assert (work.flops, work.bytes) == (840, (60 + 84) * 4)
    assert work.intensity == 840 / 576
    plain = attention_work(5, 7, 3, num_heads=2, fused=False)
    assert (plain.flops, plain.bytes) == (840, (60 + 84 + 4 * 70) * 4)
    multi_query = attention_work(5, 7, 3, num_heads=2, num_kv_heads=1)
    assert (multi_query.flops, multi_query.bytes) == (840, (60 + 42) * 4)
    assert attention_work(5, 7, 3, batch_size=11, bytes_per_number=2) == Work(
        11 * 420, 11 * (30 + 42) * 2
    )


@pytest.mark.parametrize(("num_queries", "num_keys"), [(1, 1), (1, 7), (5, 5), (5, 7)])
def test_causal_pairs_are_counted_one_by_one(num_queries, num_keys):
    before = num_keys - num_queries
    places = itertools.product(range(num_queries), range(num_keys))
    pairs = sum(j <= i + before for i, j in places)
    assert attention_work(num_queries, num_keys, 3, is_causal=True).flops == 4 * 3 * pairs


def test_what_limits_what():
    """Per byte, a long prompt does thousands of operations, a decoded token about one a head."""
    prompt = attention_work(4096, 4096, 64, num_heads=32, bytes_per_number=2)
    assert prompt.intensity == 4096 / 2
    decoding = attention_work(1, 4096, 64, num_heads=32, bytes_per_number=2)
    assert 0.99 < decoding.intensity < 1
    grouped = attention_work(1, 4096, 64, num_heads=32, num_kv_heads=8, bytes_per_number=2)
    assert 3.9 < grouped.intensity < 4
    # The matrix alone: 4 D operations for 4 numbers of 4 bytes.
    assert attention_work(4096, 4096, 64, fused=False).intensity < 64 / 4


def test_errors_are_named():
    with pytest.raises(ValueError, match="num_keys must be .* got 0"):
        attention_work(1, 0, 64)
    with pytest.raises(
        ValueError,
        match="num_kv_heads must divide .* num_heads=6 and num_kv_heads=4",
    ):
        attention_work(1, 1, 64, num_heads=6, num_kv_heads=4)
    with pytest.raises(ValueError, match="a key for each query, got 3 > 2"):
        attention_work(3, 2, 64, is_causal=True)
