"""The game of chapter 6."""

import torch
from torch import nn

from d2l_attention import MultiHeadAttention
from d2l_attention.experiments.spelling import Speller, accuracy, train, words


def test_the_letters_to_name_by_hand():
    torch.manual_seed(0)
    letters, named = words(3)
    assert letters.shape == (3, 7) and named.shape == (3, 7, 2)
    for word, pairs in zip(letters.tolist(), named.tolist(), strict=True):
        assert [pair[0] for pair in pairs] == [word[0], *word[:-1]]
        assert [pair[1] for pair in pairs] == word[::-1]


class Knows(nn.Module):
    """Names the letter before, always, and never the one opposite."""

    def forward(self, letters):
        before = torch.cat([letters[:, :1], letters[:, :-1]], dim=1)
        other = (letters.flip(1) + 1) % 26
        return nn.functional.one_hot(torch.stack([before, other], dim=-1), 26).float()


def test_accuracy_is_told_for_each_job():
    assert accuracy(Knows(), words).tolist() == [1.0, 0.0]


def test_training_lowers_the_loss_and_repeats_itself():
    def draw(B):
        inputs = torch.randint(2, (B, 3))
        return inputs, inputs[..., None]

    def model():
        return nn.Sequential(nn.Embedding(2, 4), nn.Linear(4, 2), nn.Unflatten(-1, (1, 2)))

    first, second = (train(model, draw, steps=60, seed=1) for _ in range(2))
    assert accuracy(first, draw) == 1
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_speller_knows_letters_and_positions():
    torch.manual_seed(0)
    speller = Speller(MultiHeadAttention, 2)
    letters = torch.tensor([[3, 4, 11, 8, 21, 4, 17]])
    scores = speller(letters)
    assert scores.shape == (1, 7, 2, 26)
    assert not torch.allclose(scores[0, 1], scores[0, 5])  # one letter at two positions
