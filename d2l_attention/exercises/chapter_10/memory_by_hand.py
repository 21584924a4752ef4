"""10.1: what 16,384 tokens take in memory, and what twice as many take."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

BILLIONS = "those are billions of bytes. A GiB is 2^30 bytes, 7% more."
FOUR_BYTES = "you count 4 bytes a number. Here they are 2."
BITS = "those are bits. A byte has 8."
MIB = "those are MiB. A GiB is 1,024 of them."
BYTES = "those are bytes. A GiB is 2^30 of them."
PAIRS = "one number a token? A head has one weight for each pair of a query and a key."
ROWS = "each of the four has one row a token: twice the tokens, twice the rows."

WEIGHTS = {
    0.5: "that is one head of 32. (Or is the order another one? Here the weights come first.)",
    17.18: BILLIONS,
    32: FOUR_BYTES,
    8: "that is half of it. A number has 2 bytes here; and a mask saves no memory, since the "
    "matrix has a place for what it hides.",
    128: BITS,
    2048: "a weight is one number. How wide a head is makes no difference to the weights.",
    2**14: MIB,
    2**34: BYTES,
    2**-10: PAIRS,
}
TWICE_THE_WEIGHTS = {
    32: "twice the tokens are twice the queries and twice the keys: how many times the pairs?",
    128: "that is eight times as much. Queries and keys double; the heads do not.",
    16: "nothing has changed. Pairs of twice the queries and twice the keys are more.",
    68.72: BILLIONS,
    0.5: "is your order another one? Here each pair is one thing, at both lengths.",
    256: "that is four times the length.",
}
IN_AND_OUT = {
    0.125: "that is one of the four. Queries, keys, values and output are equally large.",
    0.25: "those are two of the four, what a cache keeps. Queries and output count here, too.",
    0.375: "those are three of the four: the output is missing.",
    2**-6: "that is one head. The layer has 32.",
    0.537: BILLIONS,
    1: FOUR_BYTES,
    4: BITS,
    512: MIB,
    2**29: BYTES,
    16: "that is as much as the weights. Here each token has 4 rows a head, not one for each key.",
}
TWICE_IN_AND_OUT = {
    2: ROWS,
    0.5: "nothing has changed. There are twice as many tokens.",
    1.074: BILLIONS,
    4: ROWS,
}


memory_by_hand = Exercise(
    **heading("10.1", "Sixteen thousand tokens", "easy", minutes=5),
    section="The score matrix of a novel",
    hints=[
        "16,384 is 2^14, 128 is 2^7 and 32 is 2^5. Powers of two multiply by adding exponents.",
        "A head has one weight for each pair of a query and a key. It has one row of 128 numbers "
        "for each token, in each of the four.",
        "Which of the two counts has the number of tokens in it twice?",
    ],
    solution=[(16, 64), (0.5, 1)],
    explanation="The weights take 2^14 · 2^14 · 2^5 · 2 = 2^34 bytes, four times as much at twice "
    "the length. What goes in and comes out takes 4 · 2^14 · 2^12 · 2 = 2^29 bytes, twice as much "
    "at twice the length. The weights are 32 times as large as all that anybody asked for, and "
    "that factor grows with the length. So the fused kernel never writes them down.",
    steps=[
        parts(
            Part("The weights", 16, WEIGHTS, tolerance=0.05),
            Part("The weights at twice the length", 64, TWICE_THE_WEIGHTS, tolerance=0.05),
            Part("Queries, keys, values and output", 0.5, IN_AND_OUT, tolerance=0.004),
            Part("All four at twice the length", 1, TWICE_IN_AND_OUT, tolerance=0.004),
            give="two pairs of numbers, such as `[(1, 1), (1, 1)]`",
            otherwise="count the numbers first, as a power of two; then the bytes, then the GiB.",
        )
    ],
)
