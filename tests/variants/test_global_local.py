import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pattern_functions import global_local_attention
from torch.testing import assert_close

from d2l_attention import dot_product_attention
from d2l_attention.variants import GlobalLocalAttention
from d2l_attention.variants.masks import global_tokens_mask, sliding_window_mask


def qkv(n, size=3):
    return torch.randn(3, 2, n, size, dtype=torch.float64).unbind()


def test_by_hand():
    """Equal keys: each output is the mean of the values that its token sees."""
    zeros, values = torch.zeros(5, 1), torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0]])
    output = global_local_attention(zeros, zeros, values, window=0, num_global=1)
    assert_close(output[:, 0], torch.tensor([6.2, 1.5, 2.5, 4.5, 8.5]))
    output = global_local_attention(zeros, zeros, values, window=0, num_global=1, is_causal=True)
    assert_close(output[:, 0], torch.tensor([1.0, 1.5, 2.5, 4.5, 8.5]))


@given(
    st.integers(1, 80),
    st.integers(0, 40),
    st.integers(0, 45),
    st.booleans(),
    st.tuples(st.integers(0, 80), st.integers(0, 80)) | st.none(),
)
def test_any_window_and_any_number_of_global_tokens(n, window, num_global, is_causal, lens):
    torch.manual_seed(n)
    lens = None if lens is None else torch.tensor(lens).clamp(max=n)
    inputs = qkv(n)
    mask = sliding_window_mask(n, window=window)
    mask = mask | global_tokens_mask(torch.arange(n) < num_global)
    expected = dot_product_attention(*inputs, lens, mask=mask, is_causal=is_causal)
    output = global_local_attention(
        *inputs, lens, window=window, num_global=num_global, is_causal=is_causal
    )
    assert_close(output, expected, atol=1e-10, rtol=1e-10)


def test_two_layers_carry_a_word_from_any_place_to_any_other():
    X = torch.randn(1, 101, 2, dtype=torch.float64, requires_grad=True)
    for num_global, reached in ((0, False), (1, True)):
        h = X
        for _ in range(2):
            h = global_local_attention(h, h, h, window=3, num_global=num_global)
        (grad,) = torch.autograd.grad(h[0, 100].sum(), X)
        assert (grad[0, 50] != 0).any() == reached


def test_errors():
    with pytest.raises(ValueError, match="num_global must be a whole number from 0 on, got -1"):
        GlobalLocalAttention(1, -1, 0.0)
    with pytest.raises(ValueError, match="window must be a whole number from 0 on, got 0.5"):
        global_local_attention(*qkv(3), window=0.5, num_global=1)
