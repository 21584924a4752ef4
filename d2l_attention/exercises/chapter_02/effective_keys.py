"""Exercise 2.4: predict how many keys a query listens to, then measure."""

import torch
from torch import Tensor

from d2l_attention import boxcar, gaussian
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_02.helpers import part
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import as_numbers, close, number

DISTANCES = torch.arange(101, dtype=torch.float64) / 10 - 5
WIDTHS = (0.25, 0.5)


def effective_number(similarity: Tensor) -> float:
    weights = similarity / similarity.sum()
    return 1 / weights.square().sum().item()


def at_both_widths(measure) -> tuple[float, float]:
    return tuple(measure(width) for width in WIDTHS)


RIGHT = at_both_widths(lambda w: effective_number(gaussian(DISTANCES / w)))
WIDTH_NOT_SQUARED = at_both_widths(lambda w: effective_number(gaussian(DISTANCES / w**0.5)))
SUM_OF_SIMILARITIES = at_both_widths(lambda w: gaussian(DISTANCES / w).sum().item())
MULTIPLIED = at_both_widths(lambda w: effective_number(gaussian(DISTANCES * w)))
WIDTH_IGNORED = at_both_widths(lambda w: effective_number(gaussian(DISTANCES)))
UPSIDE_DOWN = at_both_widths(lambda w: 1 / effective_number(gaussian(DISTANCES / w)))
NOT_DIVIDED = at_both_widths(lambda w: 1 / gaussian(DISTANCES / w).square().sum().item())
SUM_OF_SQUARES = at_both_widths(lambda w: gaussian(DISTANCES / w).square().sum().item())
SOFTMAX_TWICE = at_both_widths(lambda w: effective_number(gaussian(DISTANCES / w).softmax(dim=-1)))
STEPS_OF_1 = at_both_widths(lambda w: effective_number(gaussian(DISTANCES[::10] / w)))
ONE_KEY_SHORT = at_both_widths(
    lambda w: effective_number(gaussian((torch.linspace(0, 10, 100).double() - 5) / w))
)
TRIANGLE = at_both_widths(lambda w: effective_number((1 - DISTANCES.abs() / w).clamp(min=0)))
BOXCAR = at_both_widths(lambda w: effective_number(boxcar(DISTANCES / w)))
ALL_QUERIES = (8.64, 16.84)  # the mean over a query at every key
PERPLEXITY = (10.332, 20.664)  # the exponential of the weights' entropy

MISTAKES = {
    RIGHT[::-1]: "you have them the wrong way round: width 0.25 first, then width 0.5.",
    WIDTH_NOT_SQUARED: (
        "in your scores the squared distance is divided by the width. That makes the width a "
        "temperature, which it is only when squared: divide the distance before you square it."
    ),
    SUM_OF_SIMILARITIES: (
        "either you summed the similarities, or the 2 below the fraction of the Gaussian, "
        "exp(-x²/2), is missing. Both give these numbers."
    ),
    MULTIPLIED: "you multiplied the distance by the width: narrow became wide.",
    WIDTH_IGNORED: "the width takes no part in your similarities, and it has to.",
    UPSIDE_DOWN: (
        "you gave the sum of the squared weights. A number of keys is 1 or more: turn the "
        "fraction over."
    ),
    NOT_DIVIDED: (
        "you squared the similarities. Divide them by their sum first; only then are they weights."
    ),
    SUM_OF_SQUARES: (
        "you summed the squared similarities. Divide them by their sum first; then square, sum, "
        "and take 1 over the result."
    ),
    (1, 1): "you squared the sum of the weights, which is always 1. Square each weight, then sum.",
    (101, 101): "that is the number of all keys. Do all have the same weight here?",
    SOFTMAX_TWICE: (
        "you took the softmax of the similarities, which are exponentials already. Softmax "
        "belongs on the scores, or divide the similarities by their sum."
    ),
    STEPS_OF_1: "your keys are 0, 1, 2, ..., 10. The task has ten times as many.",
    ONE_KEY_SHORT: (
        "you have 100 keys, so their steps are a little longer than 0.1. How many keys are there "
        "from 0 to 10, both ends counted?"
    ),
    TRIANGLE: "that is the triangle kernel; the task wants the Gaussian.",
    BOXCAR: "that is the boxcar; the task wants the Gaussian.",
    ALL_QUERIES: (
        "you averaged over many queries, and those near the ends have fewer keys in reach. The "
        "task has one query, at 5."
    ),
    PERPLEXITY: (
        "that is the exponential of the weights' entropy, another good measure of how many keys "
        "take part. The chapter's is 1 / Σ w²."
    ),
}


