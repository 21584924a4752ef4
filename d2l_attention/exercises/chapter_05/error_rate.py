"""5.2: an alignment error rate by hand, with sure and with possible links."""

from d2l_attention.exercises.authoring import Exercise, heading, number

# The links of "i do not like cats" and "je n' aime pas les chats" as (English, French) places.
SURE = {(0, 0), (2, 1), (2, 3), (3, 2), (4, 5)}
POSSIBLE = SURE | {(1, 2), (4, 4)}
FOUND = {(0, 0), (1, 1), (1, 2), (2, 3), (4, 4), (4, 5)}
# Of the 6 links found 3 are sure and 5 possible, out of 5 sure and 7 possible ones.
A, S, P = len(FOUND), len(SURE), len(POSSIBLE)
A_AND_S, A_AND_P = len(FOUND & SURE), len(FOUND & POSSIBLE)
RIGHT = 1 - (A_AND_S + A_AND_P) / (A + S)

MISTAKES = {
    1 - (A_AND_P + A_AND_P) / (A + P): "you counted possible links as required: do–aime and "
    "cats–les may be missing without an error. What has to be found are the sure links, |S|.",
    1 - (A_AND_S + A_AND_S) / (A + S): "you counted the sure links only, so do–aime and cats–les "
    "are errors for you. They are possible: whoever finds them is not wrong.",
    1 - A_AND_P / (A + S): "your P leaves the sure links out. A sure link is possible, too: P "
    "holds S, so je–i counts in both intersections.",
    1 - (A_AND_S + A_AND_P) / (A + P): "below the fraction stands |P|. There stands |S|: possible "
    "links need not be found.",
    1 - RIGHT: "that is the share of what went well. Take it from 1.",
    1 - A_AND_P / A: "that is the share of wrong links among those found. A link that is missing "
    "costs as well: like–aime and not–n' are sure, and nobody found them.",
    1 - A_AND_S / S: "that is the share of sure links that are missing. A link that is wrong costs "
    "as well: do–n' is not even possible.",
    ((1 - A_AND_P / A) + (1 - A_AND_S / S)) / 2: "that is the average of two shares, of wrong "
    "links and of missing ones. The rate adds above and below a single fraction.",
    1 - (A_AND_S + 6) / (A + S): "you counted all six links that were found as possible. One is "
    "not: do–n'.",
}

error_rate_by_hand = Exercise(
    **heading("5.2", "How wrong is this alignment?", "easy", minutes=5),
    section="The alignment error rate",
    hints=[
        "A is what was found, S what is sure. P holds what is possible, and a sure link is "
        "possible, too. How many links have A and S?",
        "Go through the six links of A: which are in S, which in P? One is in neither.",
    ],
    solution=0.273,
    explanation="|A| = 6 and |S| = 5. Of A's links i–je, not–pas and cats–chats are sure; do–aime "
    "and cats–les are possible, which makes 5 in P. So 1 - (3 + 5) / (6 + 5) = 3/11. The "
    "errors are one link too many, do–n', and two sure ones too few, not–n' and like–aime. The "
    "possible links cost nothing, found or not.",
    steps=[number(RIGHT, tolerance=0.001, mistakes=MISTAKES)],
)
