import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pattern_functions import sliding_window_attention
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import dot_product_attention
from d2l_attention.variants import SlidingWindowAttention
from d2l_attention.variants.masks import sliding_window_mask


def qkv(n, size=3):
    return torch.randn(3, 2, n, size, dtype=torch.float64).unbind()


def test_by_hand():
    """Equal keys: each output is the mean of the values in the window."""
    zeros, values = torch.zeros(5, 1), torch.tensor([[0.0], [3.0], [6.0], [9.0], [30.0]])
    output = sliding_window_attention(zeros, zeros, values, window=1)
    assert_close(output[:, 0], torch.tensor([1.5, 3.0, 6.0, 15.0, 19.5]))
    output = sliding_window_attention(zeros, zeros, values, window=1, is_causal=True)
    assert_close(output[:, 0], torch.tensor([0.0, 1.5, 4.5, 7.5, 19.5]))
    output = sliding_window_attention(zeros, zeros, values, window=1, dilation=2)
    assert_close(output[:, 0], torch.tensor([3.0, 6.0, 12.0, 6.0, 18.0]))


@given(
    st.integers(1, 80),
    st.integers(0, 40),
    st.integers(1, 9),
    st.booleans(),
    st.tuples(st.integers(0, 80), st.integers(0, 80)) | st.none(),
)
def test_any_window_in_any_sequence(n, window, dilation, is_causal, lens):
    torch.manual_seed(n)
    lens = None if lens is None else torch.tensor(lens).clamp(max=n)
    inputs = qkv(n)
    mask = sliding_window_mask(n, window=window, dilation=dilation)
    expected = dot_product_attention(*inputs, lens, mask=mask, is_causal=is_causal)
    output = sliding_window_attention(
        *inputs, lens, window=window, dilation=dilation, is_causal=is_causal
    )
    assert_close(output, expected, atol=1e-10, rtol=1e-10)


def test_stacked_windows_see_further():
    """A token reaches ``layers * window`` back, although each layer sees ``window``."""
    X = torch.randn(1, 41, 2, dtype=torch.float64, requires_grad=True)
    h = X
    for _ in range(3):
        h = sliding_window_attention(h, h, h, window=4, is_causal=True)
    (grad,) = torch.autograd.grad(h[0, 40].sum(), X)
    reached = (grad[0] != 0).any(dim=-1)
    assert reached.tolist() == [j >= 40 - 3 * 4 for j in range(41)]


def test_twice_the_tokens_are_twice_the_work():
    def flops(n):
        layer = SlidingWindowAttention(8, dropout=0.5)  # with dropout the steps can be counted
        with FlopCounterMode(display=False) as counter:
            layer(*qkv(n))
        return counter.get_total_flops()

    assert flops(2048) == 2 * flops(1024) > 0


def test_errors():
    with pytest.raises(ValueError, match="window must be a whole number from 0 on, got -1"):
        SlidingWindowAttention(-1, 0.0)
    with pytest.raises(ValueError, match="dilation must be a whole number from 1 on, got 0"):
        sliding_window_attention(*qkv(3), window=1, dilation=0)
