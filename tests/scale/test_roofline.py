"""Operations and bytes counted by hand; the measurement only as far as no clock decides."""

import itertools

import pytest
import torch

from d2l_attention.scale import roofline
from d2l_attention.scale.roofline import Roofline, Work, attention_work, fastest, measure_roofline


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
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        fastest(lambda: None, seconds=0)
    with pytest.raises(ValueError, match="seconds must be positive, got -1"):
        measure_roofline(seconds=-1)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(roofline.time, "perf_counter", lambda: now[0])
    return now


def test_fastest_takes_the_least_and_leaves_out_the_first_call(clock):
    durations = iter([0.01, 7.0, 2.0, 3.0, 5.0, 100.0])

    def call():
        clock[0] += next(durations)

    assert fastest(call, seconds=12.5) == 2.0  # 7 + 2 + 3 are less, so a fourth is made
    assert next(durations) == 100.0


def test_three_calls_however_long_they_take(clock):
    calls = []

    def call():
        calls.append(1)
        clock[0] += 60.0

    assert fastest(call, seconds=1.0) == 60.0 and len(calls) == 1 + 3


def test_measured_speeds_are_operations_and_bytes_over_seconds(monkeypatch):
    monkeypatch.setattr(roofline, "fastest", lambda function, seconds: (function(), 2.0)[1])
    machine = measure_roofline(dtype=torch.float64)
    assert machine == Roofline(2 * 1024**3 / 2.0, 2 * 64 * 2**20 / 2.0)


def test_a_real_measurement_is_finite():
    machine = measure_roofline(seconds=0.01)
    assert 0 < machine.flops_per_second < 1e16 and 0 < machine.bytes_per_second < 1e14
