"""12.18: padding in the loss."""

import torch
from torch.nn import functional as F

from d2l_attention.exercises.authoring import Suspect
from d2l_attention.exercises.chapter_12._exhibit import exhibit, fails


def mean_loss(logits, targets, lens):
    losses = F.cross_entropy(logits.mT, targets, reduction="none")  # (B, n)
    is_word = torch.arange(targets.shape[1]) < lens[:, None]
    return losses[is_word].mean()


def by_ignored_index(logits, targets, lens):
    is_padding = torch.arange(targets.shape[1]) >= lens[:, None]
    return F.cross_entropy(logits.flatten(0, 1), targets.masked_fill(is_padding, -100).flatten())


def test_words_only(mean_loss):
    """Pass where the loss is the mean over the words, and fail by an `AssertionError` otherwise.

    `mean_loss(logits, targets, lens)` takes logits (B, n, V), right tokens (B, n) and lengths
    (B,), and returns a number: the mean of the cross-entropies of all tokens that are no padding.
    """
    ...


def test_words_only_solution(mean_loss):
    logits, targets = torch.randn(2, 5, 11), torch.randint(11, (2, 5))
    cut = mean_loss(logits[:, :3], targets[:, :3], torch.tensor([3, 3]))
    padded = mean_loss(logits, targets, torch.tensor([3, 3]))
    torch.testing.assert_close(padded, cut)


def noise(logits, targets, lens):
    return torch.rand(())


FULL = "All your sentences are as long as the batch: there is no padding."
COUNTED = (
    "Do you compare only losses of batches that are padded equally? Then the divisor is the same. "
    "Compare with the sentence cut to its length."
)

padding_in_the_loss = exhibit(
    id="12.18",
    title="A loss that is too good",
    difficulty="medium",
    minutes=8,
    right=mean_loss,
    bug={"losses[is_word].mean()": "losses.mean()"},
    what="averages over the padding, too",
    sources=[
        "https://github.com/IBM/pytorch-seq2seq/issues/125",
        "https://github.com/d2l-ai/d2l-en/pull/2707",
    ],
    also_right=[by_ignored_index],
    blind=[(lambda lens, targets: (lens == targets.shape[1]).all(), FULL)],
    more=[
        Suspect(
            {"losses[is_word].mean()": "(losses * is_word).mean()"},
            "leaves the padding out of the sum and counts it below",
            [
                (lambda lens, targets: (lens == targets.shape[1]).all(), FULL),
                (lambda: True, COUNTED),
            ],
        ),
    ],
    stub=test_words_only,
    solution=test_words_only_solution,
    explanation="Padding is easy to predict, so a loss that counts it falls fast and low; and one "
    "that only divides by it is smaller for a batch with more padding, for the same predictions. "
    "Both look like progress. A padded sentence must have the loss of the sentence without it.",
    hints=[
        "What must stay the same when padding is added to a batch?",
        "Cut the batch to its words, and compare with the padded one. Sum and divisor both show.",
    ],
    test_options=dict(
        nothing=fails,
        little=noise,
        little_why="It even passes where the loss is drawn by lot. Is there an `assert` that "
        "compares it with another number?",
        notice="Compare a padded batch with the same one cut to its words: the loss must be equal.",
    ),
)
