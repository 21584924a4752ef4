"""5.2: an alignment error rate by hand, with sure and with possible links."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers, number

# The links of "i do not like cats" and "je n' aime pas les chats" as (English, French) places.
SURE = {(0, 0), (2, 1), (2, 3), (3, 2), (4, 5)}
POSSIBLE = SURE | {(1, 2), (4, 4)}
FOUND = {(0, 0), (1, 1), (1, 2), (2, 3), (4, 4), (4, 5)}
# Of the 6 links found 3 are sure and 5 possible, out of 5 sure and 7 possible ones.
A, S, P = len(FOUND), len(SURE), len(POSSIBLE)
A_AND_S, A_AND_P = len(FOUND & SURE), len(FOUND & POSSIBLE)


def not_a_rate(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 1:
        return None
    if got < 0:
        return f"An error rate is never negative; yours is {got.item():.3g}."
    return None


MISTAKES = {
    1 - (A_AND_P + A_AND_P) / (A + P): (
        "you counted possible links as required: do–aime and cats–les may be missing without an "
        "error. What has to be found are the sure links, |S|."
    ),
    1 - (A_AND_S + A_AND_S) / (A + S): (
        "you counted the sure links alone, so do–aime and cats–les are errors for you. They are "
        "possible: whoever finds them is not wrong."
    ),
    1 - A_AND_P / (A + S): (
        "your P leaves the sure links out. A sure link is possible, too: P holds S, so je–i "
        "counts in both intersections."
    ),
    1 - (A_AND_S + A_AND_P) / (A + P): (
        "below the fraction stands |P|. There stands |S|: possible links need not be found."
    ),
    (A_AND_S + A_AND_P) / (A + S): "that is the share of what went well. Take it from 1.",
    1 - A_AND_P / A: (
        "that is the share of wrong links among those found. A link that is missing costs as "
        "well: like–aime and not–n' are sure, and nobody found them."
    ),
    1 - A_AND_S / S: (
        "that is the share of sure links that are missing. A link that is wrong costs as well: "
        "do–n' is not even possible."
    ),
    1 - A_AND_S / A: (
        "that is the share of links found that are not sure. Possible links are no errors, and "
        "a sure link that is missing costs."
    ),
    1 - A_AND_P / P: "that is the share of possible links that are missing. Those may be missing.",
    ((1 - A_AND_P / A) + (1 - A_AND_S / S)) / 2: (
        "that is the average of two shares, of wrong links and of missing ones. The rate adds "
        "above and below a single fraction."
    ),
    1 - (A_AND_S + A_AND_P) / (A + S + P): "you divide by |A| + |S| + |P|; |A| + |S| is enough.",
    1 - (A_AND_S + A_AND_P - 1) / (A + S): (
        "one link is missing in your count of the intersections. Go through the six of A again."
    ),
    1 - (A_AND_S + 6) / (A + S): (
        "you counted all six links that were found as possible. One is not: do–n'."
    ),
    float(A + S - A_AND_S - A_AND_P): (
        "that is a number of errors, wrong links and missing ones. Divide by |A| + |S|."
    ),
}

error_rate_by_hand = Exercise(
    id="5.2",
    title="How wrong is this alignment?",
    task=(
        "'i do not like cats' is 'je n' aime pas les chats'. Sure links: i–je, not–n', like–aime, "
        "not–pas, cats–chats. Possible as well: do–aime, cats–les. A model finds i–je, do–n', "
        "do–aime, not–pas, cats–les, cats–chats. Work out the alignment error rate "
        "1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), a number from 0 to 1, to three decimals."
    ),
    difficulty="easy",
    minutes=5,
    hints=[
        "A is what was found, S what is sure. P holds what is possible, and a sure link is "
        "possible, too. How many links have A and S?",
        "Go through the six links of A: which are in S, which in P? One is in neither.",
    ],
    stub=None,
    solution=0.273,
    explanation=(
        "|A| = 6 and |S| = 5. Of A's links i–je, not–pas and cats–chats are sure; do–aime and "
        "cats–les are possible, which makes 5 in P. So 1 - (3 + 5) / (6 + 5) = 3/11. The errors "
        "are one link too many, do–n', and two sure ones too few, not–n' and like–aime. The "
        "possible links cost nothing, found or not."
    ),
    steps=[not_a_rate, number(3 / 11, tolerance=0.001, mistakes=MISTAKES)],
    wrong=[
        Wrong(0.231, "counted possible links as required"),
        Wrong(0.455, "counted the sure links alone"),
        Wrong(0.545, "your P leaves the sure links out"),
        Wrong(0.385, "There stands |S|"),
        Wrong(0.727, "Take it from 1"),
        Wrong(0.167, "A link that is missing costs as well"),
        Wrong(0.4, "A link that is wrong costs as well"),
        Wrong(0.5, "links found that are not sure"),
        Wrong(0.286, "Those may be missing"),
        Wrong(0.283, "the average of two shares"),
        Wrong(0.556, "|A| + |S| is enough"),
        Wrong(0.364, "is missing in your count"),
        Wrong(0.182, "all six links"),
        Wrong(3, "a number of errors"),
        Wrong(27.3, "looks like a percentage"),
        Wrong(-0.1, "never negative"),
        Wrong([3, 11], "it should hold one number"),
        Wrong("3/11", "Give a number"),
    ],
)
