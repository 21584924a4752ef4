"""4.1 and 4.3: weights worked out on paper, and a share predicted before it is measured."""

import math

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers, number

# 4.1 --------------------------------------------------------------------------------------

HIDDEN = math.exp(5)  # what the hidden key would put into the sum


def one_weight_a_key(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() not in (1, 2):
        return None
    if got.numel() == 1:
        return "That is one number. Give the weights of all three keys as a list."
    return "That is two weights for three keys. The hidden key has a weight, too: list it."


HAND_MISTAKES = {
    (3 / (4 + HIDDEN), 1 / (4 + HIDDEN), HIDDEN / (4 + HIDDEN)): (
        "nothing is hidden here. Of three keys the first two are words, and the third must not "
        "take part."
    ),
    (3 / (4 + HIDDEN), 1 / (4 + HIDDEN), 0.0): (
        "your weights sum to 0.03. The third key gets nothing, but its exponential still stands "
        "in the sum that you divide by."
    ),
    (0.6, 0.2, 0.2): (
        "you gave the hidden key the score 0, and it got a fifth. The exponential of 0 is 1; "
        "hiding needs a score whose exponential is 0."
    ),
    (0.6, 0.2, 0.0): (
        "your weights sum to 0.8. The hidden key's score 0 has put its exponential, 1, into the "
        "sum that you divide by."
    ),
    (1.0, 0.0, 0.0): (
        "the second key gets nothing, though it is a word. A score of 0 does not say 'no': "
        "what is the exponential of 0?"
    ),
    (math.log(3) / (math.log(3) + 5), 0.0, 5 / (math.log(3) + 5)): (
        "you divided the scores themselves, and hid nothing. Take exponentials first, and leave "
        "out what the length hides."
    ),
    (math.log(3), 0.0, 0.0): "those are scores. Take their exponentials, then divide by the sum.",
    (3.0, 1.0, 0.0): "those are the exponentials. Divide each by their sum.",
    (3.0, 1.0, HIDDEN): (
        "those are exponentials, the hidden key's among them. Drop it, and divide by the sum."
    ),
    (0.25, 0.75, 0.0): "the right weights on the wrong keys: the larger score gets more.",
    (math.e / (math.e + 1), 1 / (math.e + 1), 0.0): (
        "you rounded ln 3 to 1. There is no need: what is the exponential of ln 3?"
    ),
    (0.5, 0.5, 0.0): "equal weights belong to equal scores. Those of the two words differ.",
    (1 / 3, 1 / 3, 1 / 3): "equal weights belong to equal scores, and no key is hidden here.",
    (0.0, 1 / (1 + HIDDEN), HIDDEN / (1 + HIDDEN)): (
        "you hid the first key. A length counts from the front: the padding is at the end."
    ),
    (0.0, 0.0, 1.0): "you hid the words and kept the padding. The length counts what is visible.",
}

weights_by_hand = Exercise(
    id="4.1",
    title="Masked weights by hand",
    task=(
        "A query has the scores ln 3, 0 and 5 for its three keys, and the length is 2. Work out "
        "the three weights without a computer and give them as a list, such as `[0.2, 0.3, 0.5]`."
    ),
    difficulty="easy",
    minutes=3,
    hints=[
        "The length says how many keys, from the front, take part at all. Cross out the others.",
        "The exponential of ln 3 is 3. What is the exponential of 0?",
        "Divide each exponential by the sum of those that you have not crossed out.",
    ],
    stub=None,
    solution=[0.75, 0.25, 0.0],
    explanation=(
        "Length 2: the third key is out, however high it scores. The exponentials of the other "
        "two are 3 and 1, their sum is 4. The hidden key is missing above the fraction and below "
        "it, which is what masking before the softmax does."
    ),
    steps=[one_weight_a_key, number([0.75, 0.25, 0.0], tolerance=0.002, mistakes=HAND_MISTAKES)],
    wrong=[
        Wrong([0.0197, 0.0066, 0.9738], "nothing is hidden here"),
        Wrong([0.0197, 0.0066, 0], "still stands in the sum that you divide by"),
        Wrong([0.6, 0.2, 0.2], "you gave the hidden key the score 0"),
        Wrong([0.6, 0.2, 0.0], "your weights sum to 0.8"),
        Wrong([1, 0, 0], "does not say 'no'"),
        Wrong([0.18, 0, 0.82], "you divided the scores themselves"),
        Wrong([math.log(3), 0, 0], "those are scores"),
        Wrong([3, 1, 0], "those are the exponentials"),
        Wrong([0.25, 0.75, 0], "on the wrong keys"),
        Wrong([0.731, 0.269, 0], "you rounded ln 3 to 1"),
        Wrong([0.5, 0.5, 0], "equal weights belong to equal scores"),
        Wrong([0, 0.0067, 0.9933], "you hid the first key"),
        Wrong([0.75, 0.25], "two weights for three keys"),
        Wrong(0.75, "all three keys as a list"),
        Wrong([75, 25, 0], "looks like a percentage"),
        Wrong("3/4, 1/4, 0", "Give a list of numbers"),
        Wrong([0.7, 0.3, 0.0], "Entry [0], 0.7 is too small"),
    ],
)

# 4.3 --------------------------------------------------------------------------------------

SHARE = (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4


def one_number(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 4:
        return None
    return "One number is asked for: the average of the first token's share over the queries."


SHARE_MISTAKES = {
    4 * SHARE: "that is the sum over the four queries. Divide by their number.",
    1.0: "that is the first query, which sees nothing but the first token. Three more ask.",
    0.25: (
        "that is the share without a mask, and that of the last query, which sees all four. "
        "The other queries see fewer keys."
    ),
    1 / 2: (
        "that is the second query alone, or a guess. Now measure: `causal_mask`, "
        "`masked_softmax`, and the mean of a column."
    ),
    1 / 3: "that is the third query alone. Average over all four.",
    0.4: (
        "you divided 1 by the average number of visible keys, 2.5. The average of fractions is "
        "another number: first each query's share, then the average."
    ),
    1 / 16: (
        "that is the last token's share, or the first one's with the mask turned over. Under "
        "a causal mask every query sees the first token."
    ),
    (1 + 1 / 2 + 1 / 3) / 4: (
        "your queries do not see themselves. Query 0 sees key 0: what it has to guess is the next."
    ),
    (1 + 1 / 2 + 1 / 3) / 3: "you averaged three queries: the first three. There are four.",
    (1 / 2 + 1 / 3 + 1 / 4) / 3: "you averaged three queries: the first one counts as well.",
    (1 / 2 + 1 / 3 + 1 / 4) / 4: (
        "the first query gives nothing in your sum. It sees one key, which gets all of its weight."
    ),
    0.625: (
        "you averaged the mask: the share of visible places. Equal scores give 1 divided by the "
        "number of visible keys in a row."
    ),
}

share_of_the_first = Exercise(
    id="4.3",
    title="Who gets the attention",
    task=(
        "Four tokens ask each other, all scores are 0, the mask is causal. How much of a query's "
        "attention goes to the first token, averaged over the four queries? Predict; then "
        "measure with the package. Give one number, to three decimals."
    ),
    difficulty="easy",
    minutes=5,
    hints=[
        "How many keys does query 0 see? And queries 1, 2 and 3?",
        "Equal scores: each visible key of a row gets the same weight, and a row sums to 1.",
        "Make the weights of `torch.zeros(1, 4, 4)` with `mask=causal_mask(4)`. The first token "
        "as a key is column 0.",
    ],
    stub=None,
    solution=0.521,
    explanation=(
        "Query i sees i + 1 keys, each with weight 1/(i + 1), so the column of the first token "
        "holds 1, 1/2, 1/3, 1/4: together 25/12, on average 25/48. The first token gets more "
        "than half although no score prefers it; the last one gets a sixteenth. A causal mask "
        "favours what stands early."
    ),
    steps=[one_number, number(SHARE, tolerance=0.0006, mistakes=SHARE_MISTAKES)],
    wrong=[
        Wrong(0.25, "the share without a mask"),
        Wrong(2.0833, "the sum over the four queries"),
        Wrong(1.0, "Three more ask"),
        Wrong(0.5, "Now measure"),
        Wrong(0.4, "The average of fractions is another number"),
        Wrong(0.0625, "the last token's share"),
        Wrong(0.4583, "do not see themselves"),
        Wrong(0.6111, "the first three"),
        Wrong(0.625, "you averaged the mask"),
        Wrong(52.1, "looks like a percentage"),
        Wrong(0.52, "very close"),
        Wrong([1, 1 / 2, 1 / 3, 1 / 4], "One number is asked for"),
        Wrong("25/48", "Give a number"),
    ],
)
