"""Windows, alone and with global tokens: by hand, and for any numbers under the mask."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import dot_product_attention
from d2l_attention.variants import GlobalLocalAttention, SlidingWindowAttention
from d2l_attention.variants.masks import global_tokens_mask, sliding_window_mask

NUMBERS = st.integers(0, 80)


def qkv(n, size=3):
    return torch.randn(3, 2, n, size, dtype=torch.float64).unbind()


def means(layer, values, **options):
    """With equal keys each output is the mean of the values that its token sees."""
    zeros = torch.zeros(len(values), 1)
    return layer(zeros, zeros, torch.tensor(values)[:, None], **options)[:, 0]


def test_by_hand():
    values, layer = [0.0, 3.0, 6.0, 9.0, 30.0], SlidingWindowAttention(1, 0.0)
    assert_close(means(layer, values), torch.tensor([1.5, 3.0, 6.0, 15.0, 19.5]))
    causal = means(layer, values, is_causal=True)
    assert_close(causal, torch.tensor([0.0, 1.5, 4.5, 7.5, 19.5]))
    gaps = means(SlidingWindowAttention(1, 0.0, dilation=2), values)
    assert_close(gaps, torch.tensor([3.0, 6.0, 12.0, 6.0, 18.0]))
    values, layer = [1.0, 2.0, 4.0, 8.0, 16.0], GlobalLocalAttention(0, 1, 0.0)
    assert_close(means(layer, values), torch.tensor([6.2, 1.5, 2.5, 4.5, 8.5]))
    causal = means(layer, values, is_causal=True)
    assert_close(causal, torch.tensor([1.0, 1.5, 2.5, 4.5, 8.5]))


@given(
    st.integers(1, 80),
    st.integers(0, 40),
    st.integers(1, 9),
    st.integers(0, 45),
    st.booleans(),
    st.tuples(NUMBERS, NUMBERS) | st.none(),
)
def test_any_window_in_any_sequence(n, window, dilation, num_global, is_causal, lens):
    torch.manual_seed(n)
    lens, inputs = None if lens is None else torch.tensor(lens).clamp(max=n), qkv(n)
    everywhere = global_tokens_mask(torch.arange(n) < num_global)
    for layer, mask in (
        (
            SlidingWindowAttention(window, 0.0, dilation=dilation),
            sliding_window_mask(n, window=window, dilation=dilation),
        ),
        (
            GlobalLocalAttention(window, num_global, 0.0),
            sliding_window_mask(n, window=window) | everywhere,
        ),
    ):
        expected = dot_product_attention(*inputs, lens, mask=mask, is_causal=is_causal)
        output = layer(*inputs, lens, is_causal=is_causal)
        assert_close(output, expected, atol=1e-10, rtol=1e-10)


def test_stacked_windows_see_further():
    """A token reaches ``layers * window`` back, although each layer sees ``window``."""
    X, layer = torch.randn(1, 41, 2).double().requires_grad_(), SlidingWindowAttention(4, 0.0)
    h = X
    for _ in range(3):
        h = layer(h, h, h, is_causal=True)
    (grad,) = torch.autograd.grad(h[0, 40].sum(), X)
    reached = (grad[0] != 0).any(dim=-1)
    assert reached.tolist() == [j >= 40 - 3 * 4 for j in range(41)]


def test_two_layers_with_a_global_token_carry_a_word_from_any_place_to_any_other():
    X = torch.randn(1, 101, 2).double().requires_grad_()
    for num_global, reached in ((0, False), (1, True)):
        h, layer = X, GlobalLocalAttention(3, num_global, 0.0)
        for _ in range(2):
            h = layer(h, h, h)
        (grad,) = torch.autograd.grad(h[0, 100].sum(), X)
        assert (grad[0, 50] != 0).any() == reached


def test_twice_the_tokens_are_twice_the_work():
    def flops(n):
        layer = SlidingWindowAttention(8, dropout=0.5)  # with dropout the steps can be counted
        with FlopCounterMode(display=False) as counter:
            layer(*qkv(n))
        return counter.get_total_flops()

    assert flops(2048) == 2 * flops(1024) > 0


def test_errors():
    for message, make in (
        ("window must be .* from 0 on, got -1", lambda: SlidingWindowAttention(-1, 0.0)),
        ("dilation must be .* got 0", lambda: SlidingWindowAttention(1, 0.0, dilation=0)),
        ("num_global must be .* from 0 on, got -1", lambda: GlobalLocalAttention(1, -1, 0.0)),
        ("window must be .* from 0 on, got 0.5", lambda: GlobalLocalAttention(0.5, 1, 0.0)),
    ):
        with pytest.raises(ValueError, match=message):
            make()
