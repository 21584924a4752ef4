"""The Transformer's decoder, a token at a time: the cache changes the time and nothing else."""

import pytest
import torch
from d2l_oracle import load_d2l
from test_transformer import BOS, FFN, LENS, NORMS, B, D, H, M, N, S, T, batch, model_of
from torch import nn
from torch.testing import assert_close

from d2l_attention import (
    ALiBi,
    LearnedPositionalEncoding,
    PositionalEncoding,
    Positions,
    RotaryEncoding,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
)
from d2l_attention.models.decoding import beam_search, greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder


class FullPrefix(nn.Module):
    """A decoder without memory: at each step it reads the whole sentence so far again."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def init_state(self, enc_outputs, enc_valid_lens=None):
        tokens = torch.empty(len(enc_outputs), 0, dtype=torch.long)
        return [enc_outputs, enc_valid_lens, tokens]

    def forward(self, X, state):
        enc_outputs, lens, tokens = state
        tokens = torch.cat((tokens, X), dim=1)
        logits, _ = self.decoder(tokens, self.decoder.init_state(enc_outputs, lens))
        return logits[:, -1:], [enc_outputs, lens, tokens]

    def select(self, state, index):
        return [part[index] for part in state]

    @property
    def attention_weights(self):
        return self.decoder.attention_weights[:, -1:]


def restless_model(pre_norm, positions):
    """Random weights, but the last word weighs less than is usual: sentences change and end."""
    model = model_of(pre_norm, positions=positions, dtype=torch.float64).eval()
    with torch.no_grad():
        model.decoder.embedding.weight.mul_(0.1)
        model.decoder.dense.weight.mul_(3)
    return model


POSITIONS = {
    "sinusoidal": lambda: PositionalEncoding(D, 0.0),
    "learned": lambda: LearnedPositionalEncoding(D, 0.0, max_len=20),
    "rotary": lambda: RotaryEncoding(D // H),
    "ALiBi": lambda: ALiBi(H),
}
ALL_POSITIONS = pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)


@NORMS
@ALL_POSITIONS
class TestDecoding:
    @pytest.mark.parametrize("sizes", [[1] * 5, [2, 2, 1], [1, 4]], ids=str)
    def test_in_pieces_is_all_at_once(self, pre_norm, positions, sizes):
        model, (source, target) = model_of(pre_norm, positions=positions), batch()
        state = model.decoder.init_state(model.encoder(source, LENS), LENS)
        whole, _, expected = model.decoder(target, state, need_weights=True)
        pieces, weights = [], []
        for piece in target.split(sizes, dim=1):
            logits, state, weight = model.decoder(piece, state, need_weights=True)
            assert_close(model.decoder.attention_weights, weight.detach())
            pieces.append(logits)
            weights.append(weight)
        assert_close(torch.cat(pieces, dim=1), whole)
        assert_close(torch.cat(weights, dim=1), expected)

    @pytest.mark.parametrize("search", [greedy_decode, beam_search])
    def test_with_the_cache_is_without(self, pre_norm, positions, search):
        model = restless_model(pre_norm, positions)
        slow = EncoderDecoder(model.encoder, FullPrefix(model.decoder))
        source, lens = torch.randint(M, (6, S)), torch.tensor([7, 1, 4, 2, 7, 3])
        ends = set()
        for eos in range(2, N):  # whichever word ends a sentence: early, late or never
            options = dict(bos=BOS, eos=eos, max_len=9, need_weights=True)
            fast, expected = (search(each, source, lens, **options) for each in (model, slow))
            assert fast.tokens.tolist() == expected.tokens.tolist()
            assert_close(fast.scores, expected.scores)
            assert_close(fast.weights, expected.weights)
            ends |= set(fast.lens.tolist())
        assert len(ends) > 1

    def test_a_state_is_never_changed(self, pre_norm, positions):
        model, (source, target) = model_of(pre_norm, positions=positions), batch()
        state = model.decoder.init_state(model.encoder(source, LENS), LENS)
        for _ in range(2):
            first, following = model.decoder(target[:, :2], state)
            again, _ = model.decoder(target[:, :2], state)
            assert torch.equal(first, again)
            # Another sentence branches off: what the first one said must not be in its past.
            model.decoder(target[:, 2:3].flip(0), state)
            state = following
            target = target.roll(-2, dims=1)

    def test_select(self, pre_norm, positions):
        model, (source, target) = model_of(pre_norm, positions=positions), batch()
        index = torch.tensor([2, 0, 0, 1, 2])
        state = model.decoder.init_state(model.encoder(source, LENS), LENS)
        for piece in target.split(2, dim=1):
            chosen = model.decoder.select(state, index)
            expected, state = model.decoder(piece, state)
            assert_close(model.decoder(piece[index], chosen)[0], expected[index])


@ALL_POSITIONS
def test_positions_tell_the_order(positions):
    order = torch.tensor([1, 0, *range(2, S)])
    tokens, encoded, start = torch.arange(S)[None], torch.randn(1, S, D), [None]
    for given, ordered in ((positions(), True), (Positions(), False)):
        encoder = TransformerEncoder(M, D, FFN, H, 1, 0.0, positions=given)
        swapped_after, swapped_before = encoder(tokens)[:, order], encoder(tokens[:, order])
        assert torch.allclose(swapped_after, swapped_before, atol=1e-5) != ordered
        # One block that looks back sees no order either; a second would see who saw whom.
        decoder = TransformerDecoder(N, D, FFN, H, 1, 0.0, positions=given)
        states = ([source, None, start] for source in (encoded, encoded, encoded[:, order]))
        inputs = (tokens, tokens[:, order], tokens)
        last = [decoder(X, state)[0][:, -1] for X, state in zip(inputs, states, strict=True)]
        assert torch.allclose(last[0], last[1], atol=1e-5) != ordered
        # The decoder's positions are not for the source.
        assert_close(last[0], last[2])


def test_the_source_is_projected_once_a_sentence():
    model, (source, target) = model_of(), batch()
    calls = []
    for block in model.decoder.blks:
        block.attention2.W_k.register_forward_hook(lambda *_: calls.append(1))
    state = model.decoder.init_state(model.encoder(source, LENS), LENS)
    for token in target.split(1, dim=1):
        _, state = model.decoder(token, state)
    assert len(calls) == 2


def test_no_mask_where_nothing_is_padded():
    model, (source, target) = model_of(), batch()
    encoded = model.encoder(source)
    full = model.decoder.init_state(encoded, torch.full((B,), S))
    kept = model.decoder.init_state(encoded, LENS)[1]
    assert full[1] is None and torch.equal(kept, LENS)
    assert kept is not LENS  # who changes lengths later changes no state
    expected, _ = model.decoder(target, model.decoder.init_state(encoded))
    assert torch.equal(model.decoder(target, full)[0], expected)


def test_a_search_for_nobody_and_a_target_without_tokens():
    model, (source, target) = restless_model(False, None), batch()
    for search in (greedy_decode, beam_search):
        assert search(model, source[:0], LENS[:0], bos=BOS, eos=N - 1, max_len=3).lens.shape == (0,)
    assert model(source, target[:, :0], LENS).shape == (B, 0, N)


class TestKnownMistakes:
    """What goes wrong in the book's decoder, written out on its layers, and not in ours."""

    def books_block(self, d2l, block, X, memory, training):
        """The mask of the future depends on the mode: lengths 1 to T, or none at all."""
        book = {}
        for name in ("attention1", "attention2"):
            book[name] = d2l.MultiHeadAttention(D, H, 0.0)
            book[name](X, X, X, None)  # makes its weights
            book[name].load_state_dict(getattr(block, name).state_dict(), strict=True)
        lens = torch.arange(1, T + 1).repeat(B, 1) if training else None
        X = block.addnorm1(X, book["attention1"](X, X, X, lens))
        X = block.addnorm2(X, book["attention2"](X, memory, memory, LENS))
        return block.addnorm3(X, block.ffn(X))

    def test_the_future_is_masked_in_training_only(self):
        d2l, block = load_d2l(), TransformerDecoderBlock(D, FFN, H, 0.0, 0)
        X, memory = torch.randn(B, T, D), torch.randn(B, S, D)
        other = torch.cat((X[:, :3], torch.randn(B, T - 3, D)), dim=1)
        for training in (True, False):
            block.train(training)
            seen = [self.books_block(d2l, block, inputs, memory, training) for inputs in (X, other)]
            leaks = not torch.allclose(seen[0][:, :3], seen[1][:, :3])
            assert leaks == (not training)
            ours = [block(inputs, [memory, LENS, [None]])[0] for inputs in (X, other)]
            assert torch.equal(ours[0][:, :3], ours[1][:, :3])
            if training:
                assert_close(ours[0], seen[0])

    def test_every_decoded_token_gets_position_0(self):
        class FromZero(PositionalEncoding):
            def forward(self, X, *, offset=0):
                return super().forward(X)

        target, encoded = batch()[1], torch.randn(B, S, D)
        for positions, same in ((FromZero, False), (PositionalEncoding, True)):
            decoder = TransformerDecoder(N, D, FFN, H, 1, 0.0, positions=positions(D, 0.0))
            state = decoder.init_state(encoded, LENS)
            whole, _ = decoder(target, state)
            for t in range(T):
                logits, state = decoder(target[:, t : t + 1], state)
                assert torch.allclose(logits, whole[:, t : t + 1], atol=1e-5) == (same or t == 0)
