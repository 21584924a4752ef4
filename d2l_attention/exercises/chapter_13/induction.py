"""13.7: how much each head looks at what came after an earlier copy of the present token."""

import torch

from d2l_attention.exercises.authoring import Case, Exercise, heading, instead_of, normal


def induction_score(weights, tokens):
    """weights (H, n, n), tokens (n,) -> scores (H,): the mean weight on tokens after copies.

    For tokens [3, 5, 3] only token 2 has an earlier copy, token 0. After this copy comes token 1,
    so the score is weights[:, 2, 1].
    """
    ...


def induction_score_solution(weights, tokens):
    copies = (tokens[:, None] == tokens).tril(-1)  # (n, n): j < i is a copy of i
    behind = copies.roll(1, dims=1)  # the column of j becomes that of j + 1
    looks = (weights * behind).sum(dim=-1)  # (H, n)
    return looks[:, behind.any(dim=-1)].mean(dim=-1)


def random_case(seed, H, n, kinds):
    """Causal weights by chance, and tokens of few kinds, so that they come again."""
    scores, drawn = normal(seed, (H, n, n), (n,))
    hidden = ~torch.ones(n, n, dtype=torch.bool).tril()
    tokens = (drawn * 100).long() % kinds
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1), tokens


ONE = (
    torch.tensor([[[1.0, 0, 0, 0], [0.6, 0.4, 0, 0], [0.2, 0.1, 0.7, 0], [0.2, 0.4, 0.1, 0.3]]]),
    torch.tensor([3, 5, 8, 5]),  # token 3 has the copy 1; after it comes token 2
)
REPEATED = random_case(0, 2, 8, 4)[0], torch.tensor([4, 1, 7, 2, 4, 1, 7, 2])
THRICE = random_case(1, 2, 7, 4)[0], torch.tensor([1, 2, 1, 3, 1, 4, 5])
AT_ONCE = random_case(2, 1, 4, 4)[0], torch.tensor([6, 6, 2, 6])
COPIES, ROLL = "(tokens[:, None] == tokens).tril(-1)", "copies.roll(1, dims=1)"
COUNTED = "looks[:, behind.any(dim=-1)].mean(dim=-1)"

write_induction_score = Exercise(
    **heading("13.7", "A score for induction", "hard", minutes=25),
    section="Two scores for a head",
    pairs=False,
    hints=[
        "Make a map (n, n) of True and False: which tokens j < i are copies of token i? "
        "`tokens[:, None] == tokens` compares all pairs.",
        "What follows copy j is token j + 1: the same map, moved one column to the right. Where "
        "it is True, the weights count.",
        "Sum `weights * behind` over the keys. Then take the mean over those tokens i only that "
        "have a copy, `behind.any(dim=-1)`.",
    ],
    stub=induction_score,
    solution=induction_score_solution,
    explanation="The map of copies is `tril(-1)`: earlier ones only. It moves one column to the "
    "right, and nothing comes round, because its last column is empty. Tokens without a copy have "
    "nothing to say about induction, so the mean leaves them out. In the first half of a text "
    "whose second half repeats the first no token counts, unless it came before by chance.",
    cases=[
        Case(ONE),
        Case(REPEATED, because="Here two heads read a text whose second half repeats the first."),
        Case(
            THRICE, because="Where halves are alike it was right. Here a token comes three times."
        ),
        Case(AT_ONCE, because="Here a token comes twice in a row: after the copy it comes itself."),
        Case(random_case(3, 4, 20, 5), because="Here are 20 tokens of 5 kinds."),
        Case(random_case(4, 3, 30, 12), because="Here are 30 tokens of 12 kinds."),
    ],
    mistakes=[
        *instead_of(
            ROLL,
            {
                "copies": "You take the weight on the earlier copy itself. An induction head looks "
                "at the token *after* it, j + 1.",
                "copies.roll(-1, dims=1)": "You take the weight on the token before the copy. It "
                "is the one after it, j + 1.",
                "copies.roll(1, dims=0)": "You move the rows: the token after i looks. The columns "
                "move, since they are what is looked at.",
            },
        ),
        *instead_of(
            COPIES,
            {
                "(tokens[:, None] == tokens)": "Each token is its own copy in your map, and later "
                "copies count as well. Only earlier ones do: j < i.",
                "(tokens[:, None] == tokens).tril()": "Each token counts as a copy of itself, so "
                "all tokens enter the mean. Only earlier ones are copies: j < i.",
                "(tokens[:, None] == tokens).triu(1)": "You look for later copies. A copy is "
                "earlier: j < i, below the diagonal.",
                "(tokens[:, None] != tokens).tril(-1)": "You look for tokens that differ.",
            },
        ),
        *instead_of(
            COUNTED,
            {
                "looks.mean(dim=-1)": "Your mean runs over all tokens. Those without an earlier "
                "copy cannot look at the token after one, and do not count.",
                "looks.sum(dim=-1)": "That is the sum. Divide it by the number of tokens that have "
                "an earlier copy.",
                "looks.sum(dim=-1) / behind.sum()": "You divide by the number of pairs. Where a "
                "token has two copies, both weights are added, and it counts once.",
                "looks[:, behind.any(dim=-1)].mean()": "You take the mean over the heads as well. "
                "Each head has its score.",
                "looks.amax(dim=-1)": "You take the best token. The score is a mean over all that "
                "have an earlier copy.",
            },
        ),
        *instead_of(
            "weights * behind",
            {
                "weights.mT * behind": "Your weights are transposed: rows are the tokens that "
                "look.",
                "weights * (behind.cumsum(dim=-1) == 1) * behind": "You count the earliest copy "
                "only. All earlier ones count.",
                "weights * (behind.flip(-1).cumsum(dim=-1).flip(-1) == 1) * behind": "You count "
                "the latest copy only. All earlier ones count.",
            },
        ),
    ],
    shapes={None: "One score for each head, (H,)."},
    errors={
        "out of": "The token after the last one does not exist. Copies are earlier, j < i, so "
        "j + 1 is at most i.",
        "tril": "`tril` wants a matrix: compare `tokens[:, None]` with `tokens`.",
    },
)
