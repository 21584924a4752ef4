"""8.1: post-norm and pre-norm of one token, worked out on paper."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers, number

TOKEN, OTHER = [-4, -1, 0, 3], [4, 1, 2, 5]


def square(numbers: list[float]) -> list[float]:
    """The sublayer."""
    return [x * x for x in numbers]


def plus(left: list[float], right: list[float]) -> list[float]:
    return [x + y for x, y in zip(left, right, strict=True)]


def centred(numbers: list[float]) -> list[float]:
    mean = sum(numbers) / len(numbers)
    return [x - mean for x in numbers]


def variance(numbers: list[float]) -> float:
    return sum(square(centred(numbers))) / len(numbers)


def norm(numbers: list[float], *, root: float = 0.5, one_less: bool = False) -> list[float]:
    """Layer norm; ``root`` and ``one_less`` are for those who divide by something else."""
    size = variance(numbers) * (4 / 3 if one_less else 1)
    return [x / size**root for x in centred(numbers)]


def squared_and_added(numbers: list[float]) -> list[float]:
    return plus(numbers, square(numbers))


def rows(post: list[float], pre: list[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(post), tuple(pre)


POST, PRE = norm(squared_and_added(TOKEN)), plus(TOKEN, square(norm(TOKEN)))
SUM = squared_and_added(TOKEN)
POST_MISTAKES = [
    (PRE, "that is pre-norm. Post-norm comes after: what is normalised is the sum of both."),
    (SUM, "that is the sum of the token and its squares. Normalise it."),
    (
        norm(square(TOKEN)),
        "the token itself is missing: you normalise the squares alone. The residual connection "
        "adds the token to them first.",
    ),
    (
        plus(TOKEN, norm(square(TOKEN))),
        "you normalise the squares, and then add the token. In post-norm the sum is normalised.",
    ),
    (norm(TOKEN), "that is the normalised token. Where have the squares gone?"),
    (
        norm(squared_and_added(norm(TOKEN))),
        "you normalise twice, before the squares and after the sum. Post-norm does it once.",
    ),
    (
        norm(SUM, one_less=True),
        "you divide the squared distances by 3. Layer norm takes their mean, over all 4.",
    ),
    (
        norm(SUM, root=1),
        "you divide by the variance. Layer norm divides by its root, the standard deviation.",
    ),
    (centred(SUM), "the mean is gone, but the division by the standard deviation is missing."),
    (
        [x / variance(SUM) ** 0.5 for x in SUM],
        "divided by the standard deviation, but without taking off the mean first.",
    ),
    (
        [-1, -1, -1, -1],
        "you compare the two tokens, number by number. Layer norm looks at one token alone, "
        "along its four numbers; the other token is none of its business.",
    ),
]
PRE_MISTAKES = [
    (POST, "that is post-norm. Pre-norm normalises what goes into the squares, and nothing else."),
    (
        squared_and_added(norm(TOKEN)),
        "you add the normalised token. The residual connection carries the token as it came.",
    ),
    (
        square(norm(TOKEN)),
        "the token itself is missing: add it to the squares of the normalised one.",
    ),
    (SUM, "nothing is normalised: the squares should be those of the normalised token."),
    (
        plus(TOKEN, norm(square(TOKEN))),
        "you normalise what comes out of the squares. Pre-norm normalises what goes in.",
    ),
    (
        norm(PRE),
        "you normalise the sum as well. In pre-norm the sum stays as it is, to the end of the "
        "stack.",
    ),
    (norm(TOKEN), "that is the normalised token. It is what the sublayer gets to see; go on."),
    (
        plus(TOKEN, square(norm(TOKEN, one_less=True))),
        "you divide the squared distances by 3. Layer norm takes their mean, over all 4.",
    ),
    (
        plus(TOKEN, square(norm(TOKEN, root=1))),
        "you divide by the variance. Layer norm divides by its root, the standard deviation.",
    ),
    (
        plus(TOKEN, square(centred(TOKEN))),
        "the mean is gone, but the division by the standard deviation is missing.",
    ),
    (
        [-3, 0, 1, 4],
        "you compare the two tokens, number by number. Layer norm looks at one token alone, "
        "along its four numbers.",
    ),
]


def in_two_rows(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is not None and got.numel() == 4:
        return "That is one list of four numbers. Give two: post-norm's, then pre-norm's."
    if got is not None and got.numel() == 16:
        return "That is both tokens. The task asks about the first one."
    return None


def whose_mistake(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 8:
        return None
    post, pre = got.reshape(2, 4).tolist()
    if near(post, PRE) and near(pre, POST):
        return "Both are right, the other way round: give post-norm first."
    for what, mine, right, mistakes in (
        ("Post-norm", post, POST, POST_MISTAKES),
        ("Pre-norm", pre, PRE, PRE_MISTAKES),
    ):
        if near(mine, right):
            continue
        for wrong, why in mistakes:
            if near(mine, wrong):
                return f"{what}: {why}"
    return None


def near(mine: list[float], wanted: list[float]) -> bool:
    return all(abs(x - y) < 0.006 for x, y in zip(mine, wanted, strict=True))


PRE_ROUNDED = [-2.04, -0.96, 0.04, 4.96]

norms_by_hand = Exercise(
    id="8.1",
    title="Where the norm stands",
    task=(
        "Two tokens of four numbers, (-4, -1, 0, 3) and (4, 1, 2, 5), go through a sublayer that "
        "squares each number, f(x) = x², with a residual connection and a layer norm (scale 1, "
        "shift 0). What becomes of the first token in post-norm, and what in pre-norm? Give two "
        "lists of four numbers, post-norm first."
    ),
    difficulty="easy",
    minutes=8,
    hints=[
        "Write both as formulas, with x for the token, f for the sublayer and ln for the norm. "
        "In which of them is the sum the last thing that happens?",
        "Layer norm takes off the mean of the token's own four numbers and divides by their "
        "standard deviation: the root of the mean squared distance. No other token takes part.",
        "The token has mean -0.5 and standard deviation 2.5. For post-norm do not use them: add "
        "the squares first, and take mean and standard deviation of what you get.",
    ],
    stub=None,
    solution=[[1, -1, -1, 1], PRE_ROUNDED],
    explanation=(
        "Post-norm is ln(x + f(x)): the sum (12, 0, 0, 12) has mean 6 and standard deviation 6. "
        "Pre-norm is x + f(ln(x)): ln(x) is (-1.4, -0.2, 0.2, 1.4), its squares are added to the "
        "token as it came. Nothing normalises that sum, so it may grow from block to block, and "
        "a pre-norm stack needs one layer norm at its end."
    ),
    steps=[in_two_rows, whose_mistake, number([POST, PRE], tolerance=0.006)],
    wrong=[
        Wrong([PRE_ROUNDED, [1, -1, -1, 1]], "the other way round"),
        Wrong([PRE_ROUNDED, PRE_ROUNDED], "Post-norm: that is pre-norm"),
        Wrong([[1, -1, -1, 1], [1, -1, -1, 1]], "Pre-norm: that is post-norm"),
        Wrong([[12, 0, 0, 12], PRE_ROUNDED], "Normalise it"),
        Wrong([[1.46, -0.85, -1, 0.38], PRE_ROUNDED], "you normalise the squares alone"),
        Wrong([[-2.54, -1.85, -1, 3.38], PRE_ROUNDED], "and then add the token"),
        Wrong([[-1.4, -0.2, 0.2, 1.4], PRE_ROUNDED], "Where have the squares gone?"),
        Wrong([[0.866, -0.866, -0.866, 0.866], PRE_ROUNDED], "by 3"),
        Wrong([[0.167, -0.167, -0.167, 0.167], PRE_ROUNDED], "by the variance"),
        Wrong([[6, -6, -6, 6], PRE_ROUNDED], "the division by the standard deviation is missing"),
        Wrong([[2, 0, 0, 2], PRE_ROUNDED], "without taking off the mean"),
        Wrong([[-1, -1, -1, -1], [-3, 0, 1, 4]], "you compare the two tokens"),
        Wrong([[1, -1, -1, 1], [-3, 0, 1, 4]], "Pre-norm: you compare the two tokens"),
        Wrong([[1, -1, -1, 1], [0.56, -0.16, 0.24, 3.36]], "you add the normalised token"),
        Wrong([[1, -1, -1, 1], [1.96, 0.04, 0.04, 1.96]], "the token itself is missing"),
        Wrong([[1, -1, -1, 1], [12, 0, 0, 12]], "nothing is normalised"),
        Wrong([[1, -1, -1, 1], [-1.4, -0.2, 0.2, 1.4]], "go on"),
        Wrong([[1, -1, -1, 1], [-0.946, -0.543, -0.171, 1.66]], "the sum as well"),
        Wrong([1, -1, -1, 1], "Give two"),
        Wrong("post, pre", "Give a list of numbers"),
    ],
)
