"""1.4: the temperature at which the best key gets a given share."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.compare import form_differs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because
from d2l_attention.exercises.steps import holds, like


def temperature_for(scores, share): ...


def temperature_for_solution(scores, share):
    def share_of_the_best(temperature):
        return (scores / temperature).softmax(dim=0).max().item()

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


# At temperature 2 the exponentials of these scores are 1 and 3.
BEST_LAST = (torch.tensor([0.0, 2 * math.log(3)]), 0.75)
BEST_FIRST = (torch.tensor([2 * math.log(3), 0.0]), 0.75)
MORE_KEYS = (torch.tensor([1.0, 0.5, 3.0, -1.0]), 0.6)
SHIFTED = [(MORE_KEYS[0] + 1000, 0.6), (MORE_KEYS[0] - 1000, 0.6)]
LARGE_AND_SMALL = [(MORE_KEYS[0] * 1000, 0.6), (MORE_KEYS[0] / 1000, 0.6)]
HOT_AND_COLD = [(MORE_KEYS[0], 0.26), (MORE_KEYS[0], 0.999)]
BY_HAND = [BEST_LAST, BEST_FIRST, MORE_KEYS]
CLOSE = 1e-3


def share_at(temperature: float, scores: Tensor) -> float:
    return (scores.double() / temperature).softmax(dim=0).max().item()


def is_met(temperature: float, scores: Tensor, share: float) -> bool:
    return temperature > 0 and abs(share_at(temperature, scores) - share) < CLOSE


def not_a_temperature(got: float | Tensor, *_: object) -> str | None:
    if 0 < float(got) < math.inf:
        return None
    return f"Your temperature is {float(got):.4g}. It has to be a positive, finite number."


def share_itself(got: float | Tensor, scores: Tensor, share: float) -> str | None:
    if math.isclose(got, share, rel_tol=1e-5):
        return "You return the share. The temperature is what you divide the scores by."
    if math.isclose(got, share_at(1.0, scores), rel_tol=1e-5):
        return (
            "You return the best key's share at temperature 1. Wanted is the temperature at "
            f"which it becomes {share:g}."
        )
    return None


def weights_divided(got: float | Tensor, scores: Tensor, share: float) -> str | None:
    if not math.isclose(got, share_at(1.0, scores) / share, rel_tol=1e-3):
        return None
    return (
        f"{float(got):.4g} is the number by which to divide the *weight* of the best key: the "
        "weights would not sum to 1 any more. Divide the scores, before the softmax."
    )


def best_key_elsewhere(attempt: Attempt) -> str | None:
    last, first = (is_met(float(attempt(*case)), *case) for case in (BEST_LAST, BEST_FIRST))
    if last == first:
        return None
    where, case = ("last", BEST_FIRST) if last else ("first", BEST_LAST)
    return (
        f"Your function is right where the best key comes {where}, and only there. Follow the "
        "largest weight, wherever it stands (order does not matter to attention). Smallest case "
        f"that shows it: {attempt.case(case)}."
    )


def inverse(got: float | Tensor, scores: Tensor, share: float) -> str | None:
    if is_met(float(got), scores, share) or not is_met(1 / float(got), scores, share):
        return None
    return (
        f"You return {float(got):.4g}, the number to *multiply* these scores by: chapter 0's "
        "sharpness. A temperature divides them."
    )


def logarithm(got: float | Tensor, scores: Tensor, share: float) -> str | None:
    if not any(is_met(base ** float(got), scores, share) for base in (math.e, 10)):
        return None
    return (
        f"You return {float(got):.4g}, the logarithm of the temperature. A search over logarithms "
        "is a good idea; raise the base to this power at the end."
    )


def end_of_the_range(got: float | Tensor, scores: Tensor, share: float) -> str | None:
    """For the first case: a range from 0.5 to 5 is passed by any sensible search."""
    reached = share_at(float(got), scores)
    if 0.62 < reached < 0.89:
        return None
    return (
        f"At your temperature, {float(got):.4g}, the best key gets {reached:.3f} and not "
        f"{share:g}: as if the search had run to an end of its range. Do you divide by the "
        "temperature? And if the best key has too much, must it rise or fall?"
    )


def two_best_keys(got: float | Tensor, scores: Tensor, share: float) -> str | None:
    best, second = scores.topk(2).values.tolist()
    if is_met(float(got), torch.tensor([best, second]), share):
        reached = share_at(float(got), scores)
        return (
            f"Your temperature is that for the best two keys alone. The other keys take their "
            f"part, too: the best one gets {reached:.3f} and not {share:g}."
        )
    return None


def share_is_missed(got: float | Tensor, scores: Tensor, share: float) -> str | None:
    if is_met(float(got), scores, share):
        return None
    reached = share_at(float(got), scores)
    found = (
        f"At your temperature, {float(got):.4g}, the best key gets {reached:.4f} of the weight; "
        f"it should get {share:g}."
    )
    if abs(reached - share) < 0.03:
        return f"{found} Close: the search stops too early, or its steps are too coarse."
    return found


def right_share(got: object, *case: object) -> str | None:
    return form_differs(got, 1.0) or not_a_temperature(got) or share_is_missed(got, *case)


def several_numbers(got: object, scores: Tensor, _share: float) -> str | None:
    many = got.numel() > 1 if isinstance(got, Tensor) else isinstance(got, list | tuple)
    if many:
        return f"You return {len(got)} numbers. Wanted is one, the temperature for all scores."
    return None


def bisection(share_of: Callable, low=1e-3, high=100.0, halvings=60, turned=False) -> Callable:
    """What a student writes, with one thing or another that may go wrong."""

    def temperature_for(scores, share):
        cold, hot = low, high
        for _ in range(halvings):
            middle = (cold + hot) / 2
            if (share_of(scores, middle) > share) != turned:
                cold = middle
            else:
                hot = middle
        return middle

    return temperature_for


def share_of_the_best(scores, temperature):
    return (scores / temperature).softmax(dim=0).max()


def naive_share(scores, temperature):
    positive = (scores / temperature).exp()
    return positive.max() / positive.sum()


def inverse_temperature(scores, share):
    return 1 / temperature_for_solution(scores, share)


def weights_divided_instead(scores, share):
    return scores.softmax(dim=0).max() / share


def logarithm_returned(scores, share):
    return math.log(temperature_for_solution(scores, share))


def formula_for_two_keys(scores, share):
    best, second = scores.topk(2).values
    return (best - second) / math.log(share / (1 - share))


def formula_with_the_sign_turned(scores, share):
    return -formula_for_two_keys(scores, share)


def coarse_grid(scores, share):
    grid = torch.linspace(0.1, 10, 100)
    shares = (scores / grid[:, None]).softmax(dim=1).max(dim=1).values
    return grid[(shares - share).abs().argmin()]


def best_share_at_one(scores, share):
    return scores.softmax(dim=0).max()


def weights_returned(scores, share):
    return (scores / temperature_for_solution(scores, share)).softmax(dim=0)


def divided_in_place(scores, share):
    temperature = temperature_for_solution(scores, share)
    scores /= temperature
    return temperature


find_the_temperature = Exercise(
    id="1.4",
    title="Find the temperature",
    task=(
        "Complete `temperature_for(scores, share)`: the positive number by which to divide "
        "`scores` so that, after the softmax, the best key has the weight `share`, to within "
        "0.001. `scores` is a tensor (K,) with one best score, of any size; `share` is a number "
        "between 1/K and 1. Bisection is fine."
    ),
    difficulty="medium",
    minutes=8,
    hints=[
        "First write the best key's share at a given temperature. Try it at 0.1, 1 and 10: does "
        "it rise or fall?",
        "Bisection: keep a temperature that is too cold and one that is too hot; try the middle; "
        "replace one of the two. 60 halvings are plenty, and they always end.",
        "Scores of 1000 need a temperature near 1000. Double the hot end until it is too hot.",
    ],
    stub=temperature_for,
    solution=temperature_for_solution,
    explanation=(
        "The best key's share falls steadily as the temperature rises, from 1 (lookup) to 1/K "
        "(average), so there is exactly one answer and halving finds it. Scores ten times as "
        "large need a temperature ten times as large; adding a number to all of them changes "
        "nothing."
    ),
    seconds=5,
    steps=[
        holds(several_numbers, [BEST_LAST]),
        like(temperature_for_solution, BY_HAND),
        holds(share_itself, [BEST_LAST]),
        holds(not_a_temperature, [BEST_LAST]),
        holds(weights_divided, [BEST_LAST]),
        best_key_elsewhere,
        holds(inverse, [BEST_LAST]),
        holds(logarithm, [BEST_LAST]),
        holds(end_of_the_range, [BEST_LAST]),
        holds(two_best_keys, [MORE_KEYS]),
        holds(right_share, BY_HAND),
        because(
            "Adding or taking off 1000 from all scores changes no weight, so it may not change "
            "the temperature. Is there an `exp` in your code that overflows, or gives 0 for all?",
            holds(right_share, SHIFTED),
        ),
        because(
            "For scores near 1 your function is right. The temperature grows and shrinks with the "
            "scores; does your range of temperatures, or the step, do so as well?",
            holds(right_share, LARGE_AND_SMALL),
        ),
        because(
            "For shares in the middle your function is right. Shares near 1/K need a very high "
            "temperature, shares near 1 a very low one: how far does your search go?",
            holds(right_share, HOT_AND_COLD),
        ),
    ],
    wrong=[
        Wrong(bisection(share_of_the_best, turned=True), "must it rise or fall?"),
        Wrong(inverse_temperature, "the number to *multiply* these scores by"),
        Wrong(bisection(lambda s, t: (s / t).softmax(0)[0]), "where the best key comes first"),
        Wrong(bisection(lambda s, t: (s / t).softmax(0)[-1]), "where the best key comes last"),
        Wrong(bisection(lambda s, t: (s * t).softmax(0).max()), "Do you divide"),
        Wrong(weights_divided_instead, "Divide the scores, before the softmax"),
        Wrong(bisection(share_of_the_best, high=1.0), "an end of its range"),
        Wrong(logarithm_returned, "the logarithm of the temperature"),
        Wrong(formula_for_two_keys, "the best two keys alone"),
        Wrong(formula_with_the_sign_turned, "a positive, finite number"),
        Wrong(coarse_grid, "its steps are too coarse"),
        Wrong(bisection(share_of_the_best, halvings=8), "stops too early"),
        Wrong(bisection(share_of_the_best), "does your range of temperatures"),
        Wrong(bisection(naive_share), "an `exp` in your code that overflows"),
        Wrong(best_share_at_one, "the best key's share at temperature 1"),
        Wrong(weights_returned, "Wanted is one"),
        Wrong(divided_in_place, "changes its input: `scores`"),
    ],
)
