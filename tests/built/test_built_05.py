"""Chapter 5's own translator: encoder, additive attention, decoder, loss, and greedy decoding."""

import pytest
import torch
from builds import built

from d2l_attention import AdditiveAttention
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder

page = built("05")
B, Q, K = 3, 5, 7  # all different: a swapped axis cannot pass
E, D, N, WORDS = 11, 6, 17, 13  # N French words, WORDS English ones
LENS = torch.tensor([K, 2, 1])


@pytest.fixture
def tokens():
    return torch.randint(WORDS, (B, K)), torch.randint(N, (B, Q))


def encoder():
    return Seq2SeqEncoder(WORDS, E, D, 1, bidirectional=True)


def decoders(num_layers=1, dropout=0.0):
    """The plain decoder and the package's, with the same parameters."""
    plain = page["PlainAttentionDecoder"](N, E, D, num_layers, dropout)
    package = Seq2SeqAttentionDecoder(N, E, D, num_layers, dropout)
    package.load_state_dict(plain.state_dict(), strict=True)
    return plain.eval(), package.eval()


def test_the_look_equals_the_packages_also_with_nothing_to_see():
    plain, package = page["PlainAdditiveAttention"](D, 0.0), AdditiveAttention(D, 0.0)
    query, states, lens = torch.randn(B, D), torch.randn(B, K, D), torch.tensor([K, 2, 0])
    before = query.clone(), states.clone()
    context, weights = plain(query, states, lens)
    package(query[:, None], states, states)  # fixes the sizes of its W_q and W_k
    package.load_state_dict(plain.state_dict(), strict=True)
    expected = package(query[:, None], states, states, lens)
    torch.testing.assert_close(context[:, None], expected)
    torch.testing.assert_close(weights[:, None], package.attention_weights)
    assert (context[2] == 0).all() and (weights[2] == 0).all()
    assert torch.equal(query, before[0]) and torch.equal(states, before[1])


@pytest.mark.parametrize("num_layers", [1, 2])
def test_the_decoder_equals_the_packages_and_changes_nothing(tokens, num_layers):
    plain, package = decoders(num_layers)
    states, summary = encoder()(tokens[0], LENS)
    encoded = states, summary.expand(num_layers, -1, -1)
    before = states.clone()
    state = plain.init_state(encoded, LENS)
    logits, state = plain(tokens[1], state)
    expected, expected_state = package(tokens[1], package.init_state(encoded, LENS))
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(plain.attention_weights, package.attention_weights)
    torch.testing.assert_close(state[:2], expected_state[:2])  # and so does the step after that
    again = plain(tokens[1][:, :1], state)[0], package(tokens[1][:, :1], expected_state)[0]
    torch.testing.assert_close(*again)
    assert torch.equal(states, before)


def test_gradients_equal_the_packages(tokens):
    encoded = encoder()(tokens[0], LENS)
    for decoder in (both := decoders()):
        logits, _ = decoder(tokens[1], decoder.init_state(encoded, LENS))
        logits.sum().backward(retain_graph=True)
    named = dict(both[1].named_parameters())
    for name, parameter in both[0].named_parameters():
        torch.testing.assert_close(parameter.grad, named[name].grad, msg=name)


def test_dropout_acts_in_training_only(tokens):
    plain, _ = decoders(num_layers=2, dropout=0.5)
    states, summary = encoder()(tokens[0], LENS)
    state = plain.init_state((states, summary.expand(2, -1, -1)), LENS)
    kept = plain(tokens[1], state)[0]
    torch.testing.assert_close(plain(tokens[1], state)[0], kept)
    torch.manual_seed(0)
    assert not torch.allclose(plain.train()(tokens[1], state)[0], kept)


def test_the_encoder_equals_the_packages(tokens):
    plain, package = page["PlainEncoder"](WORDS, E, D), encoder()
    package.load_state_dict(plain.state_dict(), strict=True)
    torch.testing.assert_close(plain(tokens[0], LENS), package(tokens[0], LENS))


def test_the_loss_equals_the_packages():
    logits, labels, lens = torch.randn(B, Q, N), torch.randint(N, (B, Q)), torch.tensor([5, 3, 0])
    expected = sequence_loss(logits, labels, lens)
    torch.testing.assert_close(page["plain_loss"](logits, labels, lens), expected)


def test_the_greedy_loop_writes_what_the_packages_does(tokens):
    plain, package = decoders()
    model = EncoderDecoder(encoder(), package)
    written = page["plain_translate"](model.encoder, plain, tokens[0], LENS, bos=1, max_len=9)
    found = greedy_decode(model, tokens[0], LENS, bos=1, eos=2, max_len=9)
    assert written.shape == (B, 9)
    for row, tokens_of_row in zip(written.tolist(), found.sentences(), strict=True):
        until = row.index(2) if 2 in row else 9
        assert row[:until] == tokens_of_row
