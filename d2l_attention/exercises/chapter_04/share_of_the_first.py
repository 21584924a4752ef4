"""4.3: the first token's share, predicted before it is measured."""

from d2l_attention.exercises.authoring import Exercise, number

SHARE = (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
MISTAKES = {
    4 * SHARE: "that is the sum over the four queries. Divide by their number.",
    1: "that is the first query, which sees nothing but the first token. Three more ask.",
    1 / 4: "that is the share without a mask, and that of the last query, which sees all four. The "
    "other queries see fewer keys.",
    1 / 2: "that is the second query only, or a guess. Now measure: `causal_mask`, "
    "`masked_softmax`, and the mean of a column.",
    1 / 3: "that is the third query only. Average over all four.",
    0.4: "you divided 1 by the average number of visible keys, 2.5. The average of fractions is "
    "another number: first each query's share, then the average.",
    1 / 16: "that is the last token's share, or the first one's with the mask turned over. Under a "
    "causal mask every query sees the first token.",
    (1 + 1 / 2 + 1 / 3) / 4: "your queries do not see themselves. Query 0 sees key 0: what it has "
    "to guess is the next.",
    (1 + 1 / 2 + 1 / 3) / 3: "you averaged three queries: the first three. There are four.",
    (1 / 2 + 1 / 3 + 1 / 4) / 3: "you averaged three queries: the first one counts as well.",
    (1 / 2 + 1 / 3 + 1 / 4) / 4: "the first query gives nothing in your sum. It sees one key, "
    "which gets all of its weight.",
    0.625: "you averaged the mask: the share of visible places. Equal scores give 1 divided by the "
    "number of visible keys in a row.",
}
NOT_FOUR = "One number is asked for: the average of the first token's share over the queries."

share_of_the_first = Exercise(
    id="4.3",
    title="Who gets the attention",
    difficulty="easy",
    minutes=5,
    hints=[
        "How many keys does query 0 see? And queries 1, 2 and 3?",
        "Equal scores: each visible key of a row gets the same weight, and a row sums to 1.",
        "Make the weights of `torch.zeros(1, 4, 4)` with `mask=causal_mask(4)`. The first token "
        "as a key is column 0.",
    ],
    stub=None,
    solution=0.521,
    explanation="Query i sees i + 1 keys, each with weight 1/(i + 1), so the column of the first "
    "token holds 1, 1/2, 1/3, 1/4: together 25/12, on average 25/48. The first token gets more "
    "than half although no score prefers it; the last one gets a sixteenth. A causal mask favours "
    "what stands early.",
    steps=[number(SHARE, tolerance=0.0006, mistakes=MISTAKES, counts={4: NOT_FOUR})],
)
