"""9.2: how many links a pattern has, counted before it is measured."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

ITSELF = "each token sees itself, too"
LAST_BLOCK = (
    "The last one has none after it, and the neighbour before block 1 is the global block, which "
    "it sees anyway."
)
WINDOW = {
    700: "the first and the last three tokens have fewer neighbours. How many are missing?",
    588: f"{ITSELF}.",
    300: "3 neighbours on each side, not 3 tokens in all.",
    394: "that is the causal one. Here a token sees both sides.",
}
CAUSAL = {
    400: "the first three tokens have fewer tokens before them.",
    294: f"{ITSELF}.",
    688: "nothing is hidden here. Half of the neighbours come after a token.",
}
FOURTH = "that is a window of 12 without gaps. Of these only every fourth is seen."
DILATED = {
    688: "in the middle each token still sees 7. At the edges it misses more: the neighbours stand "
    "4, 8 and 12 places away.",
    700: "the tokens at the edges have fewer neighbours, and now the edges are 12 tokens wide.",
    2344: FOURTH,
    552: f"{ITSELF}.",
}
GLOBAL = {
    1088: "2 rows and 2 columns of 100 have been added to the window. But they cross, and some of "
    "their links were in the window already. Count each link once.",
    888: "that adds one direction, and counts some links twice. Global tokens see all, and all see "
    "them.",
}
BIGBIRD = {
    62: "those are links between blocks. Each stands for 10 times 10 links between tokens.",
    6000: "not all 10 blocks see 6: the global one sees all 10, and two others see 5.",
    6400: f"two blocks have fewer neighbours. {LAST_BLOCK}",
    4400: "the random links are missing: 2 for each block that is not global.",
}

count_the_links = Exercise(
    **heading("9.2", "Count the links", "easy", minutes=12),
    section="Fewer links",
    hints=[
        "Begin with a token in the middle, times 100. Then the edges: how many links does the "
        "first token miss, how many the second, how many the third?",
        "Count by rows. A row of a global token has 100 links; every other row has 2 and what is "
        "left of its window. For BigBird count blocks first: what does block 0 see, block 1, a "
        "block in the middle, the last one? Which seed you take does not matter.",
        "To measure: `sliding_window_mask(100, window=3).sum()`; `&` joins it with "
        "`causal_mask(100)`, `|` with `global_tokens_mask(torch.arange(100) < 2)`.",
    ],
    solution=(688, 394, 652, 1070, 6200),
    explanation="A window of w has n (2w + 1) links less w (w + 1) at the edges, 700 - 12; gaps of "
    "4 make the edges 4 times as wide, 700 - 48. The causal one has n (w + 1) - w (w + 1) / 2. "
    "Two global tokens see 100 each; the other 98 see both, and a window among themselves: 200 "
    "+ 196 + 674. BigBird has 10 + 5 + 7 x 6 + 5 = 62 pairs of blocks, of 100 links each. With "
    "n tokens all five grow as n, where all pairs, here 10,000, grow as n².",
    steps=[
        parts(
            Part("The window", 688, WINDOW, 0.1),
            Part("The causal window", 394, CAUSAL, 0.1),
            Part("The dilated window", 652, DILATED, 0.1),
            Part("Window and global tokens", 1070, GLOBAL, 0.1),
            Part("BigBird", 6200, BIGBIRD, 0.1),
            give="5 numbers, such as `(1, 2, 3, 4, 5)`",
            otherwise="count the rows of the first tokens by hand.",
        )
    ],
)
