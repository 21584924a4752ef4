"""Small decoders for 8.6: right ones, which a test has to accept, and leaking ones."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

WORDS, MOST, SIZE = 10, 16, 8


class Decoder(nn.Module):
    """One layer of causal self-attention: tokens (B, T) -> logits (B, T, 10).

    ``may_see(behind, training)``: whether a query sees a key that stands ``behind`` places behind
    it, (T, T). ``axes`` are those over which the layer norm takes mean and variance;
    ``batch_norm`` adds the axis of the sentences in training mode.
    """

    __name__ = "decoder"  # to be shown by

    def __init__(
        self,
        may_see: Callable = lambda behind, training: behind <= 0,
        *,
        axes: tuple[int, ...] = (-1,),
        batch_norm: bool = False,
        from_the_end: bool = False,
        positions: bool = True,
    ):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = (WORDS, SIZE), (MOST, SIZE), (SIZE, SIZE), (SIZE, WORDS)
        numbers = (torch.randn(shape, generator=generator) for shape in shapes)
        for name, tensor in zip(("embedding", "P", "W", "out"), numbers, strict=True):
            self.register_buffer(name, tensor)
        self.may_see, self.axes, self.batch_norm = may_see, axes, batch_norm
        self.from_the_end, self.positions = from_the_end, positions

    def forward(self, tokens: Tensor) -> Tensor:
        X, T = self.embedding[tokens], tokens.shape[1]
        if self.positions:
            P = self.P[:T]
            X = X + (P.flip(0) if self.from_the_end else P)
        places = torch.arange(T)
        visible = self.may_see(places - places[:, None], self.training)
        scores = (X @ self.W @ X.mT / SIZE).masked_fill(~visible, -torch.inf)
        X = X + scores.softmax(dim=-1) @ X
        axes = (0, -1) if self.batch_norm and self.training else self.axes
        mean, var = X.mean(axes, keepdim=True), X.var(axes, correction=0, keepdim=True)
        return (X - mean) / (var + 1e-5).sqrt() @ self.out


class OtherLastDigits(Decoder):
    """Right as well: sums over other lengths may round in another way."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) * (1 + 3e-7 * (tokens.numel() % 3))


class EveryDigit(Decoder):
    """Right to the last digit that it gives: the digits that rounding reaches are cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.double()

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).round(decimals=3)


class Dice(Decoder):
    """Says something else each time: only a test that looks at nothing is content."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.randn(*tokens.shape, WORDS, generator=self.generator)


def right() -> Decoder:
    return Decoder()


def without_positions() -> Decoder:
    return Decoder(positions=False)


def in_eval_only() -> Decoder:
    return Decoder(lambda behind, training: (behind <= 0) | (not training))


def no_mask() -> Decoder:
    return Decoder(lambda behind, training: behind < MOST)


def one_ahead() -> Decoder:
    return Decoder(lambda behind, training: behind <= 1)


def far_ahead() -> Decoder:
    return Decoder(lambda behind, training: (behind <= 0) | (behind > 2))


def norm_over_tokens() -> Decoder:
    return Decoder(axes=(1,))


def norm_over_sentences() -> Decoder:
    return Decoder(batch_norm=True)


def positions_from_the_end() -> Decoder:
    return Decoder(from_the_end=True)


LEAKS = {
    no_mask: "has no causal mask at all",
    one_ahead: "sees one token too far: the next one, which it should predict",
    far_ahead: "hides the next two tokens and shows all behind them",
    in_eval_only: "hides the future in training alone",
    norm_over_tokens: "normalises over the tokens of a sentence instead of the numbers of a token",
    norm_over_sentences: "normalises over all sentences of the batch in training mode",
    positions_from_the_end: "counts positions from the sentence's end",
}
