"""2.4: predict over how many keys a query spreads its weight, then measure."""

import torch

from d2l_attention import gaussian
from d2l_attention.exercises.authoring import Attempt, Exercise, as_numbers, heading, number, show

DISTANCES = torch.arange(101, dtype=torch.float64) / 10 - 5


def effective_number(similarity):
    weights = similarity / similarity.sum()
    return 1 / weights.square().sum().item()


def at_both(measure=effective_number, distances=lambda width: DISTANCES / width):
    """What ``measure`` makes of the Gaussian's similarities at the widths 0.25 and 0.5."""
    return tuple(measure(gaussian(distances(width))) for width in (0.25, 0.5))


RIGHT = at_both()
MISTAKES = {
    RIGHT[::-1]: "you have them the wrong way round: width 0.25 first, then width 0.5.",
    at_both(distances=lambda width: DISTANCES / width**0.5): "the width is not squared in your "
    "scores: divide the distance before you square it.",
    at_both(lambda s: s.sum().item()): "either you summed the similarities, or the 2 in the "
    "Gaussian, exp(-x²/2), is missing.",
    at_both(distances=lambda width: DISTANCES * width): "you multiplied the distance by the width: "
    "narrow became wide.",
    at_both(distances=lambda width: DISTANCES): "the width takes no part in your similarities.",
    at_both(lambda s: 1 / effective_number(s)): "you gave the sum of the squared weights. Take 1 "
    "over it: a number of keys is 1 or more.",
    at_both(lambda s: 1 / s.square().sum().item()): "you squared the similarities. Divide them by "
    "their sum first; only then are they weights.",
    at_both(lambda s: s.square().sum().item()): "you summed the squared similarities. Divide by "
    "their sum first; at the end take 1 over it.",
    (1, 1): "you squared the sum of the weights, which is always 1. Square each weight, then sum.",
    (101, 101): "that is the number of all keys. Do all have the same weight here?",
    at_both(lambda s: effective_number(s.softmax(dim=-1))): "you took the softmax of the "
    "similarities, which are exponentials already.",
    at_both(distances=lambda width: DISTANCES[::10] / width): "your keys are 0, 1, 2, ..., 10. "
    "The task has ten times as many.",
    at_both(distances=lambda width: torch.linspace(-5, 5, 100).double() / width): "you have 100 "
    "keys. How many are there from 0 to 10 in steps of 0.1, both ends counted?",
    (8.64, 16.84): "you averaged over many queries; near the ends fewer keys are in reach. Take "
    "one, at 5.",
    (10.332, 20.664): "that is the exponential of the weights' entropy. The chapter's measure is "
    "1 / Σ w².",
}
numbers_are_right = number(RIGHT, tolerance=0.06, mistakes=MISTAKES)


def prediction_and_measurement(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 3:
        return (
            "Give one list of three plain numbers: the factor that you predict (1.4, 2 or 4), the "
            "effective number of keys at width 0.25, and that at width 0.5. Your answer is "
            f"{show(attempt.answer)}."
        )
    factor, narrow, wide = got.flatten().tolist()
    if numbers_are_right(Attempt([factor, narrow])) is None:
        return "The factor comes first, then the two numbers."
    if found := numbers_are_right(Attempt([narrow, wide])):
        return f"Measured: {found}"
    if abs(factor - wide / narrow) < 0.1:
        return None
    reasons = {
        4: " The temperature, width², grows 4 times, and you may have thought of that.",
        1.4: " No root is involved: the keys are evenly spaced on a line.",
    }
    return (
        f"Your measurement is right, and it contradicts your prediction: {wide:.1f} is not "
        f"{factor:g} times {narrow:.1f}.{reasons.get(round(factor, 1), '')} How much longer does "
        "the range of keys in reach become? Put in what you see now."
    )


count_effective_keys = Exercise(
    **heading("2.4", "Twice the width, how many more keys?", "medium", minutes=10),
    section="The effective number of keys",
    hints=[
        "`nadaraya_watson` gives the weights; it also needs values, and any will do. Its kernel "
        "is `gaussian` of the difference divided by the width.",
        "From 0 to 10 in steps of 0.1 there are 101 keys. `torch.arange(101) / 10` gives them.",
        "With one row of weights `w`, the number is `1 / w.square().sum()`.",
    ],
    solution=[2, 8.9, 17.7],
    explanation="The keys are evenly spaced on a line, so a kernel that reaches twice as far "
    "reaches twice as many. In general the number is about 2√π · width / spacing: here 3.54 · "
    "0.25 / 0.1 = 8.9. It grows 4 times in the plane, where the keys in reach fill an area.",
    steps=[prediction_and_measurement],
)
