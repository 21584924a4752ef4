import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from d2l_attention import (
    ALiBi,
    LearnedPositionalEncoding,
    PositionalEncoding,
    Positions,
    RotaryEncoding,
)

B, H, N, HIDDEN, HEAD = 2, 3, 7, 6, 10
ADDED = [PositionalEncoding, LearnedPositionalEncoding]
EVERY = {
    "base": Positions,
    "sinusoidal": lambda: PositionalEncoding(HIDDEN, 0.0),
    "learned": lambda: LearnedPositionalEncoding(HIDDEN, 0.0),
    "rotary": lambda: RotaryEncoding(HEAD),
    "alibi": lambda: ALiBi(H),
}


@pytest.mark.parametrize("num_hiddens", [1, 2, 5, 8])
def test_formula(num_hiddens):
    encoding = PositionalEncoding(num_hiddens, 0.0, max_len=13)
    for i in (0, 1, 12):
        for column in range(num_hiddens):
            angle = i / 10000 ** ((column - column % 2) / num_hiddens)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert encoding.P[0, i, column].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", ADDED)
def test_adds_by_position_and_offset(kind):
    encoding, X = kind(6, 0.0), torch.randn(2, 7, 6)
    assert_close(encoding(X), X + encoding.P[:, :7])
    steps = [encoding(X[:, i : i + 1], offset=i) for i in range(7)]
    assert torch.equal(torch.cat(steps, dim=1), encoding(X))


@pytest.mark.parametrize("kind", ADDED)
def test_dropout_falls_on_the_sum(kind):
    encoding = kind(6, 0.5)
    output = encoding(torch.ones(2, 700, 6))
    assert (output == 0).float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert torch.equal(encoding.eval()(torch.zeros(1, 7, 6)), encoding.P[:, :7])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ADDED)
def test_dtype_of_the_input_stays(kind, dtype):
    assert kind(6, 0.0)(torch.zeros(1, 3, 6, dtype=dtype)).dtype == dtype


def test_far_positions_and_the_last_one():
    encoding = PositionalEncoding(4, 0.0, max_len=100_000)
    assert encoding(torch.zeros(1, 100_000, 4)).shape == (1, 100_000, 4)
    assert encoding.P[0, 99_999, 0].item() == pytest.approx(math.sin(99_999), abs=1e-6)


@pytest.mark.parametrize("kind", ADDED)
def test_errors(kind):
    encoding = kind(6, 0.0, max_len=5)
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
        kind(6, 1.0)


def test_computed_positions_are_in_no_checkpoint():
    """D2L's are a plain attribute: its checkpoints hold none, and ours load them strictly."""
    for kind in EVERY.values():
        names = set(kind().state_dict())
        assert names == ({"P"} if kind is EVERY["learned"] else set())
    PositionalEncoding(HIDDEN, 0.0, max_len=5).load_state_dict({}, strict=True)


