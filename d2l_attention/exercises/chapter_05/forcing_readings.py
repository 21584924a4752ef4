"""Wrong answers to 5.4 in which the decoder reads something else than it should."""

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.exercises.chapter_05.forcing_mistakes import masked_mean, shifted


def the_answers(targets, bos) -> Tensor:
    return targets


def without_bos(targets, bos) -> Tensor:
    return targets[:, :-1]


def ahead(targets, bos) -> Tensor:
    return torch.cat((targets[:, 1:], torch.full_like(targets[:, :1], bos)), dim=1)


def bos_only(targets, bos) -> Tensor:
    return torch.full_like(targets, bos)


def one_word_more(targets, bos) -> Tensor:
    return torch.cat((torch.full_like(targets[:, :1], bos), targets), dim=1)


def rolled(targets, bos) -> Tensor:
    return targets.roll(1, dims=1)


def bos_over_the_first(targets, bos) -> Tensor:
    return torch.cat((torch.full_like(targets[:, :1], bos), targets[:, 1:]), dim=1)


READINGS = {
    the_answers: (
        "That is what it is to say. It reads word t and is asked for word t: it learns to copy. "
        "Let it read the word before, and `bos` first of all."
    ),
    without_bos: (
        "Without `bos` no step asks for the first word of a sentence, so the decoder never learns "
        "to begin."
    ),
    ahead: (
        "At step t it reads the word after the one that it is to say. In use no such word exists "
        "yet: shift the other way, `bos` first."
    ),
    bos_only: (
        "That is nothing but `bos`. With teacher forcing it reads, at each step, the right word "
        "before it."
    ),
    one_word_more: (
        "That is one word too many: behind the last word of `targets` nothing is to be said."
    ),
    rolled: "The last word has come to the front, where `bos` belongs.",
    bos_over_the_first: (
        "`bos` stands in the place of the first word, and the others have not moved: the decoder "
        "still reads what it is to say."
    ),
}


def reads_the_answers(decoder, targets, lens, bos):
    return masked_mean(decoder(targets), targets, lens)


def reads_without_bos(decoder, targets, lens, bos):
    return masked_mean(decoder(targets[:, :-1]), targets[:, 1:], lens - 1)


def reads_ahead(decoder, targets, lens, bos):
    return masked_mean(decoder(ahead(targets, bos)), targets, lens)


def reads_bos_only(decoder, targets, lens, bos):
    return masked_mean(decoder(bos_only(targets, bos)), targets, lens)


def reads_one_word_too_many(decoder, targets, lens, bos):
    return masked_mean(decoder(one_word_more(targets, bos))[:, 1:], targets, lens)


def reads_its_own_words(decoder, targets, lens, bos):
    tokens = torch.full_like(targets[:, :1], bos)
    for _ in range(targets.shape[1]):
        logits = decoder(tokens)
        tokens = torch.cat((tokens, logits[:, -1:].argmax(dim=-1)), dim=1)
    return masked_mean(logits, targets, lens)


def one_word_a_call(decoder, targets, lens, bos):
    columns = shifted(targets, bos).split(1, dim=1)
    return masked_mean(torch.cat([decoder(column) for column in columns], dim=1), targets, lens)


def never_asks(decoder, targets, lens, bos):
    logits = F.one_hot(shifted(targets, bos), 8).float()
    return masked_mean(logits, targets, lens)


def rolls(decoder, targets, lens, bos):
    return masked_mean(decoder(rolled(targets, bos)), targets, lens)


def writes_bos_over_the_first(decoder, targets, lens, bos):
    return masked_mean(decoder(bos_over_the_first(targets, bos)), targets, lens)


def bos_is_1(decoder, targets, lens, bos):
    return masked_mean(decoder(shifted(targets, 1)), targets, lens)


def one_logit_too_many(decoder, targets, lens, bos):
    real = torch.arange(targets.shape[1]) < lens[:, None]
    return F.cross_entropy(decoder(one_word_more(targets, bos))[real], targets[real])
