"""1.4: the temperature at which the best key gets a given share."""

import math

import torch

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, alike, as_numbers, heading
from d2l_attention.exercises.engine.compare import is_number


def temperature_for(scores, share):
    """The number by which to divide scores (K,) so that the best key's weight is ``share``.

    Divided by 2, the scores [0, 2 ln 3] have the exponentials 1 and 3, so
    `temperature_for(torch.tensor([0.0, 2.1972]), 0.75)` is 2.
    """
    ...


def temperature_for_solution(scores, share):
    def share_of_the_best(temperature):
        return (scores / temperature).softmax(dim=0).max()

    cold, hot = 0.0, 1.0
    while share_of_the_best(hot) > share:  # the scores may be large: find a range first
        hot *= 2
    for _ in range(60):
        middle = (cold + hot) / 2
        if share_of_the_best(middle) > share:
            cold = middle
        else:
            hot = middle
    return hot


def share_missed_by(function, scores, share):
    """How far the best key's share is from ``share``; NaN for a number that is no temperature."""
    got = function(scores, share)
    temperature = as_numbers(got)
    if not is_number(got) or temperature is None or temperature <= 0:
        return math.nan if is_number(got) else got
    behind = scores.double() - scores.max()  # 0 stays 0, however cold it is
    return (behind / temperature).softmax(dim=0)[scores.argmax()].item() - share


def what_it_reaches(missed_by, scores, share):
    if math.isnan(missed_by):
        return "Your temperature has to be a positive, finite number."
    found = f"At your temperature the best key gets {share + missed_by:.4f}, not {share:g}."
    if abs(missed_by) < 0.03:
        return f"{found} Close: the search stops too early, or its steps are too coarse."
    if len(scores) == 2 and abs(missed_by) > 0.13:
        found += " Did your search stop at an end of its range? Do you divide by the temperature? "
        found += "And if the best key has too much, must it rise or fall?"
    return found


def where_the_best_comes(attempt):
    tries = ((scores, 0.75) for scores in (TWO, TWO.flip(0)))
    first, last = (alike(attempt.play(inputs), 0.0, WITHIN) for inputs in tries)
    where = "first" if first else "last"
    right = f"Your function is right where the best key comes {where}, and only there."
    return None if first == last else f"{right} Follow the largest weight, wherever it is."


WITHIN = 0.01001  # relative to 0.1, the least that counts as large: 0.001
# At temperature 2 the exponentials of these scores are 3 and 1.
TWO = torch.tensor([2 * math.log(3), 0.0])
FOUR = torch.tensor([1.0, 0.5, 3.0, -1.0])
SHIFTED = (
    "Adding 1000 to all scores, or taking it off, changes no weight, so it may not change the "
    "temperature. Is there an `exp` in your code that overflows, or gives 0 for all?"
)
FAR = (
    "Large scores, and shares near 1/K, need a high temperature; small scores, and shares near 1, "
    "a low one: does your range of temperatures, or the step, follow?"
)
RESULTS = {
    "1 / hot": "You return the number to *multiply* these scores by. A temperature divides them.",
    "math.log(hot)": "You return the logarithm of the temperature. A search over logarithms is a "
    "good idea; raise the base to this power at the end.",
    "share": "You return the share. The temperature is what you divide the scores by.",
    "share_of_the_best(1)": "You return the best key's share at temperature 1.",
    "share_of_the_best(1) / share": "You return the number by which to divide the *weight* of the "
    "best key: the weights would not sum to 1 any more. Divide the scores, before the softmax.",
}

find_the_temperature = Exercise(
    **heading("1.4", "Find the temperature", "medium", minutes=8),
    section="Temperature: between a lookup and an average",
    stub=temperature_for,
    solution=temperature_for_solution,
    explanation="The best key's share falls steadily as the temperature rises, from 1 (lookup) to "
    "1/K (average), so there is exactly one answer and halving finds it. Scores ten times as large "
    "need a temperature ten times as large; adding a number to all of them changes nothing.",
    hints=[
        "First write the best key's share at a temperature. Does it rise or fall from 0.1 to 10?",
        "Bisection: keep one temperature that is too cold and one that is too hot; try the middle.",
        "Scores of 1000 need a temperature near 1000. Double the hot end until it is too hot.",
    ],
    run=share_missed_by,
    before=[where_the_best_comes],
    cases=[
        Case((TWO, 0.75)),
        Case((FOUR, 0.6)),
        *(Case((scores, 0.6), SHIFTED) for scores in (FOUR + 1000, FOUR - 1000)),
        *(Case((scores, 0.6), FAR) for scores in (FOUR * 1000, FOUR / 1000)),
        *(Case((FOUR, share), FAR) for share in (0.26, 0.99)),
    ],
    mistakes=[
        *(Mistake({"return hot": f"return {wrong}"}, why) for wrong, why in RESULTS.items()),
        Mistake(
            {"scores / temperature": "scores.topk(2).values / temperature"},
            "Your temperature counts only the best two keys. The others get a share as well.",
        ),
    ],
    rules=[what_it_reaches],
    tolerance=WITHIN,
    seconds=5,
)
