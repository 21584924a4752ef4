"""The Transformer: a cache against the whole prefix, training against d2l's layers."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from d2l_attention import TransformerDecoder, TransformerEncoder, TransformerEncoderBlock
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from tests.benchmarks.timing import Row, faster, share
from tests.d2l_oracle import load_d2l

WORDS, SIZE, FFN, HEADS, BLOCKS = 300, 256, 1024, 8, 2
BOS, EOS = 1, 2


class FullPrefix(nn.Module):
    """A decoder without a cache: each step reads the whole sentence so far again."""

    def __init__(self, decoder: TransformerDecoder):
        super().__init__()
        self.decoder = decoder

    def init_state(self, enc_outputs, lens=None):
        return [enc_outputs, lens, torch.empty(len(enc_outputs), 0, dtype=torch.long)]

    def forward(self, X, state):
        enc_outputs, lens, tokens = state
        tokens = torch.cat((tokens, X), dim=1)
        logits, _ = self.decoder(tokens, self.decoder.init_state(enc_outputs, lens))
        return logits[:, -1:], [enc_outputs, lens, tokens]


class BooksBlock(nn.Module):
    """D2L 11.7.5's decoder block in training, on d2l's layers."""

    def __init__(self, d2l):
        super().__init__()
        self.attention1 = d2l.MultiHeadAttention(SIZE, HEADS, 0.0)
        self.attention2 = d2l.MultiHeadAttention(SIZE, HEADS, 0.0)
        self.addnorm1, self.addnorm2, self.addnorm3 = (d2l.AddNorm(SIZE, 0.0) for _ in range(3))
        self.ffn = d2l.PositionWiseFFN(FFN, SIZE)

    def forward(self, X, enc_outputs, lens):
        batch, steps, _ = X.shape
        past = torch.arange(1, steps + 1).repeat(batch, 1)
        return self.attend(X, X, past, enc_outputs, lens)

    def attend(self, X, keys, past, enc_outputs, lens):
        Y = self.addnorm1(X, self.attention1(X, keys, keys, past))
        Z = self.addnorm2(Y, self.attention2(Y, enc_outputs, enc_outputs, lens))
        return self.addnorm3(Z, self.ffn(Z))


class BooksTransformer(nn.Module):
    """The same model of d2l's own layers, for training."""

    def __init__(self):
        super().__init__()
        d2l = load_d2l()
        self.encoder = d2l.TransformerEncoder(WORDS, SIZE, FFN, HEADS, BLOCKS, 0.0)
        self.embedding = nn.Embedding(WORDS, SIZE)
        self.pos_encoding = d2l.PositionalEncoding(SIZE, 0.0)
        self.blks = nn.ModuleDict({f"block{i}": BooksBlock(d2l) for i in range(BLOCKS)})
        self.dense = nn.Linear(SIZE, WORDS)

    def forward(self, source, target, lens):
        enc_outputs = self.encoder(source, lens)
        X = self.pos_encoding(self.embedding(target) * SIZE**0.5)
        for block in self.blks.values():
            X = block(X, enc_outputs, lens)
        return self.dense(X)


class BooksSteps(nn.Module):
    """The book's decoding: a block keeps what came in, and projects all of it at every step.

    Unlike the book's, a token gets its own position instead of 0, so that the tokens are ours.
    """

    def __init__(self, book: BooksTransformer):
        super().__init__()
        self.book = book

    def init_state(self, enc_outputs, lens=None):
        return [enc_outputs, lens, [enc_outputs[:, :0]] * BLOCKS]

    def forward(self, X, state):
        enc_outputs, lens, kept = state
        position = self.book.pos_encoding.P[:, kept[0].shape[1], None]
        X = self.book.embedding(X) * SIZE**0.5 + position
        new = []
        for block, keys in zip(self.book.blks.values(), kept, strict=True):
            new.append(torch.cat((keys, X), dim=1))
            X = block.attend(X, new[-1], None, enc_outputs, lens)
        return self.book.dense(X), [enc_outputs, lens, new]


