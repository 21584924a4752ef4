"""Who takes part: the same as the whole mask says, without building it."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    dot_product_attention,
)
from d2l_attention.attention.masks import Visible, attention_mask, clear, zero_rows

B, H, K = 2, 3, 7
HIDDEN = 32


@given(
    st.lists(st.integers(0, K), min_size=B, max_size=B) | st.none(),
    st.integers(1, 9),
    st.booleans(),
    st.integers(0, 4),
    st.integers(0, 2**16) | st.none(),
    st.booleans(),
)
def test_the_same_as_the_whole_mask(lens, num_queries, is_causal, offset, seed, per_query):
    lens = None if lens is None else torch.tensor(lens)
    if per_query and lens is not None:
        lens = lens[:, None].repeat(1, num_queries)
        lens[:, -1] = 1
    mask = None
    if seed is not None:
        torch.manual_seed(seed)
        mask = torch.rand(num_queries, K) < 0.4
    shape = (B, H, num_queries, K)
    whole = attention_mask(shape, lens, mask, is_causal, offset=offset)
    whole = torch.ones(shape, dtype=torch.bool) if whole is None else whole.expand(shape)

    visible = Visible.of(shape, lens, mask, is_causal, offset)
    nobody = torch.tensor(False)
    blind, unseen = (nobody if rows is None else rows for rows in (visible.blind, visible.unseen))
    assert torch.equal(blind.expand(*shape[:3], 1)[..., 0], ~whole.any(dim=-1))
    assert torch.equal(unseen.expand(B, H, K, 1)[..., 0], ~whole.any(dim=-2))


def test_lengths_and_causality_build_no_matrix():
    visible = Visible.of((2, 3, 500, 700), torch.tensor([5, 400]), None, True)
    assert visible.blind is None and visible.unseen.numel() == visible.hidden.numel() == 2 * 700


@pytest.mark.parametrize("options", [(False, 0), (False, 2)])
def test_full_length_leaves_nothing_to_hide(options):
    visible = Visible.of((B, H, K, K), torch.tensor([K, K]), None, *options)
    assert visible == Visible(offset=options[1])


def test_rows_that_take_part_in_no_head_are_cleared():
    """Heads may see different keys: before they are split, a row that one of them reads stays."""
    mask = torch.tensor([[[[True, False, False]], [[False, True, False]]]])  # (1, 2, 1, 3)
    visible = Visible.of((1, 2, 1, 3), mask=mask)
    rows = torch.ones(1, 3, 1)
    assert clear(rows, visible.unseen).flatten().tolist() == [1, 1, 0]
    heads = clear(rows[:, None].expand(1, 2, 3, 1), visible.unseen)
    assert heads.flatten().tolist() == [1, 0, 0, 0, 1, 0]
    one_head = clear(rows[:, None], visible.unseen)  # as in grouped-query attention
    assert one_head.flatten().tolist() == [1, 1, 0]


def test_rows_by_hand():
    rows = torch.tensor([[1.0, 2.0], [float("nan"), 4.0]])
    assert zero_rows(rows, torch.tensor([True, False])).tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert rows.isnan().any() and zero_rows(rows, None) is rows


@pytest.mark.parametrize("lens", [[3, 3, 3], [4], [7] * 7], ids=str)
def test_equal_lengths_of_another_batch_are_refused_too(lens):
    X = torch.randn(B, K, HIDDEN)
    for layer in layers().values():
        with pytest.raises(ValueError, match="valid_lens .* does not fit scores"):
            layer(X, X, X, torch.tensor(lens))
    with pytest.raises(ValueError, match="valid_lens .* does not fit scores"):
        dot_product_attention(X[0], X[0], X[0], torch.tensor([3]))  # no batch to count along


def layers():
    torch.manual_seed(0)
    return {
        "dot": DotProductAttention(0.0),
        "additive": AdditiveAttention(HIDDEN, 0.0),
        "heads": MultiHeadAttention(HIDDEN, 4, 0.0),
    }


@pytest.mark.parametrize("name", ["dot", "heads"])
def test_a_traced_causal_layer(name):
    """While a layer is traced its sizes are tensors, which are no truth for PyTorch's kernel."""
    layer, X = layers()[name], torch.randn(B, K, HIDDEN)
    layer(X, X, X)
    layer.requires_grad_(False)  # a traced function holds constants
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see above
        traced = torch.jit.trace(lambda X: layer(X, X, X, is_causal=True), X, check_trace=False)
    X = torch.randn(B, K, HIDDEN)
    torch.testing.assert_close(traced(X), layer(X, X, X, is_causal=True))


def test_queries_without_keys_take_no_part():
    """Also where a mask says that each of them sees what there is: (Q, 1), and K is 0."""
    layer = layers()["heads"]
    layer(*[torch.zeros(1, 1, HIDDEN)] * 3)
    queries, keys = torch.full((1, 2, HIDDEN), torch.nan), torch.randn(1, 0, HIDDEN)
    output = layer(queries, keys, keys, mask=torch.ones(2, 1, dtype=torch.bool))
    output.sum().backward()
    assert not output.any() and not layer.W_q.weight.grad.any()
