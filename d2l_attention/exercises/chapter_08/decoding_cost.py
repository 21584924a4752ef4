"""8.2: what a cache saves, counted before it is measured."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import as_numbers

# In the order of the answer: what, the right number, and the reasons for typical wrong ones.
SELF_WITHOUT = {
    10: "that is a single pass. Without a cache every step reads its whole prefix again.",
    45: "step t reads t tokens, the newest too: the first step reads 1, not 0.",
    100: "not every step reads 10 tokens: step t reads the t tokens that there are.",
    65: "there are 10 steps: the last prefix has 10 tokens, not 11.",
    385: "that is the number of scores. A token of a prefix is one row of W_k.",
    17: "W_k of this layer reads the target alone, and reads it again at every step.",
    70: "that is the attention to the source.",
}
SELF_WITH = {
    55: "that is without one. The cache keeps the keys of all older tokens.",
    1: "that is one step. Add up all 10.",
    0: "the cache holds the older keys; the newest token's has to be made.",
    9: "every token that is read gets a key, the first one too.",
    100: "the cache keeps the keys of all older tokens: each step makes one new one.",
}
CROSS_WITHOUT = {
    7: "that is one step. Without a cache each step projects the source again.",
    10: "keys of this attention come from the source, and it has 7 words.",
    55: "its keys come from the source, which has 7 words at every step, not t.",
    385: "the source is projected once a step, not once for each token of the prefix.",
    49: "there are 10 steps, and each reads 7 words.",
}
CROSS_WITH = {
    70: "that is without one. The source stays the same: once its keys are there, they stay.",
    10: "its keys come from the source, and the newest target token is no part of it.",
    17: "its keys come from the source alone.",
    0: "the source has to be projected once, by the first step.",
    1: "the source has 7 words, and each gets a key.",
}
SCORES_WITHOUT = {
    55: "that counts the newest query alone. Without a cache all t tokens of the prefix ask again.",
    100: "that is the last step alone. Add up all 10.",
    220: "you left out the hidden ones. A mask hides scores that have been computed.",
    165: "you left out the hidden ones, and some more. A prefix of t tokens has t times t scores.",
    285: "there are 10 steps: the last one adds 10 times 10.",
    1000: "not every step has 10 queries and 10 keys: step t has t of both.",
    550: "the prefix grows on both sides: step t has t queries and t keys.",
}
SCORES_WITH = {
    385: "that is without one. One query asks in each step: the older ones have their answer.",
    10: "one query asks in each step, but it scores all keys that the cache holds.",
    100: "step t has t keys in its cache, not 10.",
    45: "the newest token scores its own key, too: step t has t scores.",
    1: "that is the first step alone. Add up all 10.",
}
QUESTIONS = [
    ("Keys of the target without a cache", 55, SELF_WITHOUT),
    ("Keys of the target with a cache", 10, SELF_WITH),
    ("Keys of the source without a cache", 70, CROSS_WITHOUT),
    ("Keys of the source with a cache", 7, CROSS_WITH),
    ("Scores without a cache", 385, SCORES_WITHOUT),
    ("Scores with a cache", 55, SCORES_WITH),
]


def which_is_wrong(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 6:
        return (
            "Give three pairs of numbers, each without and with a cache, such as "
            f"`[(1, 1), (1, 1), (1, 1)]`. Your answer is {show(attempt.answer)}."
        )
    numbers = got.flatten().tolist()
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    if pairs == [(10, 55), (7, 70), (55, 385)]:
        return "Your pairs are turned round: without a cache first. The cache saves work."
    for value, (what, right, reasons) in zip(numbers, QUESTIONS, strict=True):
        if value != right:
            otherwise = "write down steps 1, 2 and 3, or count with a hook."
            return f"{what}, {show(value)}: {reasons.get(value, otherwise)}"
    return None


count_the_cost = Exercise(
    id="8.2",
    title="What a cache saves",
    task=(
        "A decoder with one block and one head writes 10 tokens, one at a time, from a source of "
        "7 words. Without a cache each step reads the whole prefix again: 1 token, then 2, up to "
        "10. How many rows go through `attention1.W_k`, how many through `attention2.W_k`, and "
        "how many scores does `attention1` compute (the hidden ones count, too), all 10 steps "
        "together? Predict; then measure with a hook on `TransformerDecoder(20, 8, 16, "
        "num_heads=1, num_blks=1, dropout=0.0)`, whose source is `torch.randn(1, 7, 8)`. Give "
        "three pairs, without and with a cache, such as `[(1, 1), (1, 1), (1, 1)]`."
    ),
    difficulty="easy",
    minutes=12,
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
    stub=None,
    solution=[(55, 10), (70, 7), (385, 55)],
    explanation=(
        "Without a cache the keys grow as n²/2 and the scores as n³/3; with one as n and n²/2. "
        "The source is projected once instead of at every step. A cache changes no number of the "
        "output: the keys of older tokens depend on nothing that comes later, because the mask "
        "hides it."
    ),
    steps=[which_is_wrong],
    wrong=[
        Wrong([(10, 55), (7, 70), (55, 385)], "The cache saves work"),
        Wrong([(10, 10), (7, 7), (100, 55)], "every step reads its whole prefix again"),
        Wrong([(45, 10), (70, 7), (385, 55)], "the newest too"),
        Wrong([(100, 10), (70, 7), (385, 55)], "not every step reads 10 tokens"),
        Wrong([(385, 10), (70, 7), (385, 55)], "the number of scores"),
        Wrong([(55, 55), (70, 7), (385, 55)], "keeps the keys of all older tokens"),
        Wrong([(55, 1), (70, 7), (385, 55)], "that is one step. Add up"),
        Wrong([(55, 10), (7, 7), (385, 55)], "projects the source again"),
        Wrong([(55, 10), (55, 7), (385, 55)], "which has 7 words at every step"),
        Wrong([(55, 10), (385, 7), (385, 55)], "not once for each token of the prefix"),
        Wrong([(55, 10), (70, 70), (385, 55)], "once its keys are there, they stay"),
        Wrong([(55, 10), (70, 10), (385, 55)], "is no part of it"),
        Wrong([(55, 10), (70, 0), (385, 55)], "projected once, by the first step"),
        Wrong([(55, 10), (70, 7), (55, 55)], "all t tokens of the prefix ask again"),
        Wrong([(55, 10), (70, 7), (220, 55)], "left out the hidden ones. A mask"),
        Wrong([(55, 10), (70, 7), (1000, 55)], "step t has t of both"),
        Wrong([(55, 10), (70, 7), (385, 10)], "it scores all keys"),
        Wrong([(55, 10), (70, 7), (385, 45)], "scores its own key"),
        Wrong([(55, 10), (70, 7), (384, 55)], "count with a hook"),
        Wrong(55, "Give three pairs"),
    ],
)
