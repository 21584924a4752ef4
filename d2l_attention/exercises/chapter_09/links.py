"""9.2: how many links a pattern has, counted before it is measured."""

import torch

from d2l_attention import causal_mask
from d2l_attention.exercises.chapter_09.tables import all_right
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.variants.masks import bigbird_mask, global_tokens_mask, sliding_window_mask

WINDOW = {
    700: "the first and the last three tokens have fewer neighbours. How many are missing?",
    694: "one edge has been subtracted. There is a first token, and a last one.",
    588: "each token sees itself, too.",
    600: "each token sees itself, too, and those at the edges have fewer neighbours.",
    298: "3 neighbours on each side, not 3 tokens in all.",
    300: "3 neighbours on each side, not 3 tokens in all.",
    394: "that is the causal one. Here a token sees both sides.",
    400: "that is one side alone. Here a token sees both sides.",
    7: "that is one token. Add up all 100.",
    10_000: "that is every token with every other. Here they see 3 neighbours on each side.",
    682: "at each edge 3 + 2 + 1 links are missing: 12 in all.",
}
CAUSAL = {
    400: "the first three tokens have fewer tokens before them.",
    294: "each token sees itself, too.",
    300: "each token sees itself, too, and the first three have fewer tokens before them.",
    344: (
        "half of 688 halves the diagonal as well. Every token still sees itself: only what comes "
        "after it goes."
    ),
    350: "half of 700? The diagonal is not halved: every token still sees itself.",
    388: "a causal window has one edge: the last token has all its 3 neighbours.",
    688: "nothing is hidden here. Half of the neighbours come after a token.",
    5050: "that is causal attention without a window.",
    397: "at the edge 3 + 2 + 1 links are missing.",
}
DILATED = {
    688: (
        "in the middle each token still sees 7. At the edges it misses more: the neighbours stand "
        "4, 8 and 12 places away."
    ),
    700: "the tokens at the edges have fewer neighbours, and now the edges are 12 tokens wide.",
    172: "no token sees less in the middle: 3 neighbours on each side, only farther away.",
    175: "no token sees less in the middle: 3 neighbours on each side, only farther away.",
    2344: "that is a window of 12 without gaps. Of these only every fourth is seen.",
    2500: "that is a window of 12 without gaps. Of these only every fourth is seen.",
    552: "each token sees itself, too.",
    676: "one edge has been subtracted. There is a first token, and a last one.",
    394: "this one is not causal.",
}
GLOBAL = {
    1088: (
        "2 rows and 2 columns of 100 have been added to the window. But they cross, and some of "
        "their links were in the window already. Count each link once."
    ),
    1084: (
        "rows and columns are right, each link of them once. But some of them were in the window "
        "already."
    ),
    1074: "the 4 links of the two global tokens among each other are counted twice.",
    888: (
        "that adds one direction, and counts some links twice. Global tokens see all, and all see "
        "them."
    ),
    879: "that is one direction alone. Global tokens see all, and all see them.",
    396: "that is the two tokens' links. All the others have their window as well.",
    870: "the two global tokens themselves are missing. They see all 100.",
    1056: (
        "the overlap is subtracted twice. Count by rows: 2 of them see 100 tokens, the others 2 "
        "and their window."
    ),
}
BIGBIRD = {
    62: "those are links between blocks. Each stands for 10 times 10 links between tokens.",
    620: "those are links of tokens to blocks. Each block has 10 tokens to be seen.",
    6000: "not all 10 blocks see 6: the global one sees all 10, and two others see 5.",
    5800: "the global block sees all 10 blocks, not as many as others.",
    5700: "the global block sees all 10 blocks, not as many as others.",
    5600: "the global block sees all 10 blocks, not only its neighbour and two more.",
    5200: "the global block itself is missing: it sees all 10 blocks.",
    6400: (
        "two blocks have fewer neighbours. The last one has none after it, and the neighbour "
        "before block 1 is the global block, which it sees anyway."
    ),
    6300: (
        "one block more has a neighbour less: the last one has none after it, and the neighbour "
        "before block 1 is the global block, which it sees anyway."
    ),
    4400: "the random links are missing: 2 for each block that is not global.",
    5300: "nobody sees the global block here. All do.",
    5400: "nobody sees the global block here, except its neighbour. All do.",
    10_000: "that is every token with every other.",
}
window = sliding_window_mask(100, window=3)
PATTERNS = [
    ("The window", window, WINDOW),
    ("The causal window", window & causal_mask(100), CAUSAL),
    ("The dilated window", sliding_window_mask(100, window=3, dilation=4), DILATED),
    (
        "Window and global tokens",
        window | global_tokens_mask(torch.arange(100) < 2),
        GLOBAL,
    ),
    (
        "BigBird",
        bigbird_mask(100, block_size=10, window=1, num_global=1, num_random=2, seed=0),
        BIGBIRD,
    ),
]
QUESTIONS = [(what, int(mask.sum()), reasons) for what, mask, reasons in PATTERNS]

