"""6.2: a head that lost its question."""

from d2l_attention.exercises.authoring import Exercise, Part, heading, parts

BEFORE_W_O = {
    12: "that is after W_o. Before it the heads stand end to end, and the other two heads never "
    "hear of this one's queries.",
    0: "the queries say where to look. A head that looks elsewhere brings back another average "
    "of values.",
    1: "one head changes. How many of a token's 12 numbers does a head write?",
}
AFTER_W_O = {
    4: "that is before W_o. Which inputs does one output of W_o read?",
    0: "what W_o reads has changed. Can what it writes stay the same?",
    8: "which of the 12 outputs of W_o would not read the second head's four numbers?",
}
WEIGHT = {
    0: "a query of 0 scores every key 0. It does not look away: what is the exponential of 0, and "
    "what does a row of equal scores become?",
    1: "a row sums to 1, over five keys. This one prefers none of them.",
    1 / 3: "equal weights, but the softmax shares out among the keys, not among the heads.",
    1 / 4: "equal weights, but a token may look at itself as well: how many keys are there?",
}

head_without_a_question = Exercise(
    **heading("6.2", "A head without a question", "easy", minutes=8),
    section="Two questions",
    hints=[
        "The rows: `with torch.no_grad(): layer.W_q.weight[4:8] = 0`, after a first call. The "
        "weights of the second head: `layer.attention_weights[0, 1]`.",
        "To see what W_o reads, make it the identity in a second run: "
        "`layer.W_o.weight.copy_(torch.eye(12))`. Count with `(after - before).abs() > 1e-6`.",
        "Where do heads meet, and where not yet? And what does a softmax make of equal scores?",
    ],
    solution=(4, 12, 0.2),
    explanation="Until W_o a head reads and writes only what is its own, 12 / 3 = 4 numbers a "
    "token. W_o is where heads meet: each of its outputs reads all of them. And a query of 0 "
    "scores every key 0, so the head averages all five tokens alike. It is not silent: to "
    "silence a head, take its exit, its columns of W_o.",
    steps=[
        parts(
            Part("Before W_o", 4, BEFORE_W_O, tolerance=0.01),
            Part("After W_o", 12, AFTER_W_O, tolerance=0.01),
            Part("The weight", 1 / 5, WEIGHT, tolerance=0.005),
            give="three numbers: how many change before W_o, how many after it, and the weight, "
            "such as `(1, 1, 0.5)`",
            otherwise="that is not what the layer does. Run it, before and after, and look.",
        )
    ],
)