class NoFloat64(TorchDispatchMode):
    """A device without float64, as Apple's MPS: the device "meta" stands in for it."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type != "cpu":
            assert result.dtype != torch.float64, function
        return result


@pytest.mark.parametrize("name", EVERY)
def test_on_a_device_without_float64(name):
    X, inside = torch.zeros(B, N, HIDDEN), torch.zeros(B, H, N, HEAD)
    with torch.device("meta"), NoFloat64():
        positions = EVERY[name]()
        assert positions(X.to("meta")).dtype == torch.float32
        assert positions.transform(inside.to("meta")).device.type == "meta"
        assert name != "sinusoidal" or positions.P.device.type == "meta"


def test_speeds_from_a_device_without_float64():
    with NoFloat64():
        speeds = torch.ones(HEAD // 2, device="meta")
        with pytest.raises(NotImplementedError, match="meta"):  # it holds no numbers to copy
            RotaryEncoding(HEAD, speeds=speeds)


@pytest.mark.parametrize("name", EVERY)
def test_each_kind_uses_one_hook(name):
    positions, X = EVERY[name](), torch.randn(B, N, HIDDEN)
    inside = torch.randn(B, H, N, HEAD)
    assert torch.equal(positions(X, offset=3), X) == (name not in ("sinusoidal", "learned"))
    assert torch.equal(positions.transform(inside, offset=3), inside) == (name != "rotary")
    assert (positions.bias(N, N, offset=3) is None) == (name != "alibi")


class TestLearned:
    def test_rows_are_parameters_and_only_those_in_use_learn(self):
        encoding = LearnedPositionalEncoding(HIDDEN, 0.0, max_len=13)
        assert [tuple(p.shape) for p in encoding.parameters()] == [(1, 13, HIDDEN)]
        encoding(torch.zeros(B, 4, HIDDEN), offset=2).sum().backward()
        assert (encoding.P.grad[:, 2:6] == B).all()
        assert encoding.P.grad.sum() == B * 4 * HIDDEN


class TestRotary:
    def test_a_pair_by_hand(self):
        """One pair: position i turns (1, 0) to (cos i, sin i), and (0, 1) to (-sin i, cos i)."""
        X = torch.tensor([[1.0, 0.0], [0.0, 1.0]])[:, None, None].expand(2, 1, 4, 2)
        turned = RotaryEncoding(2).transform(X)
        for i in range(4):
            expected = [[math.cos(i), math.sin(i)], [-math.sin(i), math.cos(i)]]
            assert_close(turned[:, 0, i], torch.tensor(expected))

    def test_two_pairs_by_hand(self):
        """Neighbours are a pair; the second turns by i / 10000^(2/4) = i / 100."""
        X = torch.tensor([1.0, 0.0, 1.0, 0.0]).expand(1, 1, 6, 4)
        turned = RotaryEncoding(4).transform(X)[0, 0, 5]
        expected = [math.cos(5), math.sin(5), math.cos(0.05), math.sin(0.05)]
        assert_close(turned, torch.tensor(expected))

    @pytest.mark.parametrize("base", [10000, 100.0])
    def test_the_papers_matrix(self, base):
        """Equation 15: blocks of two rows along the diagonal, times the vector."""
        X, positions = torch.randn(B, H, N, HEAD, dtype=torch.float64), RotaryEncoding(HEAD, base)
        for i in range(N):
            R = torch.zeros(HEAD, HEAD, dtype=torch.float64)
            for j in range(HEAD // 2):
                angle = (i + 3) * base ** (-2 * j / HEAD)
                block = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
                R[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = torch.tensor(block)
            assert_close(positions.transform(X, offset=3)[:, :, i], X[:, :, i] @ R.T)

    @given(m=st.integers(0, 500), n=st.integers(0, 500), shift=st.integers(0, 5000))
    def test_scores_depend_on_the_distance_alone(self, m, n, shift):
        torch.manual_seed(m)
        query, key = torch.randn(2, 1, 1, 1, HEAD, dtype=torch.float64)
        rotate = RotaryEncoding(HEAD).transform
        score, shifted = (
            (rotate(query, offset=m + s) * rotate(key, offset=n + s)).sum() for s in (0, shift)
        )
        assert_close(shifted, score, atol=1e-9, rtol=0)
        further = (rotate(query, offset=m + 1) * rotate(key, offset=n)).sum()
        assert not torch.allclose(further, score, atol=1e-9)

    def test_an_offset_is_a_slice(self):
        positions, X = RotaryEncoding(HEAD), torch.randn(B, H, N, HEAD)
        whole = positions.transform(X)
        assert torch.equal(whole[:, :, 0], X[:, :, 0])  # position 0 does not turn
        for i in range(N):
            assert torch.equal(
                positions.transform(X[:, :, i : i + 1], offset=i)[:, :, 0], whole[:, :, i]
            )

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    def test_dtypes_and_far_positions(self, dtype):
        X = torch.tensor([1.0, 0.0], dtype=dtype).expand(1, 1, 1, 2)
        turned = RotaryEncoding(2).transform(X, offset=99_999)
        assert turned.dtype == dtype
        expected = [math.cos(99_999), math.sin(99_999)]
        assert turned.flatten().tolist() == pytest.approx(expected, abs=torch.finfo(dtype).eps)

    def test_errors(self):
        for wrong in (3, 0, -2, 4.0):
            with pytest.raises(ValueError, match=f"head_size must be even, .* got {wrong}"):
                RotaryEncoding(wrong)
        with pytest.raises(ValueError, match="base must be positive, got 0"):
            RotaryEncoding(4, base=0)
        for wrong in (torch.randn(B, N, 4), torch.randn(B, H, N, 6)):
            with pytest.raises(ValueError, match=r"shape \(B, H, n, 4\), got \(2, "):
                RotaryEncoding(4).transform(wrong)
        with pytest.raises(ValueError, match="offset must be 0 or more, got -1"):
            RotaryEncoding(4).transform(torch.randn(B, H, N, 4), offset=-1)


class TestALiBi:
    @pytest.mark.parametrize(
        ("num_heads", "exponents"),
        [
            (1, [8]),
            (2, [4, 8]),
            (3, [4, 8, 2]),
            (8, [1, 2, 3, 4, 5, 6, 7, 8]),
            (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
            (16, [h / 2 for h in range(1, 17)]),
        ],
    )
    def test_slopes_of_the_paper(self, num_heads, exponents):
        assert_close(ALiBi(num_heads).slopes, torch.tensor([2.0**-e for e in exponents]))

    def test_any_number_of_heads_has_slopes_of_its_own(self):
        for num_heads in range(1, 40):
            slopes = ALiBi(num_heads).slopes.tolist()
            assert len(set(slopes)) == num_heads
            assert 0 < min(slopes) <= max(slopes) < 1

    def test_by_hand(self):
        bias = ALiBi(2).bias(2, 4, offset=1)  # queries 1 and 2, slopes 1/16 and 1/256
        distance = [[1, 0, 1, 2], [2, 1, 0, 1]]
        expected = [[[-d / 16 for d in row] for row in distance]]
        expected += [[[-d / 256 for d in row] for row in distance]]
        assert bias.tolist() == expected

    def test_an_offset_is_a_slice(self):
        whole = ALiBi(H).bias(N, N)
        assert torch.equal(ALiBi(H).bias(3, N, offset=4), whole[:, 4:])
        assert torch.equal(whole, whole.mT)

    def test_dtype_follows_the_module(self):
        assert ALiBi(H).to(torch.bfloat16).bias(N, N).dtype == torch.bfloat16

    def test_errors(self):
        for wrong in (0, -1, 2.0):
            with pytest.raises(ValueError, match=f"num_heads must be .* got {wrong}"):
                ALiBi(wrong)
        with pytest.raises(ValueError, match="offset must be 0 or more, got -1"):
            ALiBi(H).bias(N, N, offset=-1)