count_the_links = Exercise(
    id="9.2",
    title="Count the links",
    task=(
        "A link is a pair of a query and a key that it may see: a True of the mask. Of 100 tokens "
        "each sees itself and 3 neighbours on each side. How many links are there? How many, if "
        "that is causal? How many, if it is not, and the 3 neighbours are 4 apart? How many, if "
        "the neighbours are 1 apart again and the first 2 tokens are global? And how many in "
        "BigBird with blocks of 10 tokens, 1 block on each side, 1 global block and 2 random ones? "
        "Predict; then measure with `sliding_window_mask`, `global_tokens_mask` and "
        "`bigbird_mask` of `d2l_attention`. Give five numbers, such as `(1, 2, 3, 4, 5)`."
    ),
    difficulty="easy",
    minutes=12,
    hints=[
        "Begin with a token in the middle, times 100. Then the edges: how many links does the "
        "first token miss, how many the second, how many the third?",
        "Count by rows. A row of a global token has 100 links; every other row has 2 and what is "
        "left of its window. For BigBird count blocks first: what does block 0 see, block 1, a "
        "block in the middle, the last one? Which seed you take does not matter.",
        "To measure: `sliding_window_mask(100, window=3).sum()`; `&` joins it with "
        "`causal_mask(100)`, `|` with `global_tokens_mask(torch.arange(100) < 2)`.",
    ],
    stub=None,
    solution=(688, 394, 652, 1070, 6200),
    explanation=(
        "A window of w has n (2w + 1) links less w (w + 1) at the edges, 700 - 12; gaps of 4 make "
        "the edges 4 times as wide, 700 - 48. The causal one has n (w + 1) - w (w + 1) / 2. Two "
        "global tokens see 100 each; the other 98 see both, and a window among themselves: 200 + "
        "196 + 674. BigBird has 10 + 5 + 7 x 6 + 5 = 62 pairs of blocks, of 100 links each. With n "
        "tokens all five grow as n, where all pairs, here 10,000, grow as n²."
    ),
    steps=[all_right(QUESTIONS, otherwise="count the rows of the first tokens by hand.")],
    wrong=[
        Wrong((700, 394, 652, 1070, 6200), "have fewer neighbours. How many are missing?"),
        Wrong((694, 394, 652, 1070, 6200), "There is a first token, and a last one"),
        Wrong((588, 294, 552, 1070, 6200), "sees itself, too"),
        Wrong((300, 400, 652, 1070, 6200), "not 3 tokens in all"),
        Wrong((400, 700, 652, 1070, 6200), "that is one side alone"),
        Wrong((7, 4, 7, 9, 60), "Add up all 100"),
        Wrong((688, 400, 652, 1070, 6200), "fewer tokens before them"),
        Wrong((688, 344, 652, 1070, 6200), "half of 688 halves the diagonal"),
        Wrong((688, 388, 652, 1070, 6200), "a causal window has one edge"),
        Wrong((688, 5050, 652, 1070, 6200), "without a window"),
        Wrong((688, 394, 688, 1070, 6200), "4, 8 and 12 places away"),
        Wrong((688, 394, 172, 1070, 6200), "only farther away"),
        Wrong((688, 394, 2344, 1070, 6200), "only every fourth is seen"),
        Wrong((688, 394, 652, 1088, 6200), "Count each link once"),
        Wrong((688, 394, 652, 1084, 6200), "each link of them once"),
        Wrong((688, 394, 652, 879, 6200), "one direction alone"),
        Wrong((688, 394, 652, 396, 6200), "have their window as well"),
        Wrong((688, 394, 652, 1070, 62), "10 times 10 links"),
        Wrong((688, 394, 652, 1070, 6000), "two others see 5"),
        Wrong((688, 394, 652, 1070, 6400), "two blocks have fewer neighbours"),
        Wrong((688, 394, 652, 1070, 4400), "the random links are missing"),
        Wrong((688, 394, 652, 1070, 5300), "nobody sees the global block"),
        Wrong((688, 394, 652, 1071, 6200), "by hand"),
        Wrong(688, "Give 5 numbers"),
    ],
)
