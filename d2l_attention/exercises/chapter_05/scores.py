"""Functions that the student's test of 5.7 has to accept, and others to reject."""

import math

from d2l_attention.training.metrics import bleu


def rounded(hypotheses, references):
    """Right as well, but for the last digits."""
    return round(bleu(hypotheses, references), 6)


def swapped(hypotheses, references):
    return bleu([given[0] for given in references], [[words] for words in hypotheses])


def mean_of_the_sentences(hypotheses, references):
    pairs = zip(hypotheses, references, strict=True)
    scores = [bleu([words], [given]) for words, given in pairs]
    return sum(scores) / len(scores)


def first_reference_only(hypotheses, references):
    return bleu(hypotheses, [given[:1] for given in references])


def eos_kept(hypotheses, references):
    return bleu(
        [[*words, "<eos>"] for words in hypotheses],
        [[[*words, "<eos>"] for words in given] for given in references],
    )


def characters(hypotheses, references):
    return bleu(
        [list("".join(words)) for words in hypotheses],
        [[list("".join(words)) for words in given] for given in references],
    )


def without_penalty(hypotheses, references):
    length = sum(map(len, hypotheses))
    wanted = sum(
        nearest_length(words, given) for words, given in zip(hypotheses, references, strict=True)
    )
    penalty = math.exp(1 - wanted / length) if 0 < length < wanted else 1.0
    return bleu(hypotheses, references) / penalty


def nearest_length(words, given):
    return min(map(len, given), key=lambda length: (abs(length - len(words)), length))


# What each does, and which inputs hide it.
BROKEN = {
    swapped: (
        "swaps hypotheses and references",
        "With as many words on both sides the swap changes nothing: precision and recall are the "
        "same number then. Make the lengths unequal.",
    ),
    without_penalty: (
        "has no penalty for short translations",
        "Are your hypotheses ever shorter than their references, all sentences together? (Of "
        "several references the one that is nearest in length counts.)",
    ),
    eos_kept: (
        "keeps <eos> as the last word of hypotheses and references",
        "Such a word always matches. Where does one more match change the share?",
    ),
    characters: (
        "counts characters instead of words",
        "It takes words of several letters, some of them wrong.",
    ),
    mean_of_the_sentences: (
        "takes the mean of the sentences' scores",
        "BLEU adds up the matches of all sentences and divides once. It takes two sentences, one "
        "better than the other.",
    ),
    first_reference_only: (
        "looks at the first reference only",
        "Give a sentence two references, the better one second.",
    ),
}
