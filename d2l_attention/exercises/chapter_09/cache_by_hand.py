"""9.1: what a token weighs in the key-value cache, worked out on paper."""

from d2l_attention.exercises.chapter_09.tables import all_right
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.scale.cache_size import cache_bytes

LAYERS, HEADS, GROUPS, SIZE, TOKENS, WINDOW = 40, 24, 6, 128, 16384, 2048
KIB, MIB = 1024, 1024**2


def kib(groups: int, *, layers: int = LAYERS) -> float:
    """Of one token."""
    return cache_bytes(layers, groups, SIZE, 1) / KIB


def mib(groups: int, tokens: int = TOKENS) -> float:
    return cache_bytes(LAYERS, groups, SIZE, tokens) / MIB


KEYS_ALONE = "that is half of it. A token leaves a key and a value, of 2 bytes a number."
ONE_LAYER = "that is one layer. Each of the 40 has keys and values of its own."
FOUR_BYTES = "twice too much. A number takes 2 bytes here, and keys and values are two numbers."
IN_BYTES = "those are bytes. A KiB has 1,024 of them."
THOUSANDS = "a KiB has 1,024 bytes, not 1,000."
ONE_HEAD = "that is one head of keys and values. How many does a layer have?"

MULTI_HEAD = {
    kib(HEADS) / 2: KEYS_ALONE,
    kib(HEADS, layers=1): ONE_LAYER,
    kib(HEADS) * 2: FOUR_BYTES,
    kib(HEADS) * KIB: IN_BYTES,
    kib(HEADS) * KIB / 1000: THOUSANDS,
    kib(1): ONE_HEAD,
    kib(GROUPS): "that is with 6 groups. In multi-head attention each of the 24 heads has its own.",
    kib(HEADS) * 1.5: "queries are not kept: nobody asks an old question again.",
    kib(HEADS + GROUPS): "in multi-head attention there are no groups beside the 24 heads.",
}
GROUPED = {
    kib(GROUPS) / 2: KEYS_ALONE,
    kib(GROUPS, layers=1): ONE_LAYER,
    kib(GROUPS) * 2: FOUR_BYTES,
    kib(GROUPS) * KIB: IN_BYTES,
    kib(GROUPS) * KIB / 1000: THOUSANDS,
    kib(HEADS): (
        "that is with 24 heads of keys and values. Query heads are not kept; the heads of a group "
        "share one key and one value."
    ),
    (kib(HEADS) + kib(GROUPS)) / 2: "keys and values are both shared, not one of them.",
    kib(HEADS // GROUPS): (
        "24 / 6 = 4 heads of queries share a group. What is kept is one key and one value for "
        "each of the 6 groups."
    ),
    kib(HEADS) / 24: ONE_HEAD,
    kib(HEADS) / 36: "divide by the 4 heads that share, once.",
    kib(HEADS) * 1.5 / 4: "queries are not kept: nobody asks an old question again.",
}
SEQUENCE = {
    mib(GROUPS) * KIB: "those are KiB. A MiB has 1,024 of them.",
    mib(GROUPS) / KIB: "those are GiB. Give MiB.",
    mib(GROUPS) * KIB / 1000: "a MiB has 1,024 KiB, not 1,000.",
    mib(GROUPS) * MIB / 1e6: "a MiB has 1,024 times 1,024 bytes, not a million.",
    mib(GROUPS) * MIB: "those are bytes. Give MiB.",
    mib(HEADS): "that is multi-head attention. The question is about 6 groups.",
    mib(GROUPS) / 2: KEYS_ALONE,
    mib(GROUPS, WINDOW): "that is with a window. Without one all 16,384 tokens are kept.",
    mib(GROUPS) * TOKENS: "the cache holds one row for a token, not one for a pair of tokens.",
}
WINDOWED = {
    mib(GROUPS): "nothing is saved here. With a window the older tokens are thrown away.",
    mib(GROUPS) - mib(GROUPS, WINDOW): "that is what the window saves. How much is left?",
    mib(GROUPS, 2 * WINDOW): (
        "those are 2,048 tokens on each side. A decoder has no future to keep."
    ),
    mib(HEADS, WINDOW): "that is multi-head attention under a window. Here are 6 groups as well.",
    mib(GROUPS, WINDOW) / LAYERS: ONE_LAYER,
    mib(GROUPS, WINDOW) * KIB: "those are KiB. Give MiB.",
    mib(GROUPS, WINDOW) / KIB: "those are GiB. Give MiB.",
    mib(GROUPS, WINDOW) / 8: "a window of 2,048 is an eighth of 16,384 tokens: divide by 8, once.",
}
QUESTIONS = [
    ("A token in multi-head attention", kib(HEADS), MULTI_HEAD),
    ("A token with 6 groups", kib(GROUPS), GROUPED),
    ("16,384 tokens with 6 groups", mib(GROUPS), SEQUENCE),
    ("16,384 tokens with 6 groups and a window", mib(GROUPS, WINDOW), WINDOWED),
]