def three_numbers(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is not None and got.ndim == 1 and len(got) == 3:
        behind = close(got[:2], torch.tensor(RIGHT).double(), 0.06)
        return "The factor comes first, then the two numbers." if behind else None
    return (
        "Give one list of three plain numbers: the factor that you predict (1.4, 2 or 4), the "
        "effective number of keys at width 0.25, and that at width 0.5. Your answer is "
        f"{show(attempt.answer)}."
    )


def prediction_against_measurement(attempt: Attempt) -> str | None:
    factor, narrow, wide = as_numbers(attempt.answer).tolist()
    if abs(factor - wide / narrow) < 0.1:
        return None
    found = (
        f"Your measurement is right, and it contradicts your prediction: {wide:.1f} is not "
        f"{factor:g} times {narrow:.1f}."
    )
    if factor == 4:
        found += (
            " The temperature, width², grows 4 times, and you may have thought of that. But how "
            "much longer does the stretch of keys in reach become?"
        )
    elif factor == 1.4:
        found += (
            " No root is at work: the keys stand on a line, evenly. How much longer does the "
            "stretch of keys in reach become?"
        )
    return f"{found} A wrong prediction is worth more than a right one: put in what you see now."


count_effective_keys = Exercise(
    id="2.4",
    title="Twice the width, how many more keys?",
    task=(
        "Keys at 0, 0.1, 0.2, ..., 10; one query at 5; Gaussian kernel. By what factor does the "
        "effective number of keys grow when the width doubles from 0.25 to 0.5: about 1.4, 2 or "
        "4? Write your prediction down, then measure the number at both widths, to one decimal. "
        "Give a list: factor, number at width 0.25, number at width 0.5."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "`nadaraya_watson` gives the weights; it wants values too, and any will do. Its kernel "
        "is `gaussian` of the difference divided by the width.",
        "From 0 to 10 in steps of 0.1 there are 101 keys. `torch.arange(101) / 10` gives them.",
        "With one row of weights `w`, the number is `1 / w.square().sum()`.",
    ],
    stub=None,
    solution=[2, 8.9, 17.7],
    explanation=(
        "The keys stand evenly on a line, so a kernel that reaches twice as far reaches twice as "
        "many. In general the number is about 2√π · width / spacing: 3.54 · 0.25 / 0.1 = 8.9. "
        "It grows 4 times in the plane, where the keys in reach fill an area."
    ),
    steps=[
        three_numbers,
        part(slice(1, 3), "Measured", number(RIGHT, tolerance=0.06, mistakes=MISTAKES)),
        prediction_against_measurement,
    ],
    wrong=[
        Wrong([4, 8.9, 17.7], "it contradicts your prediction"),
        Wrong([1.4, 8.862, 17.725], "No root is at work"),
        Wrong([2, 17.7, 8.9], "the wrong way round"),
        Wrong([1.4, 17.7, 25.1], "divide the distance before you square it"),
        Wrong([2, 6.3, 12.5], "either you summed the similarities"),
        Wrong([0.5, 0.11, 0.056], "you gave the sum of the squared weights"),
        Wrong([0.5, 0.226, 0.113], "you squared the similarities"),
        Wrong([2, 4.43, 8.86], "you summed the squared similarities"),
        Wrong([1, 1, 1], "Square each weight, then sum"),
        Wrong([8.9, 17.7, 2], "The factor comes first"),
        Wrong([1, 93.2, 89.4], "softmax of the similarities"),
        Wrong([2, 96.4, 69.3], "narrow became wide"),
        Wrong([2, 1.0, 1.6], "your keys are 0, 1, 2"),
        Wrong([2, 8.8, 17.5], "you have 100 keys"),
        Wrong([2, 10.3, 20.7], "the weights' entropy"),
        Wrong([1.9, 8.6, 16.8], "you averaged over many queries"),
        Wrong([8.9, 17.7], "one list of three plain numbers"),
        Wrong([2, 9.5, 18.9], "too large"),
    ],
)
