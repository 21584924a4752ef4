"""4.5: a loss that leaves the padding out, above the fraction and below it."""

import math
from typing import Any

import torch
from torch import Tensor

from d2l_attention import length_mask
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_04.helpers import not_these
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like


def mean_loss(losses, valid_lens): ...


def mean_loss_solution(losses, valid_lens):
    is_word = torch.arange(losses.shape[1]) < valid_lens[:, None]
    # Replaced, not multiplied: 0 times NaN is NaN.
    return losses.masked_fill(~is_word, 0.0).sum() / is_word.sum().clamp(min=1)


BY_HAND = (torch.tensor([[1.0, 10.0, 10.0], [3.0, 8.0, 10.0]]), torch.tensor([1, 2]))
WITH_NAN = (torch.tensor([[5.0, math.nan]]), torch.tensor([1]))
NO_WORD = (torch.tensor([[5.0, 5.0]]), torch.tensor([0]))
NO_WORD_BUT_NAN = (torch.tensor([[math.nan, math.nan]]), torch.tensor([0]))
EDGES = [WITH_NAN, NO_WORD, NO_WORD_BUT_NAN]


def random_case(seed: int, valid_lens: list[int], steps: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    losses = torch.rand(len(valid_lens), steps, generator=generator)
    lens = torch.tensor(valid_lens)
    return losses.masked_fill(torch.arange(steps) >= lens[:, None], math.nan), lens


RANDOM = [random_case(0, [5, 0, 3], 5), random_case(1, [2, 7], 7)]

MISTAKES = {
    7.0: "that is the mean over all places, padding included.",
    2.0: (
        "you set the padding to 0 and took the mean, so it still counts below the fraction. "
        "There are 3 words, not 6."
    ),
    3.25: (
        "that is the mean of the sentences' means. The word of the short sentence weighs as much "
        "as two words of the other. Every word should weigh the same."
    ),
    12.0: "that is the sum over the words. Divide by their number.",
    6.0: "you divided the sum over the words by the number of sentences.",
    10.0: "that is the mean over the padding. Your mask is turned over.",
    6.4: (
        "one place too many counts in each sentence. A sentence of length n has its words at "
        "positions 0 to n - 1."
    ),
    32 / 3: (
        "one place too many counts in each sentence. A sentence of length n has its words at "
        "positions 0 to n - 1."
    ),
    3.0: "one word of each sentence is missing. Length n means n words, positions 0 to n - 1.",
    26 / 3: (
        "`length_mask` of lengths (B,) has shape (B, 1, Q). Beside losses (B, Q) it broadcasts to "
        "(B, B, Q), without a word. Take the extra axis away."
    ),
    26 / 6: (
        "`length_mask` of lengths (B,) has shape (B, 1, Q). Beside losses (B, Q) it broadcasts to "
        "(B, B, Q), without a word. Take the extra axis away."
    ),
}


ERRORS = {
    "must match the size": (
        "Positions (Q,) and lengths (B,) do not line up. Which of them has to become a column?"
    ),
    "too many indices": "`length_mask` of lengths (B,) has shape (B, 1, Q), an axis too many here.",
    "only integer tensors": (
        "A slice takes one number, and every sentence has its own length. Think of a mask."
    ),
}


def one_tensor(result: Any, *_: Tensor) -> str | None:
    if isinstance(result, int | float):
        return (
            f"Your function returns the Python number {show(result)} (`.item()`? `float`? a bare "
            "0?). It has no gradient, so nothing could learn from it. Return a tensor."
        )
    if isinstance(result, Tensor) and result.ndim:
        return (
            f"Your result has shape {tuple(result.shape)}. One number for the whole batch is "
            "asked for, shape ()."
        )
    return None


def padding_is_nan(result: Tensor, *_: Tensor) -> str | None:
    if not result.isnan():
        return None
    return (
        "The padding's loss is NaN, and so is your result: 0 times NaN is NaN. Multiplying does "
        "not remove it. Replace it, or pick the words."
    )


def no_word_is_zero(result: Tensor, *_: Tensor) -> str | None:
    if result.isnan():
        return "A batch without a word gives NaN: you divide 0 by 0. It should give 0."
    if result == 0:
        return None
    return f"A batch without a word gives {show(result)}. There is nothing to learn: give 0."


def gradients(attempt: Attempt) -> str | None:
    """Of the words 1 divided by their number, of the padding exactly 0."""
    for losses, valid_lens in [BY_HAND, *EDGES, *RANDOM]:
        leaf = losses.clone().requires_grad_()
        result = attempt(leaf, valid_lens)
        if found := gradient_differs(result, leaf, valid_lens):
            return f"{found} Smallest case that shows it: {attempt.case((losses, valid_lens))}."
    return None


def gradient_differs(result: Tensor, leaf: Tensor, valid_lens: Tensor) -> str | None:
    if not result.requires_grad:
        return (
            "No gradient reaches the losses: `result.backward()` would stop with an error. Your "
            "result is a new number that does not depend on them (`torch.tensor(...)`, "
            "`.detach()`, `.item()`)."
        )
    (got,) = torch.autograd.grad(result, leaf, allow_unused=True)
    got = torch.zeros_like(leaf) if got is None else got
    (right,) = torch.autograd.grad(mean_loss_solution(leaf, valid_lens), leaf)
    if torch.allclose(got, right):
        return None
    return (
        f"The gradient of the losses is {show(got)}. It should be 0 in the padding, and 1 divided "
        "by the number of words elsewhere."
    )


def is_word(losses, valid_lens):
    return torch.arange(losses.shape[1]) < valid_lens[:, None]


def mean_of_everything(losses, valid_lens):
    return losses.mean()


def zero_then_mean(losses, valid_lens):
    return (losses * is_word(losses, valid_lens)).mean()


def multiplied(losses, valid_lens):
    return (losses * is_word(losses, valid_lens)).sum() / valid_lens.sum()


def mean_of_means(losses, valid_lens):
    sums = losses.masked_fill(~is_word(losses, valid_lens), 0.0).sum(dim=1)
    return (sums / valid_lens.clamp(min=1)).mean()


def picked(losses, valid_lens):
    return losses[is_word(losses, valid_lens)].mean()


def one_too_many(losses, valid_lens):
    return losses[torch.arange(losses.shape[1]) <= valid_lens[:, None]].mean()


def package_mask_broadcast(losses, valid_lens):
    mask = length_mask(valid_lens, losses.shape[1])
    return (losses * mask).sum() / mask.sum().clamp(min=1)


def package_mask_as_index(losses, valid_lens):
    return losses[length_mask(valid_lens, losses.shape[1])].mean()


def lengths_not_in_columns(losses, valid_lens):
    return losses[torch.arange(losses.shape[1]) < valid_lens].mean()


def sliced(losses, valid_lens):
    return losses[:, :valid_lens].mean()


def sum_only(losses, valid_lens):
    return losses[is_word(losses, valid_lens)].sum()


def per_sentence(losses, valid_lens):
    kept = losses.masked_fill(~is_word(losses, valid_lens), 0.0)
    return kept.sum(dim=1) / valid_lens.clamp(min=1)


def python_number(losses, valid_lens):
    return mean_loss_solution(losses, valid_lens).item()


def zero_without_gradient(losses, valid_lens):
    if valid_lens.sum() == 0:
        return torch.tensor(0.0)
    return picked(losses, valid_lens)


def python_zero(losses, valid_lens):
    return 0 if valid_lens.sum() == 0 else picked(losses, valid_lens)


def tensor_of_a_number(losses, valid_lens):
    return torch.tensor(mean_loss_solution(losses, valid_lens).item())


def padding_overwritten(losses, valid_lens):
    losses[~is_word(losses, valid_lens)] = 0
    return losses.sum() / valid_lens.sum().clamp(min=1)


def nan_ignored(losses, valid_lens):
    return losses.nanmean()


write_mean_loss = Exercise(
    id="4.5",
    title="The mean over the words",
    task=(
        "Complete `mean_loss(losses, valid_lens)`: from the losses (B, Q) of all places, padding "
        "included, and lengths (B,) to the mean over all the batch's words, a tensor of shape (). "
        "NaN in the padding changes neither the number nor its gradient. A batch without a word "
        "gives 0, with a gradient of 0."
    ),
    difficulty="medium",
    minutes=8,
    hints=[
        "By hand: losses [[1, 10], [3, 5]] with lengths [1, 2]. Which numbers count, and how many "
        "are they?",
        "Two things must leave the padding out: the sum, and the number that you divide by.",
        "`masked_fill` replaces what `*` would only multiply, and `clamp(min=1)` keeps a number "
        "of words away from 0.",
    ],
    stub=mean_loss,
    solution=mean_loss_solution,
    explanation=(
        "The padding is replaced by 0 before the sum, so NaN cannot come through, and it passes "
        "no gradient back. Below the fraction stand the words alone. Without words that is 0/1."
    ),
    steps=[
        explains(ERRORS, [BY_HAND]),
        holds(one_tensor, [BY_HAND]),
        like(mean_loss_solution, [BY_HAND]),
        not_these(MISTAKES, BY_HAND),
        holds(padding_is_nan, [WITH_NAN]),
        holds(one_tensor, EDGES),
        holds(no_word_is_zero, [NO_WORD, NO_WORD_BUT_NAN]),
        agrees(mean_loss_solution, [BY_HAND, *EDGES, *RANDOM]),
        gradients,
    ],
    wrong=[
        Wrong(mean_of_everything, "the mean over all places"),
        Wrong(zero_then_mean, "it still counts below the fraction"),
        Wrong(multiplied, "Multiplying does not remove it"),
        Wrong(mean_of_means, "the mean of the sentences' means"),
        Wrong(picked, "you divide 0 by 0"),
        Wrong(one_too_many, "one place too many"),
        Wrong(package_mask_broadcast, "it broadcasts to (B, B, Q)"),
        Wrong(package_mask_as_index, "an axis too many here"),
        Wrong(lengths_not_in_columns, "do not line up"),
        Wrong(sliced, "A slice takes one number"),
        Wrong(sum_only, "Divide by their number"),
        Wrong(per_sentence, "One number for the whole batch"),
        Wrong(python_number, "It has no gradient"),
        Wrong(python_zero, "It has no gradient"),
        Wrong(tensor_of_a_number, "No gradient reaches the losses"),
        Wrong(zero_without_gradient, "No gradient reaches the losses"),
        Wrong(padding_overwritten, "changes its input: `losses`"),
        Wrong(nan_ignored, "the mean over all places"),
    ],
)
