"""Small decoders that note what the student's code gives them."""

from typing import Any

import torch
from torch import Tensor


class BagOfWords:
    """A decoder for 5.4: what it says next depends on all the words that it has read.

    Shape: tokens (B, T) -> logits (B, T, N).
    """

    __name__ = "decoder"

    def __init__(self, table: Tensor):
        self.table = table  # (N, N): what each word that was read says about the next
        self.read: list[Tensor] = []

    def __call__(self, tokens: Tensor) -> Tensor:
        self.read.append(tokens.clone())
        return self.table[tokens].cumsum(dim=1)


class Reciter:
    """A decoder for 5.6: it says its sentence as long as it hears its own last word.

    Led astray, by another word or an old state, it says ``LOST``; after its sentence it goes
    on with ``CHATTER``. Its state is the number of steps. (token, state) -> logits (N,), state.
    """

    __name__ = "decoder"
    LOST, CHATTER, WORDS = 8, 9, 10
    TOO_MUCH = "the decoder was asked for 30 words and more"
    MOST = 30

    def __init__(self, bos: int, sentence: list[int]):
        self.bos, self.sentence = bos, sentence
        self.script = [bos, *sentence, *[self.CHATTER] * self.MOST]
        self.heard: list[int] = []
        self.states: list[int] = []
        self.said: list[int] = []

    def __call__(self, token: Any, state: int) -> tuple[Tensor, int]:
        if len(self.heard) == self.MOST:
            raise RuntimeError(self.TOO_MUCH)  # a loop without end
        heard = int(token)
        word = self.script[state + 1] if heard == self.script[state] else self.LOST
        self.heard.append(heard)
        self.states.append(state)
        self.said.append(word)
        logits = torch.zeros(self.WORDS)
        # The second best is near, and all are below 0: only the largest counts.
        logits[word], logits[(word + 3) % self.WORDS] = 1.5, 1.0
        return logits - 2, state + 1
