"""Bahdanau's decoder against the book's loop, written on d2l 1.0.3's own layers."""

from collections.abc import Iterator

import torch
from torch import nn

from d2l_attention.models.decoding import greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder
from tests.benchmarks.timing import Row, faster
from tests.d2l_oracle import load_d2l

SOURCE_WORDS, TARGET_WORDS, SIZE, LAYERS = 300, 400, 256, 2
BOS, EOS = 1, 2


class BooksDecoder(nn.Module):
    """D2L 11.4.1, step by step, with the weights of one of our decoders."""

    def __init__(self, decoder: Seq2SeqAttentionDecoder):
        super().__init__()
        self.attention = load_d2l().AdditiveAttention(SIZE, 0.0)
        self.attention(torch.zeros(1, 1, SIZE), *torch.zeros(2, 1, 1, SIZE), None)
        self.attention.load_state_dict(decoder.attention.state_dict(), strict=True)
        self.embedding, self.dense = decoder.embedding, decoder.dense
        self.rnn = nn.GRU(2 * SIZE, SIZE, LAYERS)
        self.rnn.load_state_dict(decoder.rnn.state_dict(), strict=True)

    def forward(self, X, state):
        enc_outputs, hidden_state, enc_valid_lens = state
        outputs = []
        for x in self.embedding(X).permute(1, 0, 2):
            query = hidden_state[-1].unsqueeze(1)
            context = self.attention(query, enc_outputs, enc_outputs, enc_valid_lens)
            x = torch.cat((context, x.unsqueeze(1)), dim=-1)
            out, hidden_state = self.rnn(x.permute(1, 0, 2), hidden_state)
            outputs.append(out)
        logits = self.dense(torch.cat(outputs)).permute(1, 0, 2)
        return logits, [enc_outputs, hidden_state, enc_valid_lens]


def books_state(model, source, lens):
    outputs, hidden_state = model.encoder(source, lens)
    return [outputs.transpose(0, 1), hidden_state, lens]


def models():
    torch.manual_seed(0)
    encoder = Seq2SeqEncoder(SOURCE_WORDS, SIZE, SIZE, LAYERS)
    decoder = Seq2SeqAttentionDecoder(TARGET_WORDS, SIZE, SIZE, LAYERS)
    with torch.no_grad():
        decoder.dense.bias[EOS] = -1e9  # so that no sentence ends before its last step
    return EncoderDecoder(encoder, decoder), BooksDecoder(decoder)


def rows(full: bool) -> Iterator[Row]:
    yield training_step(128, 9, goal=1.2)
    yield training_step(32, 64, goal=1.5)
    yield greedy(32, 64, goal=2.5)


def training_step(batch: int, steps: int, goal: float) -> Row:
    model, book = models()
    source = torch.randint(3, SOURCE_WORDS, (batch, steps))
    target = torch.randint(3, TARGET_WORDS, (batch, steps))
    lens = torch.randint(steps // 2, steps + 1, (batch,))

    def learn(logits):
        model.zero_grad()
        book.zero_grad()
        sequence_loss(logits, target, lens).backward()
        return logits.detach()

    def peer():
        return learn(book(target, books_state(model, source, lens))[0])

    def ours():
        return learn(model(source, target, lens))

    torch.testing.assert_close(peer(), ours(), atol=1e-5, rtol=1e-5)
    return faster(f"Bahdanau, training step, {batch} x {steps} / the book's loop", peer, ours, goal)


@torch.no_grad()
def greedy(batch: int, steps: int, goal: float) -> Row:
    model, book = models()
    source = torch.randint(3, SOURCE_WORDS, (batch, steps))
    lens = torch.randint(steps // 2, steps + 1, (batch,))

    def peer():
        state, token, tokens = (
            books_state(model, source, lens),
            source.new_full((batch, 1), BOS),
            [],
        )
        for _ in range(steps):
            logits, state = book(token, state)
            token = logits.argmax(dim=2)
            tokens.append(token)
        return torch.cat(tokens, dim=1)

    def ours():
        return greedy_decode(model, source, lens, bos=BOS, eos=EOS, max_len=steps).tokens

    assert torch.equal(peer(), ours())
    return faster(f"Bahdanau, greedy, {batch} x {steps} / the book's loop", peer, ours, goal)
