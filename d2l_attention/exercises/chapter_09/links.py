"""9.2: how many links a pattern has, counted before it is measured."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

ITSELF = "each token sees itself as well"
ONE_EDGE = "one edge has been subtracted. There is a first token, and a last one."
BLOCKS = "the global block sees all 10 blocks"
LAST_BLOCK = (
    "The last one has none after it, and the neighbour before block 1 is the global block, which "
    "it sees anyway."
)
WINDOW = {
    700: "the first and the last three tokens have fewer neighbours. How many are missing?",
    694: ONE_EDGE,
    588: f"{ITSELF}.",
    600: f"{ITSELF}, and those at the edges have fewer neighbours.",
    300: "3 neighbours on each side, not 3 tokens in all.",
    394: "that is the causal one. Here a token sees both sides.",
    400: "that is one side. Here a token sees both sides.",
    7: "that is one token. Add up all 100.",
    10_000: "that is every token with every other. Here they see 3 neighbours on each side.",
}
CAUSAL = {
    400: "the first three tokens have fewer tokens before them.",
    294: f"{ITSELF}.",
    300: f"{ITSELF}, and the first three have fewer tokens before them.",
    344: "half of 688 halves the diagonal as well. Every token still sees itself: only what comes "
    "after it goes.",
    388: "a causal window has one edge: the last token has all its 3 neighbours.",
    688: "nothing is hidden here. Half of the neighbours come after a token.",
    5050: "that is causal attention without a window.",
}
FOURTH = "that is a window of 12 without gaps. Of these only every fourth is seen."
DILATED = {
    688: "in the middle each token still sees 7. At the edges it misses more: the neighbours are "
    "4, 8 and 12 positions away.",
    700: "the tokens at the edges have fewer neighbours, and now the edges are 12 tokens wide.",
    676: ONE_EDGE,
    172: "no token sees less in the middle: 3 neighbours on each side, only farther away.",
    2344: FOURTH,
    2500: FOURTH,
    552: f"{ITSELF}.",
    394: "this one is not causal.",
}
GLOBAL = {
    1088: "2 rows and 2 columns of 100 have been added to the window. But they cross, and some of "
    "their links were in the window already. Count each link once.",
    1084: "rows and columns are right, each link of them once. But some of them were in the window "
    "already.",
    1074: "the 4 links of the two global tokens among each other are counted twice.",
    888: "that adds one direction, and counts some links twice. Global tokens see all, and all see "
    "them.",
    879: "that is only one direction. Global tokens see all, and all see them.",
    396: "those are the links of the two tokens. All the others have their window as well.",
    870: "the two global tokens themselves are missing. They see all 100.",
    1056: "the overlap is subtracted twice. Count by rows: 2 of them see 100 tokens, the others 2 "
    "and their window.",
}
BIGBIRD = {
    62: "those are links between blocks. Each stands for 10 times 10 links between tokens.",
    620: "those are links of tokens to blocks. Each block has 10 tokens to be seen.",
    6000: "not all 10 blocks see 6: the global one sees all 10, and two others see 5.",
    5800: f"{BLOCKS}, not as many as others.",
    5600: f"{BLOCKS}, not only its neighbour and two more.",
    5200: f"the global block itself is missing: {BLOCKS}.",
    6400: f"two blocks have fewer neighbours. {LAST_BLOCK}",
    6300: f"one block more has a neighbour less. {LAST_BLOCK}",
    4400: "the random links are missing: 2 for each block that is not global.",
    5300: "nobody sees the global block here. All do.",
    5400: "nobody sees the global block here, except its neighbour. All do.",
}

count_the_links = Exercise(
    **heading("9.2", "Count the links", "easy", minutes=12),
    section="Sliding windows: fewer links",
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
    "n tokens, all five grow in proportion to n; all pairs, here 10,000, to n².",
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