def our_transformer() -> EncoderDecoder:
    torch.manual_seed(0)
    sizes = (WORDS, SIZE, FFN, HEADS, BLOCKS, 0.0)
    return EncoderDecoder(TransformerEncoder(*sizes), TransformerDecoder(*sizes))


def load(book: BooksTransformer, model: EncoderDecoder) -> None:
    """Our weights for the book's layers, which must have run once."""
    ours = {f"encoder.{name}": value for name, value in model.encoder.state_dict().items()}
    book.load_state_dict(ours | model.decoder.state_dict(), strict=True)


def rows(full: bool) -> Iterator[Row]:
    yield training_step(64, 12, goal=1.0)
    yield training_step(32, 64, goal=1.0)
    yield against_torch(32, 64)
    yield from decoding(1, 64, goal=2.0)
    if full:
        yield training_step(4, 512, goal=1.3)
        yield from decoding(1, 256, goal=4.5)
        yield from decoding(16, 256, goal=7.0)


def against_torch(batch: int, steps: int) -> Row:
    """An encoder's blocks against ``torch.nn.TransformerEncoderLayer``, forward and backward."""
    ours = [TransformerEncoderBlock(SIZE, FFN, HEADS, 0.0) for _ in range(BLOCKS)]
    theirs = [
        nn.TransformerEncoderLayer(SIZE, HEADS, FFN, dropout=0.0, batch_first=True)
        for _ in range(BLOCKS)
    ]
    X = torch.randn(batch, steps, SIZE, requires_grad=True)
    lens = torch.randint(steps // 2, steps + 1, (batch,))

    def step(blocks, seen):
        Y = X
        for block in blocks:
            block.zero_grad()
            Y = block(Y, **seen())
        Y.sum().backward()

    return share(
        f"encoder blocks, {batch} x {steps} / torch.nn.TransformerEncoderLayer",
        lambda: step(ours, lambda: {"valid_lens": lens}),
        lambda: step(
            theirs, lambda: {"src_key_padding_mask": torch.arange(steps) >= lens[:, None]}
        ),
        1.05,
    )


def training_step(batch: int, steps: int, goal: float) -> Row:
    model, book = our_transformer(), BooksTransformer()
    source = torch.randint(3, WORDS, (batch, steps))
    target = torch.randint(3, WORDS, (batch, steps))
    lens = torch.randint(steps // 2, steps + 1, (batch,))
    book(source, target, lens)  # makes the lazy weights
    load(book, model)

    def step(module):
        module.zero_grad()
        logits = module(source, target, lens)
        sequence_loss(logits, target, lens).backward()
        return logits.detach()

    real = torch.arange(steps) < lens[:, None]
    torch.testing.assert_close(step(book)[real], step(model)[real], atol=1e-4, rtol=1e-4)
    what = f"Transformer, training step, {batch} x {steps} / d2l's layers"
    return faster(what, lambda: step(book), lambda: step(model), goal)


@torch.no_grad()
def decoding(batch: int, steps: int, goal: float) -> Iterator[Row]:
    """A goal against the book's way; against the whole prefix there is more to gain."""
    model, book = our_transformer().eval(), BooksTransformer().eval()
    model.decoder.dense.bias[EOS] = -1e9  # so that no sentence ends before its last step
    source = torch.randint(3, WORDS, (batch, steps))
    lens = torch.full((batch,), steps)
    book(source, source, lens)  # makes the lazy weights
    load(book, model)
    books = EncoderDecoder(book.encoder, BooksSteps(book))
    whole = EncoderDecoder(model.encoder, FullPrefix(model.decoder))

    def decode(module):
        return greedy_decode(module, source, lens, bos=BOS, eos=EOS, max_len=steps).tokens

    tokens = decode(model)
    what = f"Transformer, cache, {batch} x {steps} tokens"
    for name, peer in (("keys projected anew", books), ("the whole prefix", whole)):
        assert torch.equal(decode(peer), tokens)
        yield faster(f"{what} / {name}", partial(decode, peer), partial(decode, model), goal)
