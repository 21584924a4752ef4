"""The Transformer: decoding with a cache against the whole prefix, training against d2l's layers.

python tests/benchmarks/transformer.py
"""

import sys
from pathlib import Path

import torch
from timing import compare, report
from torch import nn

from d2l_attention import TransformerDecoder, TransformerEncoder
from d2l_attention.decoding import greedy_decode
from d2l_attention.seq2seq import EncoderDecoder, sequence_loss

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from d2l_oracle import load_d2l  # noqa: E402

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
        Y = self.addnorm1(X, self.attention1(X, X, X, past))
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


def our_transformer() -> EncoderDecoder:
    torch.manual_seed(0)
    sizes = (WORDS, SIZE, FFN, HEADS, BLOCKS, 0.0)
    return EncoderDecoder(TransformerEncoder(*sizes), TransformerDecoder(*sizes))


def training_step(batch: int, steps: int) -> list[float]:
    model, book = our_transformer(), BooksTransformer()
    source = torch.randint(3, WORDS, (batch, steps))
    target = torch.randint(3, WORDS, (batch, steps))
    lens = torch.randint(steps // 2, steps + 1, (batch,))
    book(source, target, lens)  # makes the lazy weights
    ours = {f"encoder.{name}": value for name, value in model.encoder.state_dict().items()}
    book.load_state_dict(ours | model.decoder.state_dict(), strict=True)

    def step(module):
        module.zero_grad()
        logits = module(source, target, lens)
        sequence_loss(logits, target, lens).backward()
        return logits.detach()

    real = torch.arange(steps) < lens[:, None]
    torch.testing.assert_close(step(book)[real], step(model)[real], atol=1e-4, rtol=1e-4)
    return compare(lambda: step(book), lambda: step(model))


@torch.no_grad()
def decoding(batch: int, steps: int) -> list[float]:
    model = our_transformer().eval()
    model.decoder.dense.bias[EOS] = -1e9  # so that no sentence ends before its last step
    whole = EncoderDecoder(model.encoder, FullPrefix(model.decoder))
    source = torch.randint(3, WORDS, (batch, steps))
    lens = torch.full((batch,), steps)

    def decode(module):
        return greedy_decode(module, source, lens, bos=BOS, eos=EOS, max_len=steps).tokens

    assert torch.equal(decode(whole), decode(model))
    return compare(lambda: decode(whole), lambda: decode(model))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("times faster: median (lowest to highest of 7 rounds)")
    for batch, steps, goal in ((64, 12, 1.0), (32, 64, 1.0), (4, 512, 1.3)):
        report(
            f"training step against d2l's layers, {batch} x {steps}",
            training_step(batch, steps),
            goal,
        )
    for batch, steps, goal in ((1, 64, 2.0), (1, 256, 4.5), (16, 256, 7.0)):
        report(f"cache against full prefix, {batch} x {steps}", decoding(batch, steps), goal)
