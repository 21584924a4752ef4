"""Same weights, same outputs as the book's own package, and its mistakes, each by name."""

import pytest
import torch
from d2l_oracle import load_d2l
from torch.testing import assert_close

import d2l_attention as ours
from d2l_attention import attention_mask

B, Q, K, D, V = 2, 5, 7, 12, 13
LENS = {"none": None, "padded": torch.tensor([7, 2]), "per-query": torch.randint(1, 8, (2, 5))}


@pytest.fixture(scope="module")
def d2l():
    return load_d2l()


def qkv(key_size=D):
    return torch.randn(B, Q, D), torch.randn(B, K, key_size), torch.randn(B, K, V)


@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
class TestSameOutputs:
    def test_masked_softmax(self, d2l, lens):
        X = torch.randn(B, Q, K)
        assert_close(ours.masked_softmax(X, lens), d2l.masked_softmax(X.clone(), lens))

    def test_dot_product_attention(self, d2l, lens):
        inputs = qkv()
        book, layer = d2l.DotProductAttention(0.0), ours.DotProductAttention(0.0)
        assert_close(layer(*inputs, lens), book(*inputs, lens))
        assert_close(layer.attention_weights, book.attention_weights)

    def test_additive_attention(self, d2l, lens):
        inputs = qkv(key_size=3)
        book, layer = d2l.AdditiveAttention(8, 0.0), ours.AdditiveAttention(8, 0.0)
        expected = book(*inputs, lens)
        layer.load_state_dict(book.state_dict(), strict=True)
        assert_close(layer(*inputs, lens), expected)
        assert_close(layer.attention_weights, book.attention_weights)

    @pytest.mark.parametrize("bias", [False, True])
    def test_multi_head_attention(self, d2l, lens, bias):
        inputs = qkv(key_size=3)
        book = d2l.MultiHeadAttention(15, 3, 0.0, bias)
        layer = ours.MultiHeadAttention(15, 3, 0.0, bias)
        expected = book(*inputs, lens)
        layer.load_state_dict(book.state_dict(), strict=True)
        assert_close(layer(*inputs, lens), expected)
        weights = book.attention.attention_weights
        assert_close(layer.attention_weights, weights.reshape(B, 3, Q, K))
        assert_close(layer.attention.attention_weights.reshape(-1, Q, K), weights)
        # and back: the book loads ours
        book.load_state_dict(layer.state_dict(), strict=True)


def test_positional_encoding(d2l):
    X = torch.randn(B, 60, 32)
    book, layer = d2l.PositionalEncoding(32, 0.0), ours.PositionalEncoding(32, 0.0)
    assert_close(layer(X), book(X), atol=1e-5, rtol=1e-5)
    assert layer.P.shape == book.P.shape
    assert layer.state_dict().keys() == book.state_dict().keys() == set()


def test_check_shape(d2l):
    ours.check_shape(torch.zeros(2, 3), (2, 3))
    with pytest.raises(ValueError, match=r"expected a tensor of shape \(3, 2\), got \(2, 3\)"):
        ours.check_shape(torch.zeros(2, 3), (3, 2))
    with pytest.raises(AssertionError):
        d2l.check_shape(torch.zeros(2, 3), (3, 2))


class TestKnownMistakes:
    """Each shows the book's behaviour first, so that a mended d2l makes the test speak up."""

    def test_masked_softmax_overwrites_its_argument(self, d2l):
        X = torch.zeros(1, 1, 3)
        d2l.masked_softmax(X, torch.tensor([1]))
        assert X.tolist() == [[[0.0, -1e6, -1e6]]]
        X = torch.zeros(1, 1, 3)
        ours.masked_softmax(X, torch.tensor([1]))
        assert X.tolist() == [[[0.0, 0.0, 0.0]]]

    def test_length_zero_gives_uniform_weights_over_padding(self, d2l):
        lens = torch.tensor([0])
        assert_close(d2l.masked_softmax(torch.zeros(1, 1, 4), lens), torch.full((1, 1, 4), 0.25))
        assert ours.masked_softmax(torch.zeros(1, 1, 4), lens).tolist() == [[[0.0] * 4]]

    def test_odd_size_breaks_the_positional_encoding(self, d2l):
        with pytest.raises(RuntimeError):
            d2l.PositionalEncoding(5, 0.0)
        assert ours.PositionalEncoding(5, 0.0)(torch.zeros(1, 3, 5)).shape == (1, 3, 5)

    def test_no_check_that_heads_divide_the_size(self, d2l):
        d2l.MultiHeadAttention(10, 3, 0.0)  # accepted; fails in the forward pass
        with pytest.raises(ValueError, match="num_hiddens=10 and num_heads=3"):
            ours.MultiHeadAttention(10, 3, 0.0)

    def test_positional_table_is_no_buffer(self, d2l):
        assert d2l.PositionalEncoding(4, 0.0).double().P.dtype == torch.float32
        assert ours.PositionalEncoding(4, 0.0).double().P.dtype == torch.float64

    def test_step_decoding_adds_position_zero_to_every_token(self, d2l):
        X = torch.zeros(1, 6, 4)
        book, layer = d2l.PositionalEncoding(4, 0.0), ours.PositionalEncoding(4, 0.0)
        assert torch.equal(book(X[:, 3:4]), book(X)[:, :1])
        assert torch.equal(layer(X[:, 3:4], offset=3), layer(X)[:, 3:4])


def test_minus_million_is_not_minus_infinity(d2l):
    """Scores below -1e6 shine through the book's mask."""
    X = torch.tensor([[[-2e6, 0.0]]])
    assert d2l.masked_softmax(X.clone(), torch.tensor([1])).tolist() == [[[0.0, 1.0]]]
    assert ours.masked_softmax(X, torch.tensor([1])).tolist() == [[[1.0, 0.0]]]
    assert attention_mask(X.shape, torch.tensor([1])).tolist() == [[[True, False]]]
