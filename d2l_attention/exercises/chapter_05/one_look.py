"""5.1: one look at the source, by hand. Which state asks, and who may answer?"""

from d2l_attention.exercises.authoring import Exercise, heading, number

# Exponentials of the scores: row t is the decoder's state s_t, column j the encoder's h_j.
S_0, S_1, S_2 = (4, 1, 2), (1, 3, 4), (7, 1, 1)
H = (4, 8, 20)


def context(exponentials, length):
    visible = exponentials[:length]
    return sum(e * h for e, h in zip(visible, H, strict=False)) / sum(visible)


MISTAKES = {
    context(S_2, 2): "you asked with s_2, which comes out of the second step. The context goes "
    "into it, so the state before the step has to ask.",
    context(S_0, 2): "you asked with s_0, so this is c_1: for the second step the query is one "
    "step late. By then the decoder has moved on.",
    context(S_1, 3): "the right state asks, and the padding answers as well. The length is 2: h_3 "
    "is no word and must not take part.",
    28 / 8: "the padding's weight is gone, and its exponential still stands in the sum that you "
    "divide by. The two weights that are left have to sum to 1.",
    48 / 5: "you gave the padding the score 0. The exponential of 0 is 1, so it still takes part.",
    28.0: "you weighted with the exponentials. Divide by their sum first.",
    8.0: "that is h_2 itself. A score of 0 is not a weight of 0: take the exponentials first.",
    6.0: "that is the plain mean of the two words. Their scores differ, so their weights do.",
    4 / 12 + 24 / 5: "you took the softmax down the columns, over the decoder's states. One state "
    "shares out its attention over the words, along its row.",
}
ONE_NUMBER = (
    "Give one number: the encoder states are single numbers here, and so is the context. If yours "
    "are the weights, one step is left: the encoder states' average with these weights."
)

look_by_hand = Exercise(
    **heading("5.1", "One look at the source", "easy", minutes=4),
    section="Two steps by hand",
    hints=[
        "Which state does the decoder have when its second step begins? The context is an input "
        "of that step.",
        "Cross out what the length hides. What are the exponentials of the two scores left?",
        "Divide each exponential by the sum of both; then average h_1 and h_2 with these weights.",
    ],
    solution=7.0,
    explanation="The query is s_1, the state before the second step. Of its scores two belong to "
    "words; their exponentials are 1 and 3, the weights 1/4 and 3/4. So c_2 = 1 + 6. The "
    "padding is missing above the fraction and below it, although s_1 likes it best.",
    steps=[number(7.0, tolerance=0.01, mistakes=MISTAKES, counts={2: ONE_NUMBER, 3: ONE_NUMBER})],
)