cache_by_hand = Exercise(
    id="9.1",
    title="What a token weighs",
    task=(
        "A decoder has 40 layers, and 24 heads of queries in each. A head is 128 numbers wide, a "
        "number takes 2 bytes. How many KiB does one token add to the key-value cache in "
        "multi-head attention? How many with 6 groups of keys and values? How many MiB does the "
        "cache of 16,384 tokens take with 6 groups? And how many MiB with 6 groups, if each layer "
        "keeps only the last 2,048? Give four numbers, such as `(1, 2, 3, 4)`. 1 KiB is 1,024 "
        "bytes, 1 MiB is 1,024 KiB."
    ),
    difficulty="easy",
    minutes=6,
    hints=[
        "Begin with one token in one layer: which tensors are kept of it, and of how many numbers "
        "is each?",
        "A token leaves a key and a value in each head of keys and values, in every layer. Its "
        "query is not kept. How many such heads are there with 24 heads, and with 6 groups?",
        "2 times 40 layers times heads of keys and values times 128 numbers times 2 bytes. The "
        "rest are divisions by 1,024, and 16 times 1,024 is 16,384.",
    ],
    stub=None,
    solution=(480, 120, 1920, 240),
    explanation=(
        "2 x 40 x 24 x 128 x 2 bytes are 480 KiB a token. With 6 groups four heads share a key and "
        "a value, and a quarter is left: 120 KiB. 16,384 tokens make 1,920 MiB of it. The groups "
        "divide what a token weighs, the window bounds how many tokens are kept: from then on the "
        "cache, 240 MiB, does not grow any more."
    ),
    steps=[
        all_right(
            QUESTIONS,
            otherwise="multiply: keys and values, layers, heads of them, numbers, bytes.",
        )
    ],
    wrong=[
        Wrong((240, 120, 1920, 240), "A token leaves a key and a value"),
        Wrong((12, 3, 48, 6), "that is one layer"),
        Wrong((960, 240, 3840, 480), "twice too much"),
        Wrong((491520, 122880, 1920, 240), "those are bytes"),
        Wrong((491.52, 122.88, 1966, 246), "a KiB has 1,024 bytes"),
        Wrong((20, 20, 320, 40), "one head of keys and values"),
        Wrong((120, 480, 1920, 240), "that is with 6 groups"),
        Wrong((720, 180, 2880, 360), "nobody asks an old question again"),
        Wrong((480, 480, 7680, 960), "Query heads are not kept"),
        Wrong((480, 300, 4800, 600), "not one of them"),
        Wrong((480, 80, 1280, 160), "each of the 6 groups"),
        Wrong((480, 20, 320, 40), "How many does a layer have?"),
        Wrong((480, 120, 1966080, 240), "those are KiB"),
        Wrong((480, 120, 1.875, 0.234), "those are GiB"),
        Wrong((480, 120, 1966.08, 246), "not 1,000"),
        Wrong((480, 120, 7680, 960), "The question is about 6 groups"),
        Wrong((480, 120, 240, 1920), "that is with a window"),
        Wrong((480, 120, 1920, 1920), "nothing is saved here"),
        Wrong((480, 120, 1920, 1680), "that is what the window saves"),
        Wrong((480, 120, 1920, 480), "no future to keep"),
        Wrong((480, 120, 1920, 960), "Here are 6 groups as well"),
        Wrong((480, 120, 1920, 30), "divide by 8, once"),
        Wrong((480, 120, 1921, 250), "multiply: keys and values"),
        Wrong(480, "Give 4 numbers"),
        Wrong("480 KiB", "Give 4 numbers"),
    ],
)
