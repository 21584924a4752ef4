import math

import pytest
import torch
from torch.testing import assert_close

from d2l_attention import PositionalEncoding


@pytest.mark.parametrize("num_hiddens", [1, 2, 5, 8])
def test_formula(num_hiddens):
    encoding = PositionalEncoding(num_hiddens, 0.0, max_len=13)
    for i in (0, 1, 12):
        for column in range(num_hiddens):
            angle = i / 10000 ** ((column - column % 2) / num_hiddens)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert encoding.P[0, i, column].item() == pytest.approx(expected, abs=1e-6)


def test_adds_by_position_and_offset():
    encoding, X = PositionalEncoding(6, 0.0), torch.randn(2, 7, 6)
    assert_close(encoding(X), X + encoding.P[:, :7])
    steps = [encoding(X[:, i : i + 1], offset=i) for i in range(7)]
    assert torch.equal(torch.cat(steps, dim=1), encoding(X))


def test_dropout_falls_on_the_sum():
    encoding = PositionalEncoding(6, 0.5)
    output = encoding(torch.ones(2, 700, 6))
    assert (output == 0).float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert torch.equal(encoding.eval()(torch.zeros(1, 7, 6)), encoding.P[:, :7])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtype_of_the_input_stays(dtype):
    assert PositionalEncoding(6, 0.0)(torch.zeros(1, 3, 6, dtype=dtype)).dtype == dtype


def test_far_positions_and_the_last_one():
    encoding = PositionalEncoding(4, 0.0, max_len=100_000)
    assert encoding(torch.zeros(1, 100_000, 4)).shape == (1, 100_000, 4)
    assert encoding.P[0, 99_999, 0].item() == pytest.approx(math.sin(99_999), abs=1e-6)


def test_errors():
    encoding = PositionalEncoding(6, 0.0, max_len=5)
    with pytest.raises(ValueError, match="positions 3 to 5 do not fit max_len=5"):
        encoding(torch.zeros(1, 3, 6), offset=3)
    with pytest.raises(TypeError, match="embeddings, not token numbers"):
        encoding(torch.zeros(1, 3, 6, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"shape \(B, n, 6\), got \(3, 6\)"):
        encoding(torch.zeros(3, 6))
    with pytest.raises(ValueError, match="positions -1"):
        encoding(torch.zeros(1, 3, 6), offset=-1)
    with pytest.raises(ValueError, match=r"shape \(B, n, 6\), got \(1, 3, 4\)"):
        encoding(torch.zeros(1, 3, 4))
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\)"):
        PositionalEncoding(6, 1.0)
