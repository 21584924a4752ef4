"""5.4: what the decoder reads and what it is to say, and a loss over the real words."""

import torch
import torch.nn.functional as F

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, alike, instead_of, normal


def teacher_forcing_loss(decoder, targets, lens, bos):
    """Mean cross-entropy over the real words, a tensor of shape ().

    `targets` (B, T) is what the decoder is to say, `lens` (B,) counts each sentence's words;
    `decoder(tokens)` reads (B, T) tokens and gives logits (B, T, N).

    A decoder whose logits are all 0, over N = 8 words, has the loss ln 8 = 2.079.
    """
    ...


def teacher_forcing_loss_solution(decoder, targets, lens, bos):
    start = torch.full_like(targets[:, :1], bos)
    # Step t reads the word before it and is to say word t.
    logits = decoder(torch.cat((start, targets[:, :-1]), dim=1))
    real = torch.arange(targets.shape[1]) < lens[:, None]
    return F.cross_entropy(logits[real], targets[real])


class BagOfWords:
    """A decoder: what it says next depends on all the words that it has read."""

    __name__ = "decoder"

    def __init__(self, table):
        self.table = table  # (N, N): what each word that was read says about the next

    def __call__(self, tokens):
        return self.table[tokens].cumsum(dim=1)


def batch(seed, words, targets, lens, bos):
    decoder = BagOfWords(*normal(seed, (words, words)))
    return decoder, torch.tensor(targets), torch.tensor(lens), bos


def says_itself(decoder, tokens, T):
    for _ in range(T):
        logits = decoder(tokens)
        tokens = torch.cat((tokens, logits[:, -1:].argmax(dim=-1)), dim=1)
    return logits


# <eos> = 2 and padding 0 at first.
ONE = batch(0, 8, [[5, 7, 2]], [3], 1)
PADDED = batch(1, 8, [[5, 7, 6, 2], [3, 2, 0, 0]], [4, 2], 1)
# <eos> = 4, which fills the padding as well, and 0 is a word.
EOS_AS_PADDING = batch(2, 7, [[4, 4, 4], [6, 0, 4], [5, 4, 4]], [1, 3, 2], 3)
LONGER_THAN_ANY = batch(3, 5, [[4, 2, 1, 1, 1], [3, 4, 2, 1, 1]], [2, 3], 0)
# As many sentences as words as numbers: axes can be mixed up.
SQUARE = batch(4, 4, [[3, 2, 0, 0], [3, 1, 3, 2], [2, 1, 1, 1], [0, 3, 2, 3]], [2, 4, 1, 3], 1)


def gradient(attempt):
    decoder, *rest = PADDED
    table = decoder.table.clone().requires_grad_()
    right, got = (
        loss(BagOfWords(table), *rest) for loss in (teacher_forcing_loss_solution, attempt)
    )
    if got.requires_grad:
        wanted, found = (torch.autograd.grad(loss, table)[0] for loss in (right, got))
        if alike(found, wanted, 1e-3):
            return None
    return (
        "The number is right, but no gradient reaches the decoder, or not all of it, so it could "
        "not learn. `.item()`, `.detach()`, `torch.tensor(...)` and `no_grad` cut it off."
    )


READ = "torch.cat((start, targets[:, :-1]), dim=1)"
REAL = "torch.arange(targets.shape[1]) < lens[:, None]"
SPOKEN, LOSS = "logits[real], targets[real]", "F.cross_entropy(logits[real], targets[real])"
LOSSES = 'F.cross_entropy(logits.mT, targets, reduction="none")'
TOO_MANY = (
    "Your decoder reads one word too many: behind the last word of `targets` nothing is to be said."
)
BY_NUMBER = (
    "You know the padding by its numbers, and here they are others: 0 is a word, <eos> is 4 and "
    "fills the padding, too. A sentence ends where the lengths say it ends."
)

