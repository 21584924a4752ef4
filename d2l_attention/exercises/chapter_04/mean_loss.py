"""4.5: a loss that leaves the padding out, above the fraction and below it."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, gradients_flow, instead_of, normal


def mean_loss(losses, valid_lens):
    """The mean loss of a batch's words: losses (B, Q), lengths (B,) -> a tensor of shape ().

    Losses [[1, 10], [3, 5]] with lengths [1, 2] give 3: the mean of 1, 3 and 5.
    """
    ...


def mean_loss_solution(losses, valid_lens):
    is_word = torch.arange(losses.shape[1]) < valid_lens[:, None]
    # Replaced, not multiplied: 0 times NaN is NaN.
    return losses.masked_fill(~is_word, 0.0).sum() / is_word.sum().clamp(min=1)


def random_case(seed, valid_lens, steps):
    """Losses with NaN in the padding."""
    lens = torch.tensor(valid_lens)
    losses = normal(seed, (len(valid_lens), steps))[0].abs()
    return losses.masked_fill(torch.arange(steps) >= lens[:, None], torch.nan), lens


def one_sentence(*losses, length):
    return torch.tensor([losses]), torch.tensor([length])


def shapes(result, *_):
    if isinstance(result, int | float):
        return "You return a Python number. It has no gradient: return a tensor, also for 0."
    return {None: "One number for the whole batch is asked for."}


KEPT, COUNT = "losses.masked_fill(~is_word, 0.0)", "is_word.sum().clamp(min=1)"
SUM = f"{KEPT}.sum()"
NAN_OF_A_WORD = "A word's loss is NaN here, and has to show: only the padding's NaN may go."

write_mean_loss = Exercise(
    **authoring.heading("4.5", "The mean over the words", "medium", minutes=8),
    section="The mean of the losses without padding",
    stub=mean_loss,
    solution=mean_loss_solution,
    explanation="The padding is replaced by 0 before the sum, so NaN cannot come through, and it "
    "gets no gradient. Below the fraction only the words are counted. Without words that is 0/1. "
    "The NaN of a word stays: somebody has to see it.",
    hints=[
        "By hand: losses [[1, 10], [3, 5]] with lengths [1, 2]. Which numbers count, and how many "
        "are they?",
        "Two things must leave the padding out: the sum, and the number that you divide by.",
        "`masked_fill` replaces what `*` would only multiply, and `clamp(min=1)` keeps a number "
        "of words away from 0.",
    ],
    cases=[
        Case((torch.tensor([[1.0, 10, 10], [3, 8, 10]]), torch.tensor([1, 2]))),
        Case(one_sentence(5.0, torch.nan, length=1)),
        Case(one_sentence(5.0, 5.0, length=0)),
        Case(one_sentence(torch.nan, torch.nan, length=0)),
        Case(one_sentence(torch.nan, 1.0, length=2), NAN_OF_A_WORD),
        Case(random_case(0, [5, 0, 3], 5)),
        Case(random_case(1, [2, 7], 7)),
        Case(random_case(2, [1, 3, 2], 3)),
    ],
    mistakes=[
        *instead_of(
            f"{SUM} / {COUNT}",
            {
                "losses.mean()": "That is the mean over all places, padding included.",
                f"({KEPT}.sum(dim=1) / valid_lens.clamp(min=1)).mean()": "That is the mean of the "
                "sentences' means. Every word should weigh the same.",
                SUM: "That is the sum over the words. Divide by their number.",
                f"{SUM} / losses.numel()": "You set the padding to 0 and took the mean, so it "
                "still counts below the fraction. There are 3 words, not 6.",
                f"{SUM} / len(losses)": "You divided the words' sum by the number of sentences.",
                f"{SUM} / is_word.sum()": "Without a word you divide 0 by 0. Give 0.",
                f"(losses * is_word).sum() / {COUNT}": "The padding's loss is NaN, and 0 times NaN "
                "is NaN. Multiplying does not remove it. Replace it, or pick the words.",
            },
        ),
        *instead_of(
            "< valid_lens[:, None]",
            {
                ">= valid_lens[:, None]": "That is the mean over the padding.",
                "<= valid_lens[:, None]": "There is one place too many in each sentence.",
                "< valid_lens[:, None] - 1": "One word of each sentence is missing.",
                "< valid_lens[:, None, None]": "`length_mask` of lengths (B,) has shape (B, 1, Q). "
                "Beside losses (B, Q) it broadcasts to (B, B, Q), without an error.",
            },
        ),
    ],
    shapes=shapes,
    errors={
        "must match the size": "Positions (Q,) and lengths (B,) do not line up: make one a column.",
        "too many indices": "The shape of `length_mask` is (B, 1, Q): an axis too many here.",
        "only integer tensors": "A slice takes one number: each sentence has its own. Take a mask.",
    },
    steps=[gradients_flow("losses", why="`result.backward()` would stop with an error.")],
)
