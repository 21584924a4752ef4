import math
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import RotaryEncoding, rotary_speeds
from d2l_attention.variants.longer_rotary import (
    interpolated_speeds,
    ntk_speeds,
    yarn_scale,
    yarn_speeds,
    yarn_speeds_by_pair,
)

SIZE = 14
FIVE_WAYS = [
    interpolated_speeds,
    ntk_speeds,
    lambda d, f: yarn_speeds(d, f, 100),
    lambda d, f: yarn_speeds_by_pair(d, f, 100),
    lambda d, f: yarn_speeds_by_pair(d, f, 100, whole_pairs=False),
]


def test_plain_speeds_are_the_layers():
    X = torch.randn(2, 3, 5, SIZE)
    given = RotaryEncoding(SIZE, speeds=rotary_speeds(SIZE, 500))
    assert torch.equal(
        given.transform(X, offset=7), RotaryEncoding(SIZE, 500).transform(X, offset=7)
    )


@pytest.mark.parametrize("speeds", FIVE_WAYS)
def test_they_are_on_the_cpu_whatever_the_default_device(speeds):
    with torch.device("meta"):
        assert speeds(SIZE, 4).device.type == "cpu"


@pytest.mark.parametrize("speeds", FIVE_WAYS)
def test_a_factor_of_one_changes_nothing(speeds):
    assert_close(speeds(SIZE, 1), rotary_speeds(SIZE))


def test_interpolation_puts_four_positions_where_one_was():
    plain, slow = RotaryEncoding(SIZE), RotaryEncoding(SIZE, speeds=interpolated_speeds(SIZE, 4))
    assert_close(slow.angles(21)[::4], plain.angles(6))


def test_ntk_keeps_the_first_pair_and_interpolates_the_last():
    plain, speeds = rotary_speeds(SIZE), ntk_speeds(SIZE, 4)
    assert speeds[0] == plain[0] == 1
    assert_close(speeds[-1], plain[-1] / 4)
    assert (speeds[1:-1] > plain[1:-1] / 4).all() and (speeds[1:] < plain[1:]).all()


def test_yarn_by_hand():
    """Turns within 2 pi 64 positions: 64, 8, 1; between one and 32 turns it goes in a line."""
    base, trained = 512, round(2 * math.pi * 64)  # speeds 1, 1/8, 1/64
    speeds = yarn_speeds(6, 4, trained, base)
    turns = trained / (2 * math.pi) / 8
    kept = (turns - 1) / 31
    assert_close(speeds[0].item(), 1.0)
    assert_close(speeds[1].item(), (kept + (1 - kept) / 4) / 8)
    assert_close(speeds[2].item(), 1 / 64 / 4, rtol=0.01, atol=0)


def test_yarn_by_pair_by_hand():
    """Pairs 0, 1, 2, 3 turn 64, 8, 1 and 1/8 times: between 8 turns and 1/8 it goes in a line."""
    base, trained = 8**4, 2 * math.pi * 64
    speeds = yarn_speeds_by_pair(8, 4, trained, base, few_turns=1 / 8, many_turns=8)
    slower = torch.tensor([1, 1, 1 / 2 + 1 / 8, 1 / 4], dtype=torch.float64)
    assert_close(speeds, rotary_speeds(8, base) * slower)


def test_yarns_two_ramps_begin_and_end_at_the_same_pairs():
    """In between the paper's falls with the turns, the other with the number of the pair."""
    size, factor, trained = 128, 8, 4096
    plain = rotary_speeds(size)
    turns = trained * plain / (2 * math.pi)
    by_turns = yarn_speeds(size, factor, trained)
    by_pair = yarn_speeds_by_pair(size, factor, trained, whole_pairs=False)
    outside = (turns >= 32) | (turns <= 1)
    assert 0 < outside.sum() < len(plain)
    assert_close(by_pair[outside], by_turns[outside])
    assert (by_pair[~outside] > by_turns[~outside]).all()
    widened = yarn_speeds_by_pair(size, factor, trained)
    assert (widened != by_pair).any()
    assert torch.equal(widened[outside], by_pair[outside])  # a pair is whole: none more is slowed


def test_yarn_by_pair_with_a_ramp_of_no_width_is_a_step():
    """Both ends at 'pair 1.5': pairs 0 and 1 are left alone, 2 and 3 four times slower."""
    turns, how = 64 / 8**1.5, {"whole_pairs": False}
    speeds = yarn_speeds_by_pair(
        8, 4, 128 * math.pi, 8**4, few_turns=turns, many_turns=turns, **how
    )
    assert_close(speeds, rotary_speeds(8, 8**4) / torch.tensor([1, 1, 4, 4]))


def test_yarns_scale():
    assert yarn_scale(1) == 1
    assert yarn_scale(math.e**10) == pytest.approx(2)


def test_yarns_ramp_of_no_width_is_a_step():
    """Pairs 0, 1, 2 turn 64, 8 and 1 times: a pair with just as many turns keeps its speed."""
    speeds = yarn_speeds(6, 4, 2 * math.pi * 64, 512, few_turns=8, many_turns=8)
    assert_close(speeds, rotary_speeds(6, 512) / torch.tensor([1, 1, 4]))


@pytest.mark.parametrize("speeds", FIVE_WAYS)
@pytest.mark.parametrize("wrong", [math.nan, 0, -1, math.inf])
def test_factors_that_make_no_sense(speeds, wrong):
    with pytest.raises(ValueError, match=f"factor must be finite and 1 or more, got {wrong}"):
        speeds(SIZE, wrong)
    with pytest.raises(ValueError, match=f"factor must be finite and 1 or more, got {wrong}"):
        yarn_scale(wrong)
    with pytest.raises(
        ValueError, match=f"head_size must be a whole number from 2 on, got {wrong}"
    ):
        speeds(wrong, 4)


@pytest.mark.parametrize("wrong", [math.nan, 1, 0, -10, math.inf])
def test_bases_that_make_no_sense(wrong):
    ways = [partial(f, trained_len=100) for f in (yarn_speeds, yarn_speeds_by_pair)]
    for speeds in (interpolated_speeds, ntk_speeds, *ways):
        with pytest.raises(ValueError, match=f"base must be finite and above 1, got {wrong}"):
            speeds(SIZE, 4, base=wrong)


@pytest.mark.parametrize("speeds", [yarn_speeds, yarn_speeds_by_pair])
@pytest.mark.parametrize("wrong", [math.nan, 0, -1, math.inf])
def test_ramps_that_make_no_sense(speeds, wrong):
    for name in ("trained_len", "few_turns", "many_turns"):
        with pytest.raises(ValueError, match=f"{name} must be finite and positive, got {wrong}"):
            speeds(SIZE, 4, **{"trained_len": 100} | {name: wrong})
    with pytest.raises(ValueError, match="few_turns must be at most many_turns, 2, got 3"):
        speeds(SIZE, 4, 100, few_turns=3, many_turns=2)


def test_errors():
    with pytest.raises(ValueError, match="factor must be finite and 1 or more, got 0.5"):
        interpolated_speeds(SIZE, 0.5)
    with pytest.raises(ValueError, match="head_size must be a whole number from 4 on, got 2"):
        ntk_speeds(2, 4)
    with pytest.raises(ValueError, match=r"expected a tensor of shape \(7,\), got \(6,\)"):
        RotaryEncoding(SIZE, speeds=rotary_speeds(12))