write_teacher_forcing = Exercise(
    **authoring.heading("5.4", "Teacher forcing and its loss", "medium", minutes=10),
    section="A translator with one vector",
    stub=teacher_forcing_loss,
    solution=teacher_forcing_loss_solution,
    explanation="The decoder reads `bos` and the right words, shifted by one, so that word t is "
    "never read before it is asked for; the right ones, even where it would have said others. "
    "That is teacher forcing. Picking the real places leaves the padding out above the "
    "fraction and below it, whatever number fills it, and every word weighs the same.",
    hints=[
        "Write two rows below each other for the sentence 5 7 <eos>: what the decoder reads at "
        "each step, and what it is to say. What does it read first?",
        "Both rows are T long. One of them is `targets`; the other is `bos` and all but the last "
        "column of `targets`.",
        "`logits[real]` and `targets[real]`, with a boolean (B, T), hold the real words of all "
        "sentences, one row a word. `cross_entropy` averages over rows.",
    ],
    cases=[Case(ONE), Case(PADDED), Case(EOS_AS_PADDING), Case(LONGER_THAN_ANY), Case(SQUARE)],
    mistakes=[
        *instead_of(
            READ,
            {
                "targets": "Your decoder reads what it is to say. It reads word t and is asked for "
                "word t: it learns to copy. Let it read the word before, and `bos` first of all.",
                "torch.cat((targets[:, 1:], start), dim=1)": "At step t it reads the word after "
                "the one that it is to say. In use no such word exists yet: shift the other way, "
                "`bos` first.",
                "torch.cat((start, targets), dim=1)": TOO_MANY,
            },
        ),
        *instead_of(
            f"decoder({READ})",
            {
                "decoder(torch.cat((start, targets), dim=1))[:, 1:]": TOO_MANY,
                "says_itself(decoder, start, targets.shape[1])": "Your decoder reads words that it "
                "said itself. Teacher forcing gives it the right ones, whatever it says.",
            },
        ),
        Mistake(
            {
                READ: "targets[:, :-1]",
                REAL: "torch.arange(targets.shape[1] - 1) < lens[:, None] - 1",
                SPOKEN: "logits[real], targets[:, 1:][real]",
            },
            "Without `bos` no step asks for the first word of a sentence, so the decoder never "
            "learns to begin.",
        ),
        Mistake(
            {
                REAL: "torch.arange(targets.shape[1] - 1) < lens[:, None] - 1",
                SPOKEN: "logits[:, :-1][real], targets[:, 1:][real]",
            },
            "What is to be said is shifted once more: step 0 reads `bos` and is asked for word 1. "
            "What is read is shifted; what is said is `targets` as it stands.",
        ),
        *instead_of(
            SPOKEN,
            {
                "logits[~real], targets[~real]": "Your mask is turned over: it shows padding.",
                "logits[real].softmax(dim=-1), targets[real]": "`cross_entropy` takes logits and "
                "does the softmax itself; you gave it probabilities.",
            },
        ),
        *instead_of(
            LOSS,
            {
                "F.cross_entropy(logits.reshape(len(targets), -1, targets.shape[1]), targets, "
                "reduction='none')[real].mean()": "The numbers of your logits are mixed up: `view` "
                "and `reshape` cut (B, T, N) anew, they do not swap axes. `transpose(1, 2)` does.",
                f"{LOSSES}.mean()": "The padding is in your loss: 8 places count, and 6 of them "
                "are words. The decoder would learn to say padding.",
                f"({LOSSES} * real).mean()": "The padding's losses are 0, but it still counts "
                "below the fraction: there are 6 words, not 8.",
                f"(({LOSSES} * real).sum(dim=1) / lens).mean()": "That is the mean of the "
                "sentences' means: a word of the short sentence weighs twice as much as one of the "
                "long. Every word should weigh the same.",
                f"{LOSSES}[real].sum()": "That is the sum over the words. Divide by their number.",
            },
        ),
        *instead_of(
            REAL,
            {
                REAL.replace("<", "<="): "In the short sentence one place too many counts: length "
                "2 means places 0 and 1.",
                f"{REAL} - 1": "<eos> is missing in your loss, so the decoder never learns to end. "
                "`lens` counts it already.",
                "targets != 0": BY_NUMBER,
            },
        ),
    ],
    shapes={None: "One number for the whole batch is asked for."},
    errors={
        "Expected target size": "`cross_entropy` wants the N scores of (B, T, N) logits on axis 1. "
        "Flatten both, pick the real words, or transpose.",
        "batch_size": "`cross_entropy` wants as many rows of scores as labels.",
        "must match the size": "Two of your tensors do not line up. Of positions (T,) and lengths "
        "(B,) one has to become a column.",
        "mask": "The mask has to have the shape of what it picks from, (B, T).",
    },
    steps=[gradient],
)
