"""Chapter 7's own self-attention and its four encodings."""

import pytest
import torch
from builds import built

from d2l_attention import (
    ALiBi,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionalEncoding,
    RotaryEncoding,
    dot_product_attention,
)

B, H, Q, K, D, V = 2, 4, 3, 5, 14, 11  # D is even, columns come in pairs
OFFSETS = [0, 1, 30]
page = built("07")


def test_attend_equals_the_packages():
    q, k, v = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, V)
    torch.testing.assert_close(page["plain_attend"](q, k, v), dot_product_attention(q, k, v))


def test_self_attention_equals_a_layer_with_one_head():
    layer, X = MultiHeadAttention(D, 1, dropout=0.0), torch.randn(B, K, 7)
    expected, before = layer(X, X, X), X.clone()
    matrices = layer.W_q.weight, layer.W_k.weight, layer.W_v.weight
    output = page["plain_self_attention"](X, *matrices)
    torch.testing.assert_close(layer.W_o(output), expected)
    assert torch.equal(X, before)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("PlainPositionalEncoding", PositionalEncoding),
        ("PlainLearnedEncoding", LearnedPositionalEncoding),
    ],
)
def test_added_positions_equal_the_packages(ours, theirs, offset):
    plain, package = page[ours](D, 0.0, max_len=37), theirs(D, 0.0, max_len=37)
    package.load_state_dict(plain.state_dict(), strict=True)
    X = torch.randn(B, K, D)
    before = X.clone()
    torch.testing.assert_close(plain(X, offset), package(X, offset=offset))
    assert torch.equal(X, before)


def test_sines_by_hand_and_far_out():
    P = page["PlainPositionalEncoding"](4, 0.0).P
    expected = torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.0100, 0.9999]])
    torch.testing.assert_close(P[0, :2], expected, atol=1e-4, rtol=0)
    # Angles in float32 are not exact, as the page says.
    torch.testing.assert_close(P, PositionalEncoding(4, 0.0).P, atol=1e-3, rtol=0)


def test_dropout_acts_in_training_only():
    plain, X = page["PlainPositionalEncoding"](D, 0.5), torch.ones(B, K, D)
    assert (plain(X) == 0).any()
    assert torch.equal(plain.eval()(X), X + plain.P[:, :K])


@pytest.mark.parametrize("offset", OFFSETS)
def test_rotate_equals_the_packages(offset):
    X = torch.randn(B, H, K, D)
    before = X.clone()
    expected = RotaryEncoding(D).transform(X, offset=offset)
    torch.testing.assert_close(page["plain_rotate"](X, offset), expected)
    assert torch.equal(X, before)


@pytest.mark.parametrize("num_heads", [1, 2, 8])
def test_alibi_bias_equals_the_packages(num_heads):
    expected = ALiBi(num_heads).bias(K, K)
    torch.testing.assert_close(page["plain_alibi_bias"](num_heads, K), expected)


@pytest.mark.parametrize("kind", ["rotary", "ALiBi"])
def test_attention_with_positions_equals_a_layer(kind):
    positions = RotaryEncoding(D) if kind == "rotary" else ALiBi(H)
    layer, X = MultiHeadAttention(H * D, H, dropout=0.0, positions=positions), torch.randn(B, K, 7)
    expected = layer(X, X, X)
    q, k, v = (
        W(X).unflatten(-1, (H, D)).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v)
    )
    if kind == "rotary":
        output = page["plain_attend"](page["plain_rotate"](q), page["plain_rotate"](k), v)
    else:
        output = page["plain_attend"](q, k, v, page["plain_alibi_bias"](H, K))
    output = layer.W_o(output.transpose(1, 2).flatten(start_dim=2))
    torch.testing.assert_close(output, expected)
