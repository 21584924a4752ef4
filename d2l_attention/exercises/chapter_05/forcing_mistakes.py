"""Wrong answers to 5.4, as students give them."""

import torch
import torch.nn.functional as F
from torch import Tensor


def shifted(targets, bos) -> Tensor:
    return torch.cat((torch.full_like(targets[:, :1], bos), targets[:, :-1]), dim=1)


def losses_of(logits, labels) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def is_real(targets, lens) -> Tensor:
    return torch.arange(targets.shape[1]) < lens[:, None]


def masked_mean(logits, labels, lens) -> Tensor:
    """The right way on from any logits and labels (B, T)."""
    real = is_real(labels, lens)
    return F.cross_entropy(logits[real], labels[real])


def right_losses(decoder, targets, bos) -> Tensor:
    return losses_of(decoder(shifted(targets, bos)), targets)


# Seen with one sentence without padding ------------------------------------------------------


def labels_shifted_as_well(decoder, targets, lens, bos):
    logits = decoder(shifted(targets, bos))
    return masked_mean(logits[:, :-1], targets[:, 1:], lens - 1)


def labels_are_what_was_read(decoder, targets, lens, bos):
    tokens = shifted(targets, bos)
    return masked_mean(decoder(tokens), tokens, lens)


def without_eos(decoder, targets, lens, bos):
    return masked_mean(decoder(shifted(targets, bos)), targets, lens - 1)


def viewed(decoder, targets, lens, bos):
    logits = decoder(shifted(targets, bos))
    (B, T, N) = logits.shape
    losses = F.cross_entropy(logits.reshape(B, N, T), targets, reduction="none")
    return losses[is_real(targets, lens)].mean()


def softmax_twice(decoder, targets, lens, bos):
    return masked_mean(decoder(shifted(targets, bos)).softmax(dim=-1), targets, lens)


def softmax_over_time(decoder, targets, lens, bos):
    log_probs = decoder(shifted(targets, bos)).log_softmax(dim=1)
    losses = -log_probs.gather(2, targets[..., None])[..., 0]
    return losses[is_real(targets, lens)].mean()


def probabilities(decoder, targets, lens, bos):
    probs = decoder(shifted(targets, bos)).softmax(dim=-1)
    losses = 1 - probs.gather(2, targets[..., None])[..., 0]
    return losses[is_real(targets, lens)].mean()


SEEN_WITH_ONE = {
    labels_shifted_as_well: (
        "What is to be said is shifted once more: step 0 reads `bos` and is asked for word 1. "
        "What is read is shifted; what is said is `targets` as it stands."
    ),
    labels_are_what_was_read: (
        "You ask the decoder for the words that it has just read. What it is to say is `targets`."
    ),
    without_eos: (
        "<eos> is missing in your loss, so the decoder never learns to end. `lens` counts it "
        "already."
    ),
    viewed: (
        "The numbers of your logits are mixed up: `view` and `reshape` cut (B, T, N) anew, they "
        "do not swap axes. `transpose(1, 2)` does."
    ),
    softmax_twice: (
        "`cross_entropy` takes logits and does the softmax itself; you gave it probabilities."
    ),
    softmax_over_time: (
        "Your softmax runs over the T steps. At each step the N words of the vocabulary compete: "
        "the last axis."
    ),
    probabilities: (
        "You take 1 minus the probability of the right word: the logarithm is missing."
    ),
}

# Seen with padding ---------------------------------------------------------------------------


def padding_in_the_loss(decoder, targets, lens, bos):
    return right_losses(decoder, targets, bos).mean()


def padding_below_only(decoder, targets, lens, bos):
    return (right_losses(decoder, targets, bos) * is_real(targets, lens)).mean()


def mean_of_sentences(decoder, targets, lens, bos):
    losses = right_losses(decoder, targets, bos) * is_real(targets, lens)
    return (losses.sum(dim=1) / lens).mean()


def sum_only(decoder, targets, lens, bos):
    return right_losses(decoder, targets, bos)[is_real(targets, lens)].sum()


def sum_over_sentences(decoder, targets, lens, bos):
    return right_losses(decoder, targets, bos)[is_real(targets, lens)].sum() / len(lens)


def one_too_many(decoder, targets, lens, bos):
    return masked_mean(decoder(shifted(targets, bos)), targets, lens + 1)


def mask_turned_over(decoder, targets, lens, bos):
    return right_losses(decoder, targets, bos)[~is_real(targets, lens)].mean()


SEEN_WITH_PADDING = {
    padding_in_the_loss: (
        "The padding is in your loss: 8 places count, and 6 of them are words. The decoder would "
        "learn to say padding."
    ),
    padding_below_only: (
        "The padding's losses are 0, but it still counts below the fraction: there are 6 words, "
        "not 8."
    ),
    mean_of_sentences: (
        "That is the mean of the sentences' means: a word of the short sentence weighs twice as "
        "much as one of the long. Every word should weigh the same."
    ),
    sum_only: "That is the sum over the words. Divide by their number.",
    sum_over_sentences: "You divide by the number of sentences. Divide by that of the words.",
    one_too_many: (
        "In the short sentence one place too many counts: length 2 means places 0 and 1."
    ),
    mask_turned_over: "Your mask is turned over: that is the mean over the padding.",
}

# Seen where the padding is filled with another number ----------------------------------------


def zero_is_padding(decoder, targets, lens, bos):
    logits = decoder(shifted(targets, bos))
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=0)


def up_to_the_first_2(decoder, targets, lens, bos):
    is_eos = (targets == 2).int()
    real = is_eos.cumsum(dim=1) == is_eos
    return F.cross_entropy(decoder(shifted(targets, bos))[real], targets[real])


SEEN_WITH_OTHER_PADDING = dict.fromkeys(
    (zero_is_padding, up_to_the_first_2),
    "You know the padding by its numbers, and here they are others: 0 is a word, <eos> is 4 and "
    "fills the padding, too. A sentence ends where the lengths say it ends.",
)

# Seen by their form --------------------------------------------------------------------------


def not_transposed(decoder, targets, lens, bos):
    return F.cross_entropy(decoder(shifted(targets, bos)), targets)


def lens_not_in_a_column(decoder, targets, lens, bos):
    real = torch.arange(targets.shape[1]) < lens
    return (right_losses(decoder, targets, bos) * real).sum() / lens.sum()


def sign_forgotten(decoder, targets, lens, bos):
    return -masked_mean(decoder(shifted(targets, bos)), targets, lens)


def one_loss_a_word(decoder, targets, lens, bos):
    return right_losses(decoder, targets, bos)


def python_number(decoder, targets, lens, bos):
    return masked_mean(decoder(shifted(targets, bos)), targets, lens).item()


def without_gradient(decoder, targets, lens, bos):
    return masked_mean(decoder(shifted(targets, bos)), targets, lens).detach()


def written_into_the_targets(decoder, targets, lens, bos):
    logits = decoder(shifted(targets, bos))
    targets[~is_real(targets, lens)] = -100
    return F.cross_entropy(logits.transpose(1, 2), targets)
