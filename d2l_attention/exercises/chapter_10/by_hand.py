"""10.1: what 16,384 tokens take in memory, and what twice as many take."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_10.helpers import near, one_by_one
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers

WEIGHTS = {
    0.5: "that is one head. The layer has 32, and each has weights of its own.",
    17.18: "those are billions of bytes. A GiB is 2^30 bytes, 7% more.",
    32: "you count 4 bytes a number. Here they are 2.",
    8: (
        "that is half of it. A number has 2 bytes here; and a mask saves no memory, since the "
        "matrix has a place for what it hides."
    ),
    128: "those are bits. A byte has 8.",
    2048: "a weight is one number. How wide a head is makes no difference to the weights.",
    64: "that is twice the length. Begin with 16,384 tokens.",
    2**14: "those are MiB. A GiB is 1,024 of them.",
    2**34: "those are bytes. A GiB is 2^30 of them.",
    2**-10: "one number a token? A head has one weight for each pair of a query and a key.",
    2**-15: "one number a token? A head has one weight for each pair of a query and a key.",
}
TWICE_THE_WEIGHTS = {
    32: "twice the tokens are twice the queries and twice the keys: how many times the pairs?",
    128: "that is eight times as much. Queries and keys double; the heads do not.",
    16: "nothing has changed. Pairs of twice the queries and twice the keys are more.",
    68.72: "those are billions of bytes. A GiB is 2^30 bytes, 7% more.",
    256: "that is four times the length.",
    2: "that is one head. The layer has 32, and each has weights of its own.",
}
ROWS = {
    0.125: "that is one of the four. Queries, keys, values and output are equally large.",
    0.25: "those are two of the four, what a cache keeps. Queries and output count here, too.",
    0.375: "those are three of the four: the output is missing.",
    2**-6: "that is one head. The layer has 32.",
    0.537: "those are billions of bytes. A GiB is 2^30 bytes, 7% more.",
    1: "you count 4 bytes a number. Here they are 2.",
    4: "those are bits. A byte has 8.",
    512: "those are MiB. A GiB is 1,024 of them.",
    2**29: "those are bytes. A GiB is 2^30 of them.",
    16: "that is as much as the weights. Here each token has 4 rows a head, not one for each key.",
    2**-8: "a head has 128 numbers a token, in each of the four.",
}
TWICE_THE_ROWS = {
    2: "each of the four has one row a token: twice the tokens, twice the rows.",
    0.5: "nothing has changed. There are twice as many tokens.",
    1.074: "those are billions of bytes. A GiB is 2^30 bytes, 7% more.",
    4: "each of the four has one row a token: twice the tokens, twice the rows.",
}
QUESTIONS = [
    ("The weights", 16, WEIGHTS),
    ("The weights at twice the length", 64, TWICE_THE_WEIGHTS),
    ("Queries, keys, values and output", 0.5, ROWS),
    ("Queries, keys, values and output at twice the length", 1, TWICE_THE_ROWS),
]


def turned_round(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 4:
        return None
    if all(map(near, got.flatten().tolist(), (16, 0.5, 64, 1))):
        return "All four are right, in another order: each pair is one thing, at both lengths."
    if all(map(near, got.flatten().tolist(), (0.5, 1, 16, 64))):
        return "All four are right, in another order: the weights come first."
    return None


memory_by_hand = Exercise(
    id="10.1",
    title="Sixteen thousand tokens",
    task=(
        "A layer has 32 heads of 128 numbers each and reads 16,384 tokens; a number takes 2 bytes. "
        "How many GiB (2^30 bytes) do the attention weights of all heads take? How many do "
        "queries, keys, values and the heads' output take, all heads together? And how many at "
        "twice the length? Give two pairs, the weights first, such as `[(1, 1), (1, 1)]`: in each "
        "pair, 16,384 tokens first."
    ),
    difficulty="easy",
    minutes=5,
    hints=[
        "16,384 is 2^14, 128 is 2^7 and 32 is 2^5. Powers of two multiply by adding exponents.",
        "A head has one weight for each pair of a query and a key. It has one row of 128 numbers "
        "for each token, in each of the four.",
        "Which of the two counts has the number of tokens in it twice?",
    ],
    stub=None,
    solution=[(16, 64), (0.5, 1)],
    explanation=(
        "The weights take 2^14 · 2^14 · 2^5 · 2 = 2^34 bytes, four times as much at twice the "
        "length. What goes in and comes out takes 4 · 2^14 · 2^12 · 2 = 2^29 bytes, twice as much "
        "at twice the length. The weights are 32 times as large as all that anybody asked for, "
        "and that factor grows with the length. So the fused kernel never writes them down."
    ),
    steps=[
        turned_round,
        one_by_one(
            QUESTIONS,
            "two pairs of numbers, such as `[(1, 1), (1, 1)]`",
            "count the numbers first, as a power of two; then the bytes; then divide by 2^30.",
        ),
    ],
    wrong=[
        Wrong([(16, 0.5), (64, 1)], "each pair is one thing"),
        Wrong([(0.5, 1), (16, 64)], "the weights come first"),
        Wrong([(0.5, 2), (0.0156, 0.03125)], "that is one head"),
        Wrong([(17.2, 68.7), (0.54, 1.07)], "billions of bytes"),
        Wrong([(32, 128), (1, 2)], "4 bytes a number"),
        Wrong([(8, 32), (0.5, 1)], "a mask saves no memory"),
        Wrong([(128, 512), (4, 8)], "A byte has 8"),
        Wrong([(2048, 8192), (0.5, 1)], "How wide a head is"),
        Wrong([(16384, 65536), (512, 1024)], "those are MiB"),
        Wrong([(2**34, 2**36), (2**29, 2**30)], "those are bytes"),
        Wrong([(0.00098, 0.00195), (0.5, 1)], "one number a token?"),
        Wrong([(16, 32), (0.5, 1)], "how many times the pairs?"),
        Wrong([(16, 128), (0.5, 1)], "eight times"),
        Wrong([(16, 64), (0.125, 0.25)], "one of the four"),
        Wrong([(16, 64), (0.25, 0.5)], "what a cache keeps"),
        Wrong([(16, 64), (0.375, 0.75)], "the output is missing"),
        Wrong([(16, 64), (0.0156, 0.0313)], "that is one head"),
        Wrong([(16, 64), (0.5, 2)], "twice the rows"),
        Wrong([(16, 64), (0.5, 0.5)], "nothing has changed"),
        Wrong([(15, 64), (0.5, 1)], "count the numbers first"),
        Wrong([16, 64], "Give two pairs"),
        Wrong("16 GiB", "Give two pairs"),
    ],
)
