"""12.12: the mean of a batch that comes in parts."""

import torch
import torch.nn.functional as F

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._exhibit import exhibit, fails


def mean_loss(parts):
    total, words = 0.0, 0
    for logits, targets in parts:  # (B, n, V) and (B, n), -100 is padding
        total += F.cross_entropy(logits.mT, targets, ignore_index=-100, reduction="sum")
        words += (targets != -100).sum()
    return total / words


def all_at_once(parts):
    logits = torch.cat([logits.flatten(0, 1) for logits, _ in parts])
    return F.cross_entropy(logits, torch.cat([targets.flatten() for _, targets in parts]))


def test_loss_in_parts(mean_loss):
    """Pass where the loss is the mean over all words, and fail by an `AssertionError` otherwise.

    `mean_loss(parts)` takes a list of pairs, logits (B, n, V) and right tokens (B, n), in which
    -100 is padding; each pair has a word at least. It returns a number: the mean of the
    cross-entropies of all words of all parts.
    """
    ...


def test_loss_in_parts_solution(mean_loss):
    logits, targets = torch.randn(2, 5, 11), torch.randint(11, (2, 5))
    targets[1, 2:] = -100  # five words and two words
    whole = mean_loss([(logits, targets)])
    in_parts = mean_loss([(logits[:1], targets[:1]), (logits[1:], targets[1:])])
    torch.testing.assert_close(in_parts, whole)
    words = torch.cat((logits[0], logits[1, :2]))
    torch.testing.assert_close(whole, F.cross_entropy(words, targets[targets != -100]))


def noise(parts):
    return torch.rand(())


def words_in(parts):
    return [int((targets != -100).sum()) for _, targets in parts]


def is_full(parts):
    return all((targets != -100).all() for _, targets in parts)


loss_in_parts = exhibit(
    **heading("12.12", "The same batch in small parts", "medium", minutes=8),
    section="Six more exhibits",
    right=mean_loss,
    bug={'reduction="sum"': 'reduction="mean"', "words += (targets != -100).sum()": "words += 1"},
    what="takes the mean of each part, and then the mean of the means",
    also_right=[all_at_once],
    blind=[
        (
            lambda parts: len(set(words_in(parts))) == 1,
            "Your parts all have the same number of words, or there is only one part: then the "
            "mean of the means is the mean.",
        )
    ],
    more=[
        Suspect(
            {"(targets != -100).sum()": "targets.numel()"},
            "leaves the padding out of the sum and counts it below",
            [
                (is_full, "There is no padding in your batches."),
                (lambda: True, "Compare with a number that you work out from the words, or with "
                 "the same sentence without its padding."),
            ],
        ),
    ],
    stub=test_loss_in_parts,
    solution=test_loss_in_parts_solution,
    explanation="(x1 / n1 + x2 / n2) / 2 is (x1 + x2) / (n1 + n2) only where n1 = n2, or where "
    "both means are equal. With the mean of means a word of a short part counts more than a word "
    "of a long one, in the loss and in the gradients. A batch cut into parts must have the loss of "
    "the whole: two ways to one number. A padding that is counted in both does not show so; "
    "compare with the words, too.",
    hints=[
        "Cut one batch into two parts. What must its loss do?",
        "Let the parts have different numbers of words.",
        "A divisor that counts padding is the same in both ways. Compare once with the mean that "
        "you work out from the words.",
    ],
    test_options=dict(
        nothing=fails,
        little=noise,
        little_why="It even passes where the loss is drawn at random. Is there an `assert` that "
        "compares it with another number?",
        notice="Compare a batch in two parts, of unequal numbers of words, with the whole.",
    ),
)  # fmt: skip
