"""The game of chapter 6: each letter of a word names two others.

They are the letter before it, and the one opposite, as in a mirror. Which letters are right is
known, and so is where a model has to look.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LENGTH, LETTERS = 7, 26
BEFORE = torch.tensor([0, 0, 1, 2, 3, 4, 5])  # position i looks at position BEFORE[i] ...
OPPOSITE = torch.tensor([6, 5, 4, 3, 2, 1, 0])  # ... and at position OPPOSITE[i]

Draw = Callable[[int], tuple[Tensor, Tensor]]


def words(B: int) -> tuple[Tensor, Tensor]:
    """Random letters (B, 7), and the two letters to name at each position, (B, 7, 2)."""
    letters = torch.randint(LETTERS, (B, LENGTH))
    return letters, torch.stack([letters[:, BEFORE], letters[:, OPPOSITE]], dim=-1)


class Speller(nn.Module):
    """Self-attention with a linear readout: letters (B, n) -> scores (B, n, 2, 26), n up to 7.

    ``layer(32, num_heads, dropout=0.0)`` makes the attention. A token says which letter it is and
    at which position.
    """

    def __init__(self, layer: Callable[..., nn.Module], num_heads: int):
        super().__init__()
        self.attention = layer(32, num_heads, dropout=0.0)
        self.readout = nn.Linear(32, 2 * LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        n = letters.shape[1]
        positions = torch.eye(n, LENGTH).expand(len(letters), n, LENGTH)
        X = torch.cat([F.one_hot(letters, LETTERS).float(), positions], dim=-1)  # (B, n, 33)
        return self.readout(self.attention(X, X, X)).unflatten(-1, (2, LETTERS))


def train(make_model: Callable[[], nn.Module], draw: Draw, steps: int, seed: int = 0) -> nn.Module:
    """A model that was trained on new examples in each step.

    ``draw(B)`` gives inputs (B, ...) and targets (B, *), class numbers; the model gives scores
    (B, *, classes).
    """
    torch.manual_seed(seed)
    model = make_model()
    model(draw(1)[0])  # the first call fixes the sizes of the parameters
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        inputs, targets = draw(64)
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def accuracy(model: nn.Module, draw: Draw) -> Tensor:
    """Right answers on 2,000 new examples: targets (B, n, jobs) give a share for each job."""
    torch.manual_seed(99)
    inputs, targets = draw(2000)
    return (model(inputs).argmax(dim=-1) == targets).float().mean(dim=(0, 1))
