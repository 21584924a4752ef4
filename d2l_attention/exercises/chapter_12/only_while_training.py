"""12.4: a causal mask that is there only while training."""

import torch
from torch import nn

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._exhibit import exhibit, fails

BY_LOT = (
    "It even passes where all outputs are drawn at random. Is there an `assert` that compares the "
    "outputs of two calls?"
)


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.1)

    def forward(self, X):
        n, D = X.shape[1:]
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        scores = (X @ X.mT / D**0.5).masked_fill(future, -torch.inf)
        return self.dropout(scores.softmax(dim=-1)) @ X


class WithTheFusedKernel(nn.Module):
    def forward(self, X):
        dropout = 0.1 if self.training else 0.0
        return nn.functional.scaled_dot_product_attention(
            X, X, X, dropout_p=dropout, is_causal=True
        )


def test_in_both_modes(attention):
    """Pass where no token ever sees a later one, and fail by an `AssertionError` otherwise.

    `attention` is a module for causal self-attention, (B, n, D) -> (B, n, D), with dropout: new,
    and in training mode.
    """
    ...


def test_in_both_modes_solution(attention):
    X = torch.randn(2, 5, 7)
    other = X.clone()
    other[:, 3:] = 1.0
    for training in (True, False):
        attention.train(training)
        torch.manual_seed(0)  # the same dropout in both runs
        before = attention(X)
        torch.manual_seed(0)
        torch.testing.assert_close(attention(other)[:, :3], before[:, :3])


class Fails(nn.Module):
    def forward(self, X):
        fails()


LOT = torch.Generator()  # not the one that a test sets back


class Noise(nn.Module):
    def forward(self, X):
        return torch.rand(X.shape, generator=LOT)


only_while_training = exhibit(
    **heading("12.4", "Right in two of three situations", "hard", minutes=12),
    section="12.4 · Right in two of three situations",
    right=CausalAttention,
    name="attention",
    bug={"masked_fill(future, -torch.inf)": "masked_fill(future & self.training, -torch.inf)"},
    what="hides the future only while training",
    also_right=[WithTheFusedKernel],
    blind=[
        (
            lambda training: training,
            "Your test never calls `attention.eval()`, and a new module is training.",
        )
    ],
    more=[
        Suspect(
            {"masked_fill(future, -torch.inf)":
             "masked_fill(future & (not self.training), -torch.inf)"},
            "hides the future in eval mode only",
            [(lambda training: not training, "Your test tries eval mode only. Call "
              "`attention.train()`, and set the seed before each of two runs.")],
        ),
    ],
    stub=test_in_both_modes,
    solution=test_in_both_modes_solution,
    explanation="A validation loss is measured in eval mode, on whole sentences: there this "
    "decoder sees the words that it should predict, which it never saw while training. Its loss "
    "says nothing about the model that writes. While it writes, one token at a time, nothing is "
    "wrong. A module has two modes: test both, with the same seed, because dropout is random.",
    hints=[
        "A module has two modes. Which of them does your test try?",
        "`attention.eval()` switches dropout off, and whatever else asks for `self.training`.",
        "In training mode dropout is random: set `torch.manual_seed(0)` before each of two runs "
        "that you compare.",
    ],
    test_options=dict(
        fresh=True,
        nothing=Fails,
        little=Noise,
        little_why=BY_LOT,
        beliefs=[
            Suspect(
                {"self.dropout(scores.softmax(dim=-1))": "scores.softmax(dim=-1)"},
                "has no dropout (while training, a right one draws)",
            )
        ],
        blind=[
            (lambda X: X.shape[1] == 1, "Your sentences have a single token: it has no future.")
        ],
        notice="Change the last tokens: do the rows before them stay the same, in both modes?",
    ),
)  # fmt: skip
