"""The translation models, against the book's own loop and by what must never matter."""

import math

import pytest
import torch
from d2l_oracle import load_d2l
from torch import nn
from torch.testing import assert_close

from d2l_attention.models.decoding import beam_search, greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from d2l_attention.models.seq2seq import (
    Seq2SeqAttentionDecoder,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
    gru_cell,
)

B, S, T, E, H, N, M = 3, 7, 5, 4, 6, 11, 13  # N target words, M source words
LENS = torch.tensor([7, 2, 4])
BOS, EOS = 1, 2
DECODERS = [Seq2SeqDecoder, Seq2SeqAttentionDecoder]


def model_of(decoder=Seq2SeqAttentionDecoder, num_layers=2, dropout=0.0):
    torch.manual_seed(1)
    sizes = (E, H, num_layers, dropout)
    return EncoderDecoder(Seq2SeqEncoder(M, *sizes), decoder(N, *sizes))


def batch():
    return torch.randint(M, (B, S)), torch.randint(N, (B, T))


def books_loop(d2l, decoder, X, enc_outputs, hidden_state, lens):
    """The decoder of D2L 11.4, step by step, on the book's own layers."""
    attention = d2l.AdditiveAttention(H, 0.0)
    rnn = nn.GRU(E + H, H, len(hidden_state))
    attention(hidden_state[-1][:, None], enc_outputs, enc_outputs, lens)  # makes its weights
    attention.load_state_dict(decoder.attention.state_dict(), strict=True)
    rnn.load_state_dict(decoder.rnn.state_dict(), strict=True)
    outputs, weights = [], []
    for x in decoder.embedding(X).permute(1, 0, 2):
        query = hidden_state[-1].unsqueeze(1)
        context = attention(query, enc_outputs, enc_outputs, lens)
        x = torch.cat((context, x.unsqueeze(1)), dim=-1)
        out, hidden_state = rnn(x.permute(1, 0, 2), hidden_state)
        outputs.append(out)
        weights.append(attention.attention_weights)
    logits = decoder.dense(torch.cat(outputs)).permute(1, 0, 2)
    return logits, hidden_state, torch.cat(weights, dim=1)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("lens", [LENS, None], ids=["padded", "full"])
def test_attention_decoder_is_the_books_loop(num_layers, lens):
    model, (source, target) = model_of(num_layers=num_layers), batch()
    encoded = model.encoder(source, lens)
    state = model.decoder.init_state(encoded, lens)
    logits, state, weights = model.decoder(target, state, need_weights=True)
    values = encoded[0].transpose(0, 1)
    expected = books_loop(load_d2l(), model.decoder, target, values, encoded[1], lens)
    for actual, wanted in zip((logits, state[1], weights), expected, strict=True):
        assert_close(actual, wanted, atol=1e-5, rtol=1e-5)
    assert_close(model.decoder.attention_weights, weights.detach())


def test_encoder_is_the_books_where_nothing_is_padded():
    book = load_d2l().Seq2SeqEncoder(M, E, H, 2)
    encoder = Seq2SeqEncoder(M, E, H, 2)
    weights = {name.replace("rnn.rnn", "rnn"): value for name, value in book.state_dict().items()}
    encoder.load_state_dict(weights, strict=True)
    source, _ = batch()
    assert_close(encoder(source), book(source))
    assert_close(encoder(source, torch.full((B,), S)), book(source))


