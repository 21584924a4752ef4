"""5.4: what the decoder reads and what it is to say, and a loss over the real words."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_05 import forcing_mistakes as mistakes
from d2l_attention.exercises.chapter_05 import forcing_readings as readings
from d2l_attention.exercises.chapter_05.toys import BagOfWords
from d2l_attention.exercises.compare import form_differs, value_differs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import none_of
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like
from d2l_attention.models.seq2seq import sequence_loss


def teacher_forcing_loss(decoder, targets, lens, bos): ...


def teacher_forcing_loss_solution(decoder, targets, lens, bos):
    start = torch.full_like(targets[:, :1], bos)
    # Step t reads the word before it and is to say word t.
    logits = decoder(torch.cat((start, targets[:, :-1]), dim=1))
    real = torch.arange(targets.shape[1]) < lens[:, None]
    return torch.nn.functional.cross_entropy(logits[real], targets[real])


def tokens_to_read(targets: Tensor, bos: int) -> Tensor:
    return torch.cat((torch.full_like(targets[:, :1], bos), targets[:, :-1]), dim=1)


def package_loss(decoder, targets: Tensor, lens: Tensor, bos: int) -> Tensor:
    return sequence_loss(decoder(tokens_to_read(targets, bos)), targets, lens)


def a_decoder(seed: int, words: int) -> BagOfWords:
    generator = torch.Generator().manual_seed(seed)
    return BagOfWords(torch.randn(words, words, generator=generator))


# (decoder, targets, lens, bos), with <eos> = 2 and padding 0 at first.
ONE = (a_decoder(0, 8), torch.tensor([[5, 7, 2]]), torch.tensor([3]), 1)
PADDED = (a_decoder(1, 8), torch.tensor([[5, 7, 6, 2], [3, 2, 0, 0]]), torch.tensor([4, 2]), 1)
# <eos> = 4, which fills the padding as well, and 0 is a word.
PADDED_WITH_EOS = (
    a_decoder(2, 7),
    torch.tensor([[4, 4, 4], [6, 0, 4], [5, 4, 4]]),
    torch.tensor([1, 3, 2]),
    3,
)
LONGER_THAN_ANY = (
    a_decoder(3, 5),
    torch.tensor([[4, 2, 1, 1, 1], [3, 4, 2, 1, 1]]),
    torch.tensor([2, 3]),
    0,
)
# As many sentences as words as numbers: axes can be mixed up.
SQUARE = (
    a_decoder(4, 4),
    torch.tensor([[3, 2, 0, 0], [3, 1, 3, 2], [2, 1, 1, 1], [0, 3, 2, 3]]),
    torch.tensor([2, 4, 1, 3]),
    1,
)
CASES = [ONE, PADDED, PADDED_WITH_EOS, LONGER_THAN_ANY, SQUARE]


def what_it_read(attempt: Attempt) -> str | None:
    """Where the loss is wrong: is it because of what the decoder was given to read?"""
    for decoder, targets, lens, bos in (ONE, PADDED, PADDED_WITH_EOS):
        watched = BagOfWords(decoder.table)
        try:
            result = attempt(watched, targets, lens, bos)
        except Raised:
            if not watched.read:
                return None  # the next step tells
            result = None  # maybe because of what was read
        right = package_loss(decoder, targets, lens, bos)
        if not (form_differs(result, right) or value_differs(result, right, 1e-5)):
            continue
        if found := wrong_reading(watched.read, targets, bos):
            case = attempt.case((watched, targets, lens, bos))
            return f"{found} Smallest case that shows it: {case}."
    return None


def wrong_reading(read: list[Tensor], targets: Tensor, bos: int) -> str | None:
    if not read:
        return "Your function never calls `decoder`. Its logits are what the loss is made of."
    if len(read) > 1:
        return read_in_parts(read, tokens_to_read(targets, bos))
    tokens, right = read[0], tokens_to_read(targets, bos)
    if torch.equal(tokens, right):
        return None
    for mistake, why in readings.READINGS.items():
        if torch.equal(tokens, mistake(targets, bos)):
            return f"Your decoder reads {show(tokens)}. {why}"
    if tokens.shape == right.shape and torch.equal(tokens[:, 1:], right[:, 1:]):
        return f"Your decoder reads {show(tokens)}. What it reads first is `bos`, {bos}."
    return None


def read_in_parts(read: list[Tensor], right: Tensor) -> str | None:
    if len(read) == right.shape[1] and all(part.shape[1:] == (1,) for part in read):
        return (
            "You call `decoder` once a word, with that word alone, so it forgets what came before. "
            "It takes all (B, T) words at once."
        )
    if read[-1].shape == right.shape and not torch.equal(read[-1], right):
        return (
            f"In the end your decoder has read {show(read[-1])}: words that it said itself. "
            f"Teacher forcing gives it the right ones, {show(right)}, whatever it says."
        )
    return None


def one_number(result: Any, *_: Any) -> str | None:
    if isinstance(result, float):
        return (
            f"Your function returns the Python number {show(result)}. It has no gradient, so "
            "nothing could learn from it. Return a tensor."
        )
    if isinstance(result, Tensor) and result.ndim:
        return (
            f"Your result has shape {tuple(result.shape)}. One number for the whole batch is asked "
            "for, shape ()."
        )
    if isinstance(result, Tensor) and result < 0:
        return f"Your loss is {show(result)}. A cross-entropy is never negative: a sign is missing."
    return None


ERRORS = {
    "Expected target size": (
        "`cross_entropy` wants the N scores of (B, T, N) logits on axis 1. Flatten both, pick the "
        "real words, or transpose."
    ),
    "batch_size": (
        "`cross_entropy` wants the N scores on axis 1, and as many rows as labels. Flatten both, "
        "or pick the same places of both."
    ),
    "must match the size": (
        "Two of your tensors do not line up. Positions (T,) and lengths (B,): one of them has to "
        "become a column. Logits for T + 1 words and T labels: one word is too many."
    ),
    "mask": "The mask has to have the shape of what it picks from, (B, T).",
}


def gradients(attempt: Attempt) -> str | None:
    decoder, *rest = PADDED
    leaf = decoder.table.clone().requires_grad_()
    result = attempt(BagOfWords(leaf), *rest)
    if result.requires_grad:
        return None
    return (
        "The number is right, but no gradient reaches the decoder, so it could not learn. "
        "`.item()`, `.detach()`, `torch.tensor(...)` and `no_grad` cut it off."
    )


write_teacher_forcing = Exercise(
    id="5.4",
    title="Teacher forcing and its loss",
    task=(
        "Complete `teacher_forcing_loss(decoder, targets, lens, bos)`. `targets` (B, T) holds the "
        "numbers of the words that the decoder is to say, each sentence with its <eos> and then "
        "padding, which may be any word's number; `lens` (B,) counts words and <eos>: a batch's "
        "`tgt_out` and `tgt_lens`. `decoder(tokens)` takes what it reads, (B, T), and returns "
        "logits (B, T, N). Return the mean cross-entropy over the real words, <eos> included: a "
        "tensor of shape ()."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "Write two rows below each other for the sentence 5 7 <eos>: what the decoder reads at "
        "each step, and what it is to say. What does it read first?",
        "Both rows are T long. One of them is `targets`; the other is `bos` and all but the last "
        "column of `targets`.",
        "`logits[real]` and `targets[real]`, with a boolean (B, T), hold the real words of all "
        "sentences, one row a word. `cross_entropy` averages over rows.",
    ],
    stub=teacher_forcing_loss,
    solution=teacher_forcing_loss_solution,
    explanation=(
        "The decoder reads `bos` and the right words, shifted by one, so that word t is never "
        "read before it is asked for; the right ones, even where it would have said others. That "
        "is teacher forcing. Picking the real places leaves the padding out above the fraction "
        "and below it, whatever number fills it, and every word weighs the same."
    ),
    steps=[
        what_it_read,
        explains(ERRORS, [ONE, PADDED]),
        holds(one_number, [ONE, PADDED]),
        like(package_loss, [ONE, PADDED]),
        none_of(mistakes.SEEN_WITH_ONE, ONE),
        none_of(mistakes.SEEN_WITH_PADDING, PADDED),
        agrees(package_loss, [ONE, PADDED]),
        none_of(mistakes.SEEN_WITH_OTHER_PADDING, PADDED_WITH_EOS),
        agrees(package_loss, CASES),
        gradients,
    ],
    wrong=[
        Wrong(readings.reads_the_answers, "it learns to copy"),
        Wrong(mistakes.padding_in_the_loss, "The padding is in your loss"),
        Wrong(mistakes.padding_below_only, "it still counts below the fraction"),
        Wrong(mistakes.mean_of_sentences, "the mean of the sentences' means"),
        Wrong(mistakes.sum_over_sentences, "You divide by the number of sentences"),
        Wrong(mistakes.sum_only, "Divide by their number"),
        Wrong(readings.reads_without_bos, "no step asks for the first word"),
        Wrong(readings.reads_ahead, "the word after"),
        Wrong(readings.reads_bos_only, "nothing but `bos`"),
        Wrong(readings.reads_one_word_too_many, "one word too many"),
        Wrong(readings.reads_its_own_words, "words that it said itself"),
        Wrong(readings.one_word_a_call, "it forgets what came before"),
        Wrong(readings.rolls, "has come to the front"),
        Wrong(readings.writes_bos_over_the_first, "the others have not moved"),
        Wrong(readings.bos_is_1, "first is `bos`, 3"),
        Wrong(readings.one_logit_too_many, "one word too many"),
        Wrong(readings.never_asks, "never calls `decoder`"),
        Wrong(mistakes.labels_shifted_as_well, "shifted once more"),
        Wrong(mistakes.labels_are_what_was_read, "the words that it has just read"),
        Wrong(mistakes.without_eos, "<eos> is missing"),
        Wrong(mistakes.one_too_many, "one place too many"),
        Wrong(mistakes.viewed, "`view` and `reshape`"),
        Wrong(mistakes.softmax_twice, "takes logits"),
        Wrong(mistakes.softmax_over_time, "over the T steps"),
        Wrong(mistakes.probabilities, "the logarithm is missing"),
        Wrong(mistakes.sign_forgotten, "never negative"),
        Wrong(mistakes.mask_turned_over, "Your mask is turned over"),
        Wrong(mistakes.zero_is_padding, "where the lengths say it ends"),
        Wrong(mistakes.up_to_the_first_2, "where the lengths say it ends"),
        Wrong(mistakes.not_transposed, "on axis 1"),
        Wrong(mistakes.lens_not_in_a_column, "has to become a column"),
        Wrong(mistakes.one_loss_a_word, "One number for the whole batch"),
        Wrong(mistakes.python_number, "It has no gradient"),
        Wrong(mistakes.without_gradient, "no gradient reaches the decoder"),
        Wrong(mistakes.written_into_the_targets, "changes its input: `targets`"),
    ],
)
