"""9.1: what a token weighs in the key-value cache, worked out on paper."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

HEADS, GROUPS, TOKENS, WINDOW = 24, 6, 16384, 2048


def kib(heads, layers=40):
    """Of one token: keys and values of 128 numbers, 2 bytes each."""
    return 2 * layers * heads * 128 * 2 / 1024


def mib(heads, tokens=TOKENS):
    return tokens * kib(heads) / 1024


ONLY_KEYS = "that is half of it. A token leaves a key and a value, of 2 bytes per number."
ONE_LAYER = "that is one layer. Each of the 40 has keys and values of its own."


def of_a_token(heads):
    return {
        kib(heads) / 2: ONLY_KEYS,
        kib(heads, layers=1): ONE_LAYER,
        kib(heads) * 2: "twice too much. A number takes 2 bytes here, and keys and values are two "
        "numbers.",
        kib(heads) * 1024: "those are bytes. A KiB has 1,024 of them.",
        kib(heads) * 1.024: "a KiB has 1,024 bytes, not 1,000.",
        kib(heads) * 1.5: "queries are not kept, because no later token needs them.",
        kib(1): "that is one head of keys and values. How many does a layer have?",
    }


MULTI_HEAD = of_a_token(HEADS) | {
    kib(GROUPS): "that is with 6 groups. In multi-head attention each of the 24 heads has its own."
}
GROUPED = of_a_token(GROUPS) | {
    kib(HEADS): "that is with 24 heads of keys and values. Query heads are not kept; the heads of "
    "a group share one key and one value.",
    kib((HEADS + GROUPS) / 2): "keys and values are both shared, not one of them.",
    kib(4): "24 / 6 = 4 heads of queries share a group. What is kept is one key and one value for "
    "each of the 6 groups.",
}
SEQUENCE = {
    mib(GROUPS) * 1024: "those are KiB. A MiB has 1,024 of them.",
    mib(GROUPS) / 1024: "those are GiB. Give MiB.",
    mib(GROUPS) * 1.024: "a MiB has 1,024 KiB, not 1,000.",
    mib(HEADS): "that is multi-head attention. The question is about 6 groups.",
    mib(GROUPS) / 2: ONLY_KEYS,
    mib(GROUPS, WINDOW): "that is with a window. Without one all 16,384 tokens are kept.",
    mib(GROUPS) * TOKENS: "the cache holds one row for a token, not one for a pair of tokens.",
}
WINDOWED = {
    mib(GROUPS): "nothing is saved here. With a window the older tokens are thrown away.",
    mib(GROUPS) - mib(GROUPS, WINDOW): "that is what the window saves. How much is left?",
    mib(GROUPS, 2 * WINDOW): "those are 2,048 tokens on each side. A decoder has no future to "
    "keep.",
    mib(HEADS, WINDOW): "that is multi-head attention under a window. Here are 6 groups as well.",
    mib(GROUPS, WINDOW) / 40: ONE_LAYER,
    mib(GROUPS, WINDOW) * 1024: "those are KiB. Give MiB.",
    mib(GROUPS, WINDOW) / 1024: "those are GiB. Give MiB.",
    mib(GROUPS, WINDOW) / 8: "a window of 2,048 is an eighth of 16,384 tokens: divide by 8, once.",
}

cache_by_hand = Exercise(
    **heading("9.1", "What a token weighs", "easy", minutes=6),
    section="The caches of published models",
    hints=[
        "Begin with one token in one layer: which tensors are kept of it, and of how many numbers "
        "is each?",
        "A token leaves a key and a value in each head of keys and values, in every layer. Its "
        "query is not kept. How many such heads are there with 24 heads, and with 6 groups?",
        "2 times 40 layers times heads of keys and values times 128 numbers times 2 bytes. The "
        "rest are divisions by 1,024, and 16 times 1,024 is 16,384.",
    ],
    solution=(480, 120, 1920, 240),
    explanation="2 x 40 x 24 x 128 x 2 bytes are 480 KiB per token. With 6 groups four heads share "
    "a key and a value, which leaves a quarter: 120 KiB. For 16,384 tokens that makes 1,920 MiB. "
    "The groups divide what each token adds, and the window bounds how many tokens are kept, so "
    "after 2,048 tokens the cache stays at 240 MiB.",
    steps=[
        parts(
            Part("A token in multi-head attention", kib(HEADS), MULTI_HEAD),
            Part("A token with 6 groups", kib(GROUPS), GROUPED),
            Part("16,384 tokens with 6 groups", mib(GROUPS), SEQUENCE),
            Part("16,384 tokens with 6 groups and a window", mib(GROUPS, WINDOW), WINDOWED),
            give="4 numbers, such as `(1, 2, 3, 4)`",
            otherwise="multiply: keys and values, layers, heads of them, numbers, bytes.",
        )
    ],
)
