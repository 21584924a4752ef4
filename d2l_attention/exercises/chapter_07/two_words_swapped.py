"""7.2: two words change places. Which of the other words notice, and in which model?"""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

ALL_FIVE = "that is all five words. The task asks about the three that stay."
PLAIN = {
    3: "nothing tells this model where a key stands. What does a sum of weighted values make of "
    "the order of its terms?",
    2: "that is the number of words that move. The task asks about the three that stay.",
    5: ALL_FIVE,
}
SINES = {
    0: "the two words are added to other rows now, so their keys and values are new. Who reads "
    "them?",
    2: "word 2 stands between them, at equal distances. But it reads sums of word and row, and "
    "both sums are new.",
    5: ALL_FIVE,
}
DISTANCES = {
    3: "what does ALiBi know of a key? Its distance, here without a direction. To which word are "
    "the two that swap equally far?",
    0: "the words that swap are now nearer to some and farther from others.",
    1: "one of the three does not notice, and two do. For which word do both distances stay as "
    "they were?",
    5: ALL_FIVE,
}
CAUSAL = {
    0: "nothing is added here, but the mask makes a difference: which words does word 2 see, "
    "before the swap and after it?",
    2: "words 2 and 4? Word 4 sees all five words, before and after: the same set.",
    3: "word 0 sees only itself, and it has not moved.",
    5: ALL_FIVE,
}

two_words_swapped = Exercise(
    **heading("7.2", "Who notices the swap?", "easy", minutes=10),
    section="Self-attention and word order",
    hints=[
        "The swap: `Y = X[:, [0, 3, 2, 1, 4]]`. Count with "
        "`((layer(X, X, X) - layer(Y, Y, Y)).abs() > 1e-5).any(dim=-1)[0, [0, 2, 4]]`.",
        "Ask of each word that stays: which keys does it see, and what does it know of each key? "
        "Does the swap change that, or only the order of a list?",
    ],
    solution=(0, 3, 2, 1),
    explanation="Attention sums over its keys, and a sum has no order: nobody notices. Sines and "
    "cosines change the two words themselves, so everybody notices. ALiBi knows distances "
    "only, and for word 2 both are 1 before and after; a rotary encoding would tell left from "
    "right. A causal mask tells an order without any encoding: word 2 sees word 3 where it saw "
    "word 1. Word 0 sees only itself, and word 4 sees the same five.",
    steps=[
        parts(
            Part("Without positions", 0, PLAIN),
            Part("With sines and cosines", 3, SINES),
            Part("With ALiBi", 2, DISTANCES),
            Part("With a causal mask", 1, CAUSAL),
            give="four counts, one for each model, such as `(3, 3, 3, 3)`",
            otherwise="three words stay, so the count is 0, 1, 2 or 3. Run it and count.",
        )
    ],
)
