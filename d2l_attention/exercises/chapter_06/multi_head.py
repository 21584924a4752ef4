"""6.4: all of multi-head attention."""

import torch

from d2l_attention import length_mask, masked_softmax
from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal, show


def multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    """Multi-head attention: (B, Q, any size), keys and values (B, K, any size) -> (B, Q, D).

    W_q, W_k, W_v (size, D) and W_o (D, D) are plain matrices, as in `queries @ W_q`;
    valid_lens (B,) counts the real keys of each sentence, from 0 to K.

    If all scores are 0, all four matrices are the identity and both keys are real, then the
    values [[2, 4], [6, 8]] give [4, 6] for each query, with one head as with two.
    """
    ...


def multi_head_solution(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    q, k, v = queries @ W_q, keys @ W_k, values @ W_v
    # (B, n, D) -> (B, n, H, D / H) -> (B, H, n, D / H)
    q, k, v = (X.unflatten(-1, (num_heads, -1)).transpose(1, 2) for X in (q, k, v))
    scores = q @ k.mT / q.shape[-1] ** 0.5  # the size of a head by now
    weights = masked_softmax(scores, valid_lens)
    heads = weights @ v
    return heads.transpose(1, 2).flatten(start_dim=2) @ W_o


def hide_and_share(scores, valid_lens, dim=-1, visible=None):
    """Softmax along any axis and under any mask, for the mistakes below."""
    if visible is None:
        visible = length_mask(valid_lens, scores.shape[-1])[:, None]
    return scores.masked_fill(~visible, -1e9).softmax(dim).masked_fill(~visible, 0.0)


def random_case(seed, H, lens, Q, K, *sizes):
    """``sizes`` of queries, keys, values, and of all heads together."""
    *inputs, D = sizes
    shapes = [(len(lens), n, size) for n, size in zip((Q, K, K), inputs, strict=True)]
    tensors = normal(seed, *shapes, *((size, D) for size in (*inputs, D)))
    # Scores of usual size: in a saturated softmax every rounding shows.
    matrices = (W / W.shape[0] ** 0.5 for W in tensors[3:])
    return (*tensors[:3], *matrices, H, torch.tensor(lens))


def equal_scores(*values, lens):
    """One query that scores every key 0, two heads, and matrices that change nothing."""
    rows = torch.tensor(values)
    zeros = torch.zeros_like(rows)
    return (zeros[:, :1], zeros, rows, *[torch.eye(2)] * 4, 2, torch.tensor(lens))


def small(queries, num_keys=2, W=None):
    """Whole numbers, with one matrix for all four, to show a mistake on."""
    size = len(queries[0])
    keys = [[1, 0, 0, 1], [0, 2, 1, 0]] if size == 4 else [[1, 0], [0, 1]]
    values = [[1, 2, 3, 4], [5, 6, 7, 9]] if size == 4 else [[1, 2], [5, 8]]
    inputs = (torch.tensor([rows], dtype=torch.float32) for rows in (queries, keys, values))
    matrix = torch.eye(size) if W is None else W
    return (*inputs, *[matrix] * 4, 2, torch.tensor([num_keys]))


def shapes(result, queries, keys, *others):
    if isinstance(result, tuple | list):
        return "Only the output is asked for; you return more than one thing."
    batch, Q, _ = queries.shape
    H, D = others[-2], others[-3].shape[0]
    return {
        None: "One vector of D numbers for each query.",
        (batch, H, Q, keys.shape[1]): "Those are the weights. The average of the values, the "
        "merge and W_o are missing.",
        (batch, H, Q, D // H): "The heads are still apart. Put them end to end, then W_o.",
        (batch, Q, H, D // H): "The heads still have an axis. Join the last two, then W_o.",
        (batch, Q, D // H): "That is as wide as one head. Heads stand end to end, D numbers a "
        "token: they are neither summed nor averaged.",
        (batch * H, Q, D // H): "The heads are still folded into the batch. Put them end to end.",
        (batch, Q, D): "(B, Q, D)",
    }


def nothing_to_see(output, *_):
    if output.isnan().any():
        return "A sentence of length 0 gives NaN: its softmax divides 0 by 0. It should give 0."
    return (
        f"A sentence of length 0 gives {show(output)}, from padding. Its weights should "
        "be 0, as `masked_softmax` makes them."
    )


# The pieces of the solution that mistakes replace.
ROOT, SOFTMAX = "q.shape[-1] ** 0.5", "masked_softmax(scores, valid_lens)"
PROJECT = "queries @ W_q, keys @ W_k, values @ W_v"
CUT = "unflatten(-1, (num_heads, -1)).transpose(1, 2)"
MERGE = "transpose(1, 2).flatten(start_dim=2)"
BY_VIEW = {CUT: "reshape(len(X), num_heads, X.shape[1], -1)"}
BY_RESHAPE = {MERGE: "reshape(len(q), q.shape[2], -1)"}
SUMMED = {f"heads.{MERGE}": "heads.sum(1)", "@ W_o": "@ W_o[: q.shape[-1]]"}
FIRST_HEAD = {
    PROJECT: "((X @ W.chunk(num_heads, -1)[0]).repeat(1, 1, num_heads)"
    " for X, W in ((queries, W_q), (keys, W_k), (values, W_v)))"
}
TURNED = "queries @ W_q.mT, keys @ W_k.mT, values @ W_v.mT"
VISIBLE = "length_mask(valid_lens, scores.shape[-1])"
BLOCKS = "They stand end to end, D numbers a token, and W_o has D rows: a block for each head."
KEEPS = "to get D numbers back. Concatenate them: every head keeps its own D / H numbers."
PLACES = "Keys say where to look, values what is found there."

write_multi_head = Exercise(
    **authoring.heading("6.4", "Write multi-head attention", "medium", minutes=15),
    section="The whole layer",
    stub=multi_head,
    solution=multi_head_solution,
    explanation="Inside a head nothing is new: scores over the root of the head's own size, "
    "softmax over the keys, average of the values. The lengths belong to sentences and hold "
    "for all of a sentence's heads. W_o sees all heads of a token at once, the only place "
    "where they meet.",
    hints=[
        "The steps: project, split into heads (6.3), scaled dot-product attention in each head, "
        "heads end to end, W_o. Print the shape after each.",
        "`@`, `.mT` and `masked_softmax` work on the last two axes and leave (B, H) alone, so the "
        "middle step reads as it does without heads. How long is a query there?",
        "The way back is the way there, backwards: first swap heads and tokens, then join the "
        "last two axes with `flatten(start_dim=2)`.",
    ],
    cases=[
        Case(random_case(0, 2, [3], 4, 5, 6, 6, 6, 6)),
        Case(
            equal_scores([[2.0, 4], [6, 8]], [[10.0, 20], [30, 40]], lens=[1, 2]),
            because="For one sentence your function is right, for several it is not.",
            errors={
                "": "Your function stops at two sentences. Scores are (B, H, Q, K) here, or "
                "(B · H, Q, K) where heads are folded into the batch: lengths (B,) must line up."
            },
        ),
        Case(
            equal_scores(
                [[2.0, 4], [6, 8]], [[10.0, 20], [30, 40]], [[1.0, 3], [5, 7]], lens=[1, 2, 1]
            ),
            because="With as many sentences as heads your function is right, with three it is not.",
        ),
        Case(equal_scores([[2.0, 4], [6, 8]], lens=[0]), rules=[nothing_to_see]),
        Case(
            random_case(1, 3, [5, 2], 4, 5, 11, 7, 13, 6),
            because="Where queries, keys and values have the size D your function is right. Here "
            "each has a size of its own.",
        ),
        Case(random_case(2, 1, [3, 1], 2, 3, 5, 5, 5, 7)),
        Case(random_case(3, 5, [2, 3, 0], 1, 3, 4, 4, 4, 5)),
        Case(random_case(4, 3, [4, 1, 0], 4, 4, 6, 6, 6, 6)),
    ],
    show=[
        small([[1, 2]]),
        small([[1, 2]], num_keys=1),
        small([[1, 2], [0, 1]]),
        small([[1, 2]], W=torch.tensor([[1.0, 1], [0, 1]])),
        small([[1, 2, 0, 1]]),
        small([[1, 2, 0, 1], [1, 1, 2, 0]]),
    ],
    mistakes=[
        Mistake(
            BY_VIEW | BY_RESHAPE,
            "You cut the heads by `view` or `reshape` alone, there and back. The shapes fit, but "
            "a head gets some tokens whole and never sees the others: no number moves without a "
            "`transpose`.",
        ),
        Mistake(
            BY_VIEW,
            "You cut the heads by `view` or `reshape` alone. The shape fits, but no number moves: "
            "a head gets some tokens whole and never sees the others. Cut the last axis first, "
            "then bring the heads' axis before the tokens'.",
        ),
        Mistake(
            BY_RESHAPE,
            "You merged the heads by `reshape` alone: (B, H, Q, D / H) is refilled in its old "
            "order, so a token's output holds one head's answers to several queries. Swap heads "
            "and tokens first.",
        ),
        Mistake({f" / {ROOT}": ""}, "The division by the root of D / H is missing."),
        *instead_of(
            ROOT,
            {
                "W_q.shape[-1] ** 0.5": "You divide the scores by the root of D, the width of all "
                "heads together. A score sums up the D / H products of one head.",
                "q.shape[-1]": "You divide by D / H itself. The spread of a score is its root.",
                "num_heads ** 0.5": "You divide by the root of the number of heads. A score sums "
                "up the D / H products of one head: the last axis, not axis 1.",
                "k.shape[-2] ** 0.5": "You divide by the root of the number of keys. A score sums "
                "up D / H products, however many other keys there are.",
            },
        ),
        *instead_of(
            SOFTMAX,
            {
                "hide_and_share(scores, valid_lens, 1)": "Your softmax runs over the heads "
                "(`dim=1`), so heads compete for a key. Each head shares out its own attention "
                "over the keys: `dim=-1`.",
                "hide_and_share(scores, valid_lens, -2)": "Your softmax runs over the queries. "
                "Each query shares out its own attention over the keys: `dim=-1`.",
                "scores.softmax(dim=-1)": "`valid_lens` does nothing: the padding takes part.",
                f"hide_and_share(scores, valid_lens, visible=~{VISIBLE}[:, None])": "You hide the "
                "words and keep the padding. `valid_lens` counts, from the front, what may be "
                "seen.",
                "masked_softmax(scores, (valid_lens + 1).clamp(max=scores.shape[-1]))": "One key "
                "too many takes part. Positions count from 0: length n shows keys 0 to n - 1.",
                f"scores.softmax(dim=-1) * {VISIBLE}[:, None]": "You hide the padding after the "
                "softmax. By then it has taken its share of every row; hide the scores.",
                "masked_softmax(scores, valid_lens.amax().expand(len(scores)))": "Every sentence "
                "gets the length of the longest. Each has its own padding.",
                f"hide_and_share(scores, valid_lens, visible={VISIBLE})": "Your mask has no axis "
                "for the heads. Beside scores (B, H, Q, K) a mask (B, 1, K) is read as (1, B, "
                "...): where B = H nothing stops, and the second head of every sentence gets the "
                "second sentence's mask. (Where they differ, you see an error.)",
                "masked_softmax(scores.flatten(0, 1), valid_lens.repeat(num_heads))"
                ".view_as(scores)": "Your copies of the masks stand in the wrong order: the second "
                "head of the first sentence gets the second sentence's mask. With the heads folded "
                "into the batch, the first sentence comes H times before the second: of lengths 7 "
                "and 9 `repeat_interleave` makes 7 7 9 9, `repeat` 7 9 7 9.",
            },
        ),
        Mistake(SUMMED, f"You summed the heads. {BLOCKS}"),
        *instead_of(
            f"heads.{MERGE} @ W_o",
            {
                "heads.mean(1) @ W_o[: q.shape[-1]]": f"You averaged the heads. {BLOCKS}",
                "heads.sum(1).repeat(1, 1, num_heads) @ W_o": "You summed the heads, and copied "
                f"the sum {KEEPS}",
                "heads.mean(1).repeat(1, 1, num_heads) @ W_o": "You averaged the heads, and copied "
                f"the mean {KEEPS}",
            },
        ),
        Mistake(
            FIRST_HEAD,
            "All your heads use the first head's columns of W_q, W_k and W_v, so all give the "
            "same. Head h owns the columns from h · D / H on.",
        ),
        Mistake(
            {"weights @ v": "weights @ k"},
            f"You average the keys: `values` and W_v never get in. {PLACES}",
        ),
        Mistake(
            {PROJECT: TURNED, "@ W_o": "@ W_o.mT"},
            "You use the matrices turned, `X @ W.T`, as a linear layer stores them. Here they are "
            "plain: `X @ W`.",
        ),
        *instead_of(
            PROJECT,
            {
                "queries @ W_q, keys @ W_k, keys @ W_v": "You multiply the keys by W_v: `values` "
                f"never get in. {PLACES}",
                "queries @ W_q, keys @ W_q, values @ W_q": "You use W_q for the keys and the "
                "values as well. Each has its own matrix.",
                "queries, keys, values": "W_q, W_k and W_v are missing: you cut the inputs "
                "themselves into heads.",
                TURNED: "You use W_q, W_k and W_v turned, `X @ W.T`. Here they are plain: `X @ W`.",
            },
        ),
        *instead_of(
            " @ W_o",
            {
                "": "W_o is missing: the heads stand end to end, but nothing mixes them.",
                " @ W_o.mT": "You use W_o turned, `X @ W_o.T`. Here it is plain: `X @ W_o`.",
                " @ W_o + queries": "You added the queries to the output, as a Transformer block "
                "does around this layer (chapter 8). Here the output stands alone.",
            },
        ),
        Mistake(
            {CUT: "unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)"},
            "Your heads own every other column. The first head should get the first D / H: cut D "
            "into (H, D / H), in this order.",
        ),
        Mistake(
            {MERGE: "permute(0, 2, 3, 1).flatten(start_dim=2)"},
            "Your merge takes one number from each head in turn. All D / H numbers of one head "
            "stand together: join the axes (H, D / H), in this order.",
        ),
    ],
    shapes=shapes,
    errors={
        "cannot be multiplied": "A matrix product does not fit. Was it W_o's? It takes D numbers a "
        "token, all heads end to end; heads that are still apart, or were summed or averaged, are "
        "D / H wide.",
        "view size is not compatible": "After a `transpose` the numbers no longer lie in the order "
        "of the axes, and `view` cannot join two of them. `reshape` and `flatten` can: they copy.",
    },
    steps=[authoring.gradients_flow()],
)
