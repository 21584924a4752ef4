import math

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import RotaryEncoding
from d2l_attention.variants import rotary_speeds
from d2l_attention.variants.longer_rotary import (
    interpolated_speeds,
    ntk_speeds,
    yarn_scale,
    yarn_speeds,
)

SIZE = 14


def test_plain_speeds_are_the_layers():
    X = torch.randn(2, 3, 5, SIZE)
    given = RotaryEncoding(SIZE, speeds=rotary_speeds(SIZE, 500))
    assert torch.equal(
        given.transform(X, offset=7), RotaryEncoding(SIZE, 500).transform(X, offset=7)
    )


@pytest.mark.parametrize(
    "speeds", [interpolated_speeds, ntk_speeds, lambda d, f: yarn_speeds(d, f, 100)]
)
def test_they_are_on_the_cpu_whatever_the_default_device(speeds):
    with torch.device("meta"):
        assert speeds(SIZE, 4).device.type == "cpu"


@pytest.mark.parametrize(
    "speeds", [interpolated_speeds, ntk_speeds, lambda d, f: yarn_speeds(d, f, 100)]
)
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


def test_yarns_scale():
    assert yarn_scale(1) == 1
    assert yarn_scale(math.e**10) == pytest.approx(2)


def test_errors():
    with pytest.raises(ValueError, match="factor must be 1 or more, got 0.5"):
        interpolated_speeds(SIZE, 0.5)
    with pytest.raises(ValueError, match="head_size must be 4 or more"):
        ntk_speeds(2, 4)
    with pytest.raises(ValueError, match=r"expected a tensor of shape \(7,\), got \(6,\)"):
        RotaryEncoding(SIZE, speeds=rotary_speeds(12))
