"""8.2: what a cache saves, counted before it is measured."""

from d2l_attention.exercises.authoring import Exercise, Part, as_numbers, heading, parts

SELF_WITHOUT = {
    10: "that is a single pass. Without a cache every step reads its whole prefix again.",
    45: "step t reads t tokens, the newest too: the first step reads 1, not 0.",
    100: "not every step reads 10 tokens: step t reads the t tokens that there are.",
    385: "that is the number of scores. A token of a prefix is one row of W_k.",
}
SELF_WITH = {
    55: "that is without one. The cache keeps the keys of all older tokens.",
    1: "that is one step. Add up all 10.",
    0: "the cache holds the older keys; the newest token's has to be made.",
}
CROSS_WITHOUT = {
    7: "that is one step. Without a cache each step projects the source again.",
    10: "keys of this attention come from the source, and it has 7 words.",
    55: "its keys come from the source, which has 7 words at every step, not t.",
}
CROSS_WITH = {
    70: "that is without one. The source stays the same: once its keys are there, they stay.",
    10: "its keys come from the source, and the newest target token is no part of it.",
    0: "the source has to be projected once, by the first step.",
}
SCORES_WITHOUT = {
    55: "that counts the newest query only. Without a cache all t tokens of the prefix ask again.",
    100: "that is only the last step. Add up all 10.",
    220: "you left out the hidden ones. A mask hides scores that have been computed.",
}
SCORES_WITH = {
    385: "that is without one. One query asks in each step: the older ones have their answer.",
    10: "one query asks in each step, but it scores all keys that the cache holds.",
    45: "the newest token scores its own key, too: step t has t scores.",
}


def turned_round(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.flatten().tolist() != [10, 55, 7, 70, 55, 385]:
        return None
    return "Your pairs are turned round: without a cache first. The cache saves work."


count_the_cost = Exercise(
    **heading("8.2", "What a cache saves", "easy", minutes=12),
    section="A cache for keys and values",
    hints=[
        "Write down three steps. Who asks in each, and who is asked? `attention1` is among target "
        "tokens, `attention2` asks the source.",
        "To count rows: `W_k.register_forward_hook(lambda layer, given, out: "
        "rows.append(out.shape[1]))`. The layers are those of `decoder.blks[0]`; scores are as "
        "many as weights. Without a cache, every step begins with `init_state` and "
        "`tokens[:, :t]`; with one, it goes on with the last state and `tokens[:, t - 1 : t]`.",
        "1 + 2 + ... + n = n (n + 1) / 2 and 1 + 4 + ... + n² = n (n + 1) (2n + 1) / 6. Which of "
        "the six counts is which sum, and which are no sums at all?",
    ],
    solution=[(55, 10), (70, 7), (385, 55)],
    explanation="Without a cache the keys grow as n²/2 and the scores as n³/3; with one as n and "
    "n²/2. The source is projected once instead of at every step. A cache changes no number of "
    "the output: the keys of older tokens depend on nothing that comes later, because the mask "
    "hides it.",
    steps=[
        turned_round,
        parts(
            Part("Keys of the target without a cache", 55, SELF_WITHOUT, tolerance=0.01),
            Part("Keys of the target with a cache", 10, SELF_WITH, tolerance=0.01),
            Part("Keys of the source without a cache", 70, CROSS_WITHOUT, tolerance=0.01),
            Part("Keys of the source with a cache", 7, CROSS_WITH, tolerance=0.01),
            Part("Scores without a cache", 385, SCORES_WITHOUT, tolerance=0.01),
            Part("Scores with a cache", 55, SCORES_WITH, tolerance=0.01),
            give="three pairs of numbers, each without and with a cache, such as "
            "`[(1, 1), (1, 1), (1, 1)]`",
            otherwise="write down steps 1, 2 and 3, or count with a hook.",
        ),
    ],
)
