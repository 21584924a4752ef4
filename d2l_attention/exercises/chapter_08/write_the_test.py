"""8.6: the test that catches a leak."""

import torch
from torch import nn

from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading


def test_no_leak(decoder):
    """Pass on a right decoder, and fail by an `AssertionError` on one that leaks.

    `decoder` is a module: tokens (B, T) -> logits (B, T, 10). A test that looks only at the
    shape would be `assert decoder(torch.tensor([[3, 1, 4]])).shape == (1, 3, 10)`.
    """
    ...


def test_no_leak_solution(decoder):
    tokens = torch.randint(10, (3, 7), generator=torch.Generator().manual_seed(0))
    for training in (True, False):
        decoder.train(training)
        together = decoder(tokens)
        for sentence in range(3):
            for t in range(1, 8):
                # No other sentence, and no future: there is none yet.
                alone = decoder(tokens[sentence : sentence + 1, :t])
                torch.testing.assert_close(alone[0], together[sentence, :t])


def right_decoder():
    """One layer of causal self-attention, in float64, so that rounding cannot be seen."""

    class Decoder(nn.Module):
        __name__ = "decoder"  # to be shown by

        def __init__(self):
            super().__init__()
            generator = torch.Generator().manual_seed(0)
            for name, shape in {"E": (10, 8), "P": (16, 8), "W": (8, 8), "out": (8, 10)}.items():
                numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
                self.register_buffer(name, numbers)

        def forward(self, tokens):
            T = tokens.shape[1]
            X = self.E[tokens] + self.P[:T]
            ahead = torch.arange(T) - torch.arange(T)[:, None]  # key - query
            scores = (X @ self.W @ X.mT / 8).masked_fill(ahead > 0, -torch.inf)
            X = X + scores.softmax(dim=-1) @ X
            axes = (-1,)
            mean, var = X.mean(axes, keepdim=True), X.var(axes, correction=0, keepdim=True)
            return ((X - mean) / (var + 1e-5).sqrt() @ self.out).float()

    return Decoder()


def without_positions():
    """Another right one."""
    decoder = right_decoder()
    decoder.P.zero_()
    return decoder


def drawn_by_lot():
    """Says something else each time: only a test that looks at too little is content."""
    decoder, generator = right_decoder(), torch.Generator().manual_seed(1)

    def other(module, tokens, logits):
        return torch.randn(logits.shape, generator=generator)

    decoder.register_forward_hook(other)
    return decoder


HIDDEN, AXES, POSITIONS = "ahead > 0", "(-1,)", "self.P[:T]"
NO_EVAL = (
    "Your test never calls `decoder.eval()`, and a new module is in training mode: check both "
    "modes, `decoder.train(training)` for True and False."
)
ONLY_EVAL = (
    "Your test looks only at evaluation mode: check both modes, `decoder.train(training)` for True "
    "and False."
)
SAME_TOKENS = (
    "Your test always gives the same tokens. Let two calls differ in the future, and in nothing "
    "else. (After `b = a` both are one tensor: change a `clone()`.)"
)
SAME_BATCH = (
    "All your batches have as many sentences. May a sentence's logits depend on its neighbours in "
    "the batch? Give it alone as well."
)
SAME_LENGTH = (
    "All your sentences are equally long, and there its positions stay the same. While decoding, "
    "the end is not known yet: give a beginning alone, `tokens[:, :t]`."
)

write_the_test = Exercise(
    **heading("8.6", "The test that catches a leak", "hard", minutes=25),
    section="The decoder's block",
    stub=test_no_leak,
    solution=test_no_leak_solution,
    explanation="While decoding, a beginning stands alone: no future, no final length, no "
    "neighbours. If it gives the same logits there as in a training batch, in both modes, "
    "nothing leaks, by whatever way. Changing the future in place is a good test, too, but it "
    "keeps length and batch, and two of the seven hide there.",
    hints=[
        "Two calls that agree up to place t, and differ behind it, have to give the same logits up "
        "to t. What may differ behind it? All that a right decoder must not know.",
        "Which of the seven hide where all calls have one length? Which, where all batches have "
        "one size? Which, if nobody calls `decoder.eval()`?",
        "What does a decoder know for certain about the future if there is none? Compare a "
        "beginning given alone, `tokens[b : b + 1, :t]`, with its place in the whole batch.",
    ],
    steps=[
        catches(
            right_decoder,
            Suspect({f".masked_fill({HIDDEN}, -torch.inf)": ""}, "has no causal mask at all"),
            Suspect(
                {HIDDEN: "ahead > 1"},
                "sees one token too far: the next one, which it should predict",
            ),
            Suspect(
                {HIDDEN: "(ahead > 0) & (ahead <= 2)"},
                "hides the next two tokens and shows all behind them",
                blind=[
                    (
                        lambda tokens: tokens.shape[1] <= 3,
                        "Your sentences have at most three tokens: none stands that far ahead.",
                    )
                ],
            ),
            Suspect(
                {HIDDEN: "self.training & (ahead > 0)"},
                "hides the future only in training",
                blind=[(lambda training: training, NO_EVAL)],
            ),
            Suspect(
                {AXES: "(1,)"},
                "normalises over the tokens of a sentence instead of the numbers of a token",
            ),
            Suspect(
                {AXES: "(0, -1) if self.training else (-1,)"},
                "normalises over all sentences of the batch in training mode",
                blind=[
                    (lambda training: not training, ONLY_EVAL),
                    (lambda tokens, first: len(tokens) == len(first["tokens"]), SAME_BATCH),
                ],
            ),
            Suspect(
                {POSITIONS: f"{POSITIONS}.flip(0)"},
                "counts positions from the sentence's end",
                blind=[
                    (lambda tokens, first: tokens.shape[1] == first["tokens"].shape[1], SAME_LENGTH)
                ],
            ),
            name="decoder",
            blind=[(lambda tokens, first: torch.equal(tokens, first["tokens"]), SAME_TOKENS)],
            also_right=[without_positions],
            beliefs=[
                Suspect(
                    {"X = X + scores.softmax(dim=-1)": "X = (ahead < 0).double()"},
                    "hides each token from itself (a token may see itself and what stands before "
                    "it)",
                ),
                Suspect(
                    {HIDDEN: "ahead != 0"},
                    "hides all other tokens (a token may see itself and what stands before it)",
                ),
            ],
            little=drawn_by_lot,
            little_why="It even passes where logits are drawn by lot. Is there an `assert` that "
            "nothing catches, and does it compare the logits of two calls closely?",
            notice="Compare all logits up to the place from which on the future differs, that "
            "last one included, and compare closely.",
            rounding="`torch.testing.assert_close` allows for that.",
            fresh=True,
        )
    ],
    seconds=20.0,  # the first `assert_close` of a process imports much
)
