"""6.1 and 6.2: two heads worked out on paper, and a head that lost its question."""

import math

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import as_numbers, number

# 6.1 --------------------------------------------------------------------------------------

COUNTS = {
    1: (
        "That is one number. The heads' outputs are not summed or averaged: they stand end to "
        "end, one number from each head."
    ),
    3: (
        "That is a number for each token. One query is asked about: its output has one number "
        "from each head."
    ),
    4: (
        "That is four numbers for two heads. A head averages its own column of the values only: "
        "the first head the first numbers, the second head the second."
    ),
    6: (
        "That is a number for each head and token: the weights? Each head goes on to average its "
        "own column of the values, and gives one number."
    ),
}


def one_number_a_head(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    return None if got is None else COUNTS.get(got.numel())


def one_head(first: float, second: float, third: float) -> tuple[float, float]:
    """What one row of exponentials gives for both columns of the values."""
    total = first + second + third
    return (8 * first + 4 * second) / total, (9 * second + 6 * third) / total


R2, R4 = 2 ** math.sqrt(1 / 2), 4 ** math.sqrt(1 / 2)  # exponentials of scores over √2
HAND_MISTAKES = {
    one_head(2, 4, 1): (
        "you added up both products, ln 2 and 2 ln 2, to one score a token: that is a single "
        "head of size 2. Each head has scores of its own, from its own column."
    ),
    one_head(R2, R4, 1): (
        "that is what a single head of size 2 gives, scaled by √2. Two heads have two rows of "
        "weights."
    ),
    (one_head(R2, 1, 1)[0], one_head(1, R4, 1)[1]): (
        "you divided the scores by √2, the root of both sizes together. Each head has size 1: "
        "divide by the root of that."
    ),
    (one_head(1, 4, 1)[0], one_head(2, 1, 1)[1]): (
        "each head has averaged the other's values. The first head owns the first numbers of "
        "query, keys and values, the second head the second."
    ),
    (5, 6): (
        "the first head is right. The second has the query 2, not 1: its score for the second "
        "token is 2 times ln 2."
    ),
    (6, 6): (
        "the queries have changed heads. The query is (1, 2): the first head asks with 1, the "
        "second with 2."
    ),
    (7, 5): "both heads are right, the other way round: the first head stands first.",
    (4, 5): "those are plain means. The scores of a head differ, so its weights do.",
    (8, 9): (
        "you took the value of the best key alone. A softmax gives the other two keys something, "
        "too: the exponential of 0 is 1."
    ),
    (20, 42): "those are sums with the exponentials as weights. Divide them by the row's sum.",
    (8 * math.log(2), 18 * math.log(2)): (
        "you used the scores as weights. Take their exponentials, and divide by the sum."
    ),
    (20 / 3, 36 / 5): (
        "it looks as if a token with the score 0 were missing. The exponential of 0 is 1: it takes "
        "its share."
    ),
}

heads_by_hand = Exercise(
    id="6.1",
    title="Two heads by hand",
    task=(
        "Two heads of size 1 ask three tokens. After the projections the query is (1, 2), the "
        "keys are (ln 2, 0), (0, ln 2), (0, 0) and the values (8, 0), (4, 9), (0, 6). The first "
        "head owns the first number of each, the second head the second. Without a computer: what "
        "comes out for this query, the heads end to end, before W_o? Give a list of two numbers, "
        "such as `[1.5, 2]`."
    ),
    difficulty="easy",
    minutes=5,
    hints=[
        "Write down what the first head sees: one query, three keys, three values, each a single "
        "number. Then the same for the second.",
        "A score is a product divided by the root of the head's size, and that is √1. The "
        "exponential of ln 2 is 2, that of 2 ln 2 is 4.",
        "The exponentials are 2, 1, 1 in the first head and 1, 4, 1 in the second. Each head "
        "divides by its own sum and averages its own values.",
    ],
    stub=None,
    solution=[5, 7],
    explanation=(
        "The first head has the weights 1/2, 1/4, 1/4 and gives 4 + 1 + 0 = 5. The second has "
        "1/6, 4/6, 1/6 and gives 0 + 6 + 1 = 7. One looks most at the first token and the other "
        "at the second, at the same time. A single head has one row of weights for both columns."
    ),
    steps=[one_number_a_head, number([5, 7], tolerance=0.006, mistakes=HAND_MISTAKES)],
    wrong=[
        Wrong([4.571, 6], "a single head of size 2. Each head has scores of its own"),
        Wrong([4.478, 5.660], "Two heads have two rows of weights"),
        Wrong([4.697, 6.428], "the root of both sizes together"),
        Wrong([4, 3.75], "averaged the other's values"),
        Wrong([5, 6], "The second has the query 2"),
        Wrong([6, 6], "the queries have changed heads"),
        Wrong([7, 5], "the other way round"),
        Wrong([4, 5], "plain means"),
        Wrong([8, 9], "the best key alone"),
        Wrong([20, 42], "Divide them by the row's sum"),
        Wrong([5.545, 12.477], "you used the scores as weights"),
        Wrong([6.667, 7.2], "a token with the score 0 were missing"),
        Wrong(12, "not summed or averaged"),
        Wrong([5, 7, 0], "a number for each token"),
        Wrong([5, 3.75, 4, 7], "its own column of the values only"),
        Wrong([1 / 2, 1 / 4, 1 / 4, 1 / 6, 4 / 6, 1 / 6], "the weights?"),
        Wrong("5 and 7", "Give a list of numbers"),
    ],
)

# 6.2 --------------------------------------------------------------------------------------

BEFORE_W_O = {
    12: (
        "that is after W_o. Before it the heads stand end to end, and the other two heads never "
        "hear of this one's queries."
    ),
    0: (
        "the queries say where to look. A head that looks elsewhere brings back another average "
        "of values."
    ),
    8: "that is how many stay as they were. The other two heads keep their numbers.",
    1: "one head changes. How many of a token's 12 numbers does a head write?",
    3: "that is the number of heads. How many of a token's 12 numbers does one head write?",
    20: "that is all five tokens together. The task asks about one.",
    36: "there are 12 numbers a token, and each head writes 12 / 3 of them.",
}
AFTER_W_O = {
    4: "that is before W_o. Which inputs does one output of W_o read?",
    0: "what W_o reads has changed. Can what it writes stay the same?",
    8: "which of the 12 outputs of W_o would not read the second head's four numbers?",
    60: "that is all five tokens together. The task asks about one.",
}
WEIGHT = {
    0: (
        "a query of 0 scores every key 0. It does not look away: what is the exponential of 0, and "
        "what does a row of equal scores become?"
    ),
    1: "a row sums to 1, over five keys. This one prefers none of them.",
    1 / 3: "equal weights, but the softmax shares out among the keys, not among the heads.",
    1 / 4: "equal weights, but a token may look at itself as well: how many keys are there?",
    1 / 12: "equal weights, but over the keys, and those are tokens: not numbers of a token.",
    5: "that is the number of keys. A weight is a share.",
    20: "a percentage? Divide it by 100.",
}
QUESTIONS = [
    ("Before W_o", 4, BEFORE_W_O),
    ("After W_o", 12, AFTER_W_O),
    ("The weight", 1 / 5, WEIGHT),
]


def which_is_wrong(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 3:
        return (
            "Give three numbers: how many change before W_o, how many after it, and the weight, "
            f"such as `(1, 1, 0.5)`. Your answer is {show(attempt.answer)}."
        )
    for value, (what, right, reasons) in zip(got.flatten().tolist(), QUESTIONS, strict=True):
        if abs(value - right) <= 0.005:
            continue
        near = (why for wrong, why in reasons.items() if abs(value - wrong) <= 0.01)
        otherwise = "that is not what the layer does. Run it, before and after, and look."
        return f"{what}, {show(value)}: {next(near, otherwise)}"
    return None


head_without_a_question = Exercise(
    id="6.2",
    title="A head without a question",
    task=(
        "`layer = MultiHeadAttention(12, 3, 0.0)` reads five random tokens of 12 numbers: "
        "`layer(X, X, X)`. Then the second head's four rows of `layer.W_q.weight` are set to 0. "
        "How many of one token's 12 numbers change before W_o, and how many after it? And what "
        "weight does each token now give to itself in this head? Predict; then measure. Give "
        "three numbers, such as `(1, 1, 0.5)`."
    ),
    difficulty="easy",
    minutes=8,
    hints=[
        "The rows: `with torch.no_grad(): layer.W_q.weight[4:8] = 0`, after a first call. The "
        "weights of the second head: `layer.attention_weights[0, 1]`.",
        "To see what W_o reads, make it the identity in a second run: "
        "`layer.W_o.weight.copy_(torch.eye(12))`. Count with `(after - before).abs() > 1e-6`.",
        "Where do heads meet, and where not yet? And what does a softmax make of equal scores?",
    ],
    stub=None,
    solution=(4, 12, 0.2),
    explanation=(
        "Until W_o a head reads and writes only what is its own, 12 / 3 = 4 numbers a token. W_o "
        "is where heads meet: each of its outputs reads all of them. And a query of 0 scores every "
        "key 0, so the head averages all five tokens alike. It is not silent: to silence a head, "
        "take its exit, its columns of W_o."
    ),
    steps=[which_is_wrong],
    wrong=[
        Wrong((12, 12, 0.2), "that is after W_o"),
        Wrong((4, 4, 0.2), "Which inputs does one output of W_o read?"),
        Wrong((4, 12, 0), "It does not look away"),
        Wrong((0, 0, 0.2), "brings back another average"),
        Wrong((8, 12, 0.2), "how many stay as they were"),
        Wrong((1, 12, 0.2), "does a head write?"),
        Wrong((3, 12, 0.2), "the number of heads"),
        Wrong((20, 60, 0.2), "all five tokens together"),
        Wrong((4, 60, 0.2), "all five tokens together"),
        Wrong((4, 0, 0.2), "Can what it writes stay the same?"),
        Wrong((4, 12, 1), "prefers none of them"),
        Wrong((4, 12, 0.333), "not among the heads"),
        Wrong((4, 12, 0.25), "may look at itself as well"),
        Wrong((4, 12, 0.083), "not numbers of a token"),
        Wrong((4, 12, 20), "a percentage?"),
        Wrong((4, 12, 0.37), "Run it, before and after"),
        Wrong(4, "Give three numbers"),
        Wrong("all", "Give three numbers"),
    ],
)