@pytest.mark.parametrize("num_layers", [1, 2])
def test_encoder_in_both_directions_is_two_grus(num_layers):
    encoder = Seq2SeqEncoder(M, E, H, num_layers, bidirectional=True)
    source, _ = batch()
    outputs, state = encoder(source, LENS)
    assert outputs.shape == (S, B, H) and state.shape == (num_layers, B, H)
    for b, length in enumerate(LENS.tolist()):  # each sentence alone, without padding
        alone, hidden = encoder.rnn(encoder.embedding(source[b, :length]))
        assert_close(outputs[:length, b], alone)
        assert (outputs[length:, b] == 0).all()
        # The last state of each direction: at the last word, and at the first.
        assert_close(state[-1, b], torch.cat([alone[-1, : H // 2], alone[0, H // 2 :]]))
        assert_close(state[:, b], hidden.reshape(num_layers, H))
    # The first word's state knows the last word, the other way round too.
    changed = source.clone()
    changed[0, -1] = (changed[0, -1] + 1) % M
    other, _ = encoder(changed, LENS)
    assert not torch.equal(other[0, 0, H // 2 :], outputs[0, 0, H // 2 :])
    assert torch.equal(other[0, 0, : H // 2], outputs[0, 0, : H // 2]) == (num_layers == 1)


def test_two_directions_share_the_units_evenly():
    with pytest.raises(ValueError, match="num_hiddens must be even .* got 7"):
        Seq2SeqEncoder(M, E, 7, 1, bidirectional=True)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lens", [None, LENS[:0]], ids=["full", "padded"])
def test_a_batch_without_sentences(bidirectional, lens):
    encoder = Seq2SeqEncoder(M, E, H, 2, bidirectional=bidirectional)
    outputs, state = encoder(batch()[0][:0], lens)
    assert outputs.shape == (S, 0, H) and state.shape == (2, 0, H)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_lengths_of_any_integers(dtype):
    encoder, (source, _) = Seq2SeqEncoder(M, E, H, 2), batch()
    for found, expected in zip(encoder(source, LENS.to(dtype)), encoder(source, LENS), strict=True):
        assert torch.equal(found, expected)


WRONG_LENS = {
    "two for three": (LENS[:2], ValueError, r"valid_lens must have shape \(3,\), .* got \(2,\)"),
    "one for all": (LENS[:1], ValueError, r"valid_lens must have shape \(3,\), .* got \(1,\)"),
    "a column": (LENS[:, None], ValueError, r"valid_lens must .* \(3,\), .* got \(3, 1\)"),
    "a number": (torch.tensor(7), ValueError, r"valid_lens must have shape \(B,\) .* got \(\)"),
    "none for three": (LENS[:0], ValueError, r"valid_lens must .* \(3,\), .* got \(0,\)"),
    "negative": (LENS - 3, ValueError, "between 0 and the number of keys, 7, .* from -1 to 4"),
    "beyond": (LENS + 1, ValueError, "between 0 and the number of keys, 7, .* from 3 to 8"),
    "floats": (LENS + 0.5, TypeError, "valid_lens must be a tensor of integers, got torch.float32"),
    "bool": (LENS > 3, TypeError, "valid_lens must be a tensor of integers, got torch.bool"),
    "a list": (LENS.tolist(), TypeError, "valid_lens must be a tensor of integers, got list"),
}


@pytest.mark.parametrize("lens, error, words", WRONG_LENS.values(), ids=WRONG_LENS)
def test_lengths_are_one_integer_a_sentence(lens, error, words):
    model, (source, target) = model_of(), batch()
    encoded, ends = model.encoder(source), dict(bos=BOS, eos=EOS, max_len=3)
    for call in (
        lambda: model.encoder(source, lens),
        lambda: model.decoder.init_state(encoded, lens),
        lambda: model(source, target, lens),
        lambda: greedy_decode(model, source, lens, **ends),
        lambda: beam_search(model, source, lens, **ends),
    ):
        with pytest.raises(error, match=words):
            call()


WRONG_TOKENS = {
    "floats": (lambda X: X.float(), r"X must hold token numbers, .* torch.float32 of .*\(3, 5\)"),
    "bool": (lambda X: X.bool(), r"X must hold token numbers, .* torch.bool of .*\(3, 5\)"),
    "bytes": (lambda X: X.byte(), r"X must hold token numbers, .* torch.uint8 of .*\(3, 5\)"),
    "one sentence": (lambda X: X[0, :B], r"X must hold token numbers, .* torch.int64 of .*\(3,\)"),
    "three axes": (lambda X: X[..., None], r"X must hold token numbers, .* of .*\(3, 5, 1\)"),
    "a list": (lambda X: X.tolist(), "X must hold token numbers, .* got list"),
    "no tokens": (lambda X: X[:, :0], r"X must hold a token a sentence or more, got \(3, 0\)"),
}


@pytest.mark.parametrize("change, words", WRONG_TOKENS.values(), ids=WRONG_TOKENS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_tokens_are_numbers_of_sentences(decoder, change, words):
    model, (source, target) = model_of(decoder), batch()
    state = model.decoder.init_state(model.encoder(source, LENS), LENS)
    with pytest.raises(ValueError, match=words):
        model.encoder(change(source[:, :T]))
    with pytest.raises(ValueError, match=words):
        model.decoder(change(target), state)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_state_of_somebody_else(decoder):
    model, (source, target) = model_of(decoder), batch()
    state = model.decoder.init_state(model.encoder(source, LENS), LENS)
    for rows in (target[:1], target[:2], torch.cat((target, target))):  # one would fit all
        with pytest.raises(ValueError, match=f"as many rows as the state, 3, got {len(rows)}"):
            model.decoder(rows, state)
    outputs, hidden = model.encoder(source, LENS)
    for encoded, came in (
        ((outputs, hidden[:1]), r"\(7, 3, 6\) and \(1, 3, 6\)"),  # the decoder has two layers
        ((outputs, hidden[..., :5]), r"\(7, 3, 6\) and \(2, 3, 5\)"),
        ((outputs[:, :2], hidden), r"\(7, 2, 6\) and \(2, 3, 6\)"),
        (outputs[:2], r"\(2, 3, 6\)"),  # a tensor of two matrices, which unpacks as well
    ):
        words = r"enc_outputs must be outputs \(S, B, 6\) and state \(2, B, 6\), got "
        with pytest.raises(ValueError, match=f"{words}{came}$"):
            model.decoder.init_state(encoded, LENS)


def test_gru_cell_is_pytorchs():
    cell, x, hidden = nn.GRUCell(E, H), torch.randn(B, E), torch.randn(B, H)
    from_input = x @ cell.weight_ih.T + cell.bias_ih
    from_hidden = hidden @ cell.weight_hh.T + cell.bias_hh
    assert_close(gru_cell(from_input, from_hidden, hidden), cell(x, hidden))


@pytest.mark.parametrize("decoder", DECODERS)
class TestBothDecoders:
    def test_dropout_acts_in_training_only(self, decoder):
        model, (source, target) = model_of(decoder, dropout=0.5), batch()
        assert not torch.equal(model(source, target, LENS), model(source, target, LENS))
        model.eval()
        assert torch.equal(model(source, target, LENS), model(source, target, LENS))


def test_the_loss_by_hand_and_blind_to_padding():
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.9, 0.1], [0.5, 0.5]]]))
    labels, lens = torch.tensor([[0, 0], [1, 0]]), torch.tensor([2, 1])
    expected = -(math.log(0.5) + math.log(0.25) + math.log(0.1)) / 3
    assert sequence_loss(logits, labels, lens).item() == pytest.approx(expected, rel=1e-5)
    logits[1, 1] = math.nan
    logits.requires_grad_()
    loss = sequence_loss(logits, labels, lens)
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert logits.grad[1, 1].tolist() == [0.0, 0.0] and logits.grad.isfinite().all()
    assert sequence_loss(logits, labels, torch.tensor([0, 0])) == 0


def test_the_loss_leaves_out_the_labels_that_pytorch_ignores():
    logits = torch.log(torch.tensor([[[0.2, 0.8], [0.5, 0.5], [0.5, 0.5]]])).requires_grad_()
    labels, lens = torch.tensor([[0, -100, 1]]), torch.tensor([2])
    loss = sequence_loss(logits, labels, lens)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(5), rel=1e-5)
    assert logits.grad[0, 1:].tolist() == [[0.0, 0.0]] * 2
    assert sequence_loss(logits, torch.full_like(labels, -100), lens) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_loss_of_very_many_tokens(dtype):
    """Each costs log 50, together 78,240: more than float16 can hold."""
    logits = torch.zeros(4, 5000, 50, dtype=dtype, requires_grad=True)
    loss = sequence_loss(logits, torch.zeros(4, 5000, dtype=torch.long), torch.full((4,), 5000))
    loss.backward()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert loss.item() == pytest.approx(math.log(50), rel=1e-4)
    assert logits.grad.dtype == dtype and logits.grad.isfinite().all()


def test_the_loss_takes_token_numbers():
    logits, labels = torch.randn(B, T, N), torch.randint(N, (B, T))
    lens = torch.tensor([5, 1, 3])
    expected = sequence_loss(logits, labels, lens)
    assert torch.equal(sequence_loss(logits, labels.int(), lens), expected)
    for wrong, came in ((labels.float(), "torch.float32"), (labels > 2, "torch.bool")):
        with pytest.raises(ValueError, match=f"labels must hold token numbers, .* got {came}"):
            sequence_loss(logits, wrong, lens)
    with pytest.raises(ValueError, match=r"logits must have shape \(B, T, N\), got \(3, 5\)"):
        sequence_loss(logits[..., 0], labels, lens)
    with pytest.raises(TypeError, match="logits must be a tensor of floats, got torch.int64"):
        sequence_loss(labels, labels, lens)
    for wrong in (lens[:2], lens[:1], lens[:, None]):
        with pytest.raises(ValueError, match=r"valid_lens must have shape \(3,\)"):
            sequence_loss(logits, labels, wrong)
    with pytest.raises(TypeError, match="valid_lens must be a tensor of integers"):
        sequence_loss(logits, labels, lens.float())


def test_errors():
    model, (source, _) = model_of(), batch()
    with pytest.raises(ValueError, match=r"labels must have shape \(3, 5\) .* got \(3, 7\)"):
        sequence_loss(torch.zeros(B, T, N), source, LENS)
    with pytest.raises(AttributeError, match="attention_weights"):
        _ = model.decoder.attention_weights
    with pytest.raises(ValueError, match="between 0 and the number of keys, 7"):
        model.decoder.init_state(model.encoder(source), torch.tensor([8, 1, 1]))


def test_the_decoder_does_not_look_into_the_padding_of_the_encoder():
    """Whatever the encoder says of padding, NaN included, reaches no logit and no gradient."""
    model, (_, target) = model_of(), batch()
    states, hidden = torch.randn(S, B, H), torch.randn(2, B, H)
    results = []
    for filling in (0.0, math.nan):
        outputs = states.clone()
        for b, length in enumerate(LENS):
            outputs[length:, b] = filling
        model.zero_grad()
        logits, _ = model.decoder(target, model.decoder.init_state((outputs, hidden), LENS))
        logits.sum().backward()
        gradients = [parameter.grad for parameter in model.decoder.parameters()]
        results.append([logits.detach(), *gradients])
    assert all(X.isfinite().all() for X in results[1])
    assert_close(*results)
