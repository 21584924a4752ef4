"""3.2: elementwise instead of a matrix product."""

import torch
from torch import Tensor

from d2l_attention import dot_score
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_03.cases import BATCHES, also_right_for, right_for
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import agrees, holds, unlike


def all_scores(queries, keys):
    scores = (queries * keys).sum(-1)
    return scores


def all_scores_solution(queries, keys):
    # (*, Q, D) times (*, D, K): row i holds query i with every key.
    return queries @ keys.transpose(-2, -1)


SQUARE = (torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 1.0], [3.0, 4.0]]))
UNEQUAL = (SQUARE[0], torch.tensor([[1.0, 1.0], [3.0, 4.0], [5.0, 6.0]]))


def needs_a_batch(attempt: Attempt) -> str | None:
    if right_for(attempt, dot_score, SQUARE):
        return None
    if right_for(attempt, dot_score, tuple(X[None] for X in SQUARE)):
        return (
            "Your scores are right for a batch of sentences, not for a single one, (Q, D). "
            "The `*` in (*, Q, D) stands for any leading axes, none included; `@` takes them all."
        )
    return None


def one_score_a_query(scores: Tensor, queries: Tensor, keys: Tensor) -> str | None:
    """The bug that was given, in any dress."""
    if not isinstance(scores, Tensor):
        return None
    pairs = (queries * keys).sum(dim=-1)
    if scores.shape == (2, 2):
        if torch.equal(scores, pairs.diag()):
            return (
                "Your scores are 0 off the diagonal: query 0 never met key 1. Every query has to "
                "meet every key."
            )
        if torch.equal(scores, pairs.expand(2, 2)) or torch.equal(scores.mT, pairs.expand(2, 2)):
            return (
                "The shape is right, but your scores are the old ones, copied: there are two "
                "different numbers where four pairs make four."
            )
        return None
    if scores.numel() != 2:
        return None
    if scores.flatten().tolist() != pairs.tolist():
        return (
            f"Your result has shape {tuple(scores.shape)}: two numbers for 2 queries and 2 keys. "
            "Two queries that ask two keys make 4 scores."
        )
    return (
        "Still one score a query, that of query i with key i, in shape "
        f"{tuple(scores.shape)}. Query 0 asks key 1 as well: 2 queries and 2 keys make 4 scores."
    )


def not_summed(scores: Tensor, *_: Tensor) -> str | None:
    if isinstance(scores, Tensor) and scores.shape == (2, 2, 2):
        return (
            "Every query meets every key now, but your result still has an axis for the D single "
            "products: a score is one number, their sum."
        )
    return None


def pairs_kept_as_a_column(queries, keys):
    return (queries * keys).sum(-1, keepdim=True)


def pairs_by_zip(queries, keys):
    return torch.stack([q @ k for q, k in zip(queries, keys, strict=False)])


def pairs_on_the_diagonal(queries, keys):
    return torch.diag_embed((queries * keys).sum(-1))


def pairs_copied(queries, keys):
    pairs = (queries * keys).sum(-1, keepdim=True)
    return pairs.expand(*pairs.shape[:-1], keys.shape[-2])


def pairs_of_as_many_keys(queries, keys):
    return (queries * keys[..., : queries.shape[-2], :]).sum(-1)


def sum_over_the_wrong_axis(queries, keys):
    return (queries * keys).sum(0)


def elementwise_with_the_keys_turned(queries, keys):
    return queries * keys.transpose(-2, -1)


def queries_turned(queries, keys):
    return queries.transpose(-2, -1) @ keys


def cosine(queries, keys):
    return torch.cosine_similarity(queries.unsqueeze(-2), keys.unsqueeze(-3), dim=-1)


def keys_in_the_rows(queries, keys):
    return keys @ queries.transpose(-2, -1)


def product_without_transpose(queries, keys):
    return queries @ keys


def all_products_unsummed(queries, keys):
    return queries.unsqueeze(-2) * keys.unsqueeze(-3)


def scaled_as_well(queries, keys):
    return queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5


def softmax_as_well(queries, keys):
    return (queries @ keys.transpose(-2, -1)).softmax(dim=-1)


def loop_that_ends_with_the_queries(queries, keys):
    n = queries.shape[-2]
    rows = [[(queries[..., i, :] * keys[..., j, :]).sum(-1) for j in range(n)] for i in range(n)]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def one_sentence_only(queries, keys):
    return torch.einsum("qd,kd->qk", queries, keys)


def axes_counted_from_the_front(queries, keys):
    return (queries.unsqueeze(1) * keys.unsqueeze(0)).sum(-1)


def sentences_mixed(queries, keys):
    return torch.tensordot(queries, keys, dims=([-1], [-1]))


def batches_only(queries, keys):
    return torch.bmm(queries, keys.transpose(1, 2))


def batches_only_by_broadcasting(queries, keys):
    return (queries.unsqueeze(2) * keys.unsqueeze(1)).sum(3)


repair_the_scores = Exercise(
    id="3.2",
    title="Who meets whom?",
    task=(
        "`all_scores(queries, keys)` should give the dot product of every query with every key: "
        "`queries` (*, Q, D), `keys` (*, K, D), scores (*, Q, K), where * is any leading axes, "
        "also none. It runs for Q = K, so its author thought it was right. Repair it."
    ),
    difficulty="easy",
    minutes=5,
    hints=[
        "Two queries, two keys: how many scores should come out, and how many do?",
        "`*` multiplies entry by entry, so query i only ever meets key i. Which product takes "
        "every row with every row?",
        "A matrix product takes rows with columns: what must happen to the keys first, and to "
        "which two axes?",
    ],
    stub=all_scores,
    solution=all_scores_solution,
    explanation=(
        "`*` pairs query i with key i and needs Q = K (or a single query, which broadcasting "
        "copies). The matrix product pairs every query with every key; `transpose(-2, -1)` "
        "turns the keys and leaves the leading axes alone."
    ),
    steps=[
        needs_a_batch,
        holds(one_score_a_query, [SQUARE]),
        holds(not_summed, [SQUARE]),
        unlike(
            keys_in_the_rows,
            "Your scores have a row for each key and a column for each query; the task wants it "
            "the other way round, (Q, K).",
            SQUARE,
        ),
        unlike(
            product_without_transpose,
            "A matrix product it is, but your entry [0, 0] is query 0 times the keys' first "
            "column: the first numbers of all keys. A key is a row.",
            SQUARE,
        ),
        unlike(
            elementwise_with_the_keys_turned,
            "`*` still goes entry by entry, with the keys turned as without. A score is a sum "
            "of D products.",
            SQUARE,
        ),
        unlike(
            queries_turned,
            "You turned the queries: your entry [0, 0] sums over the tokens. A score sums over "
            "the D numbers of one query and one key.",
            SQUARE,
        ),
        unlike(
            cosine,
            "All pairs are there, but these are cosines: the lengths are divided away. The task "
            "asks for plain dot products.",
            SQUARE,
        ),
        unlike(
            scaled_as_well,
            "All pairs are there, but you also divide by √D. The task asks for plain dot products.",
            SQUARE,
        ),
        unlike(
            softmax_as_well,
            "All pairs are there, but you also take the softmax. The task asks for the scores.",
            SQUARE,
        ),
        agrees(dot_score, [SQUARE]),
        also_right_for(
            dot_score,
            [UNEQUAL],
            "With as many queries as keys your scores are right; with 2 queries and 3 keys they "
            "are not. Something in your code still counts on Q = K.",
        ),
        also_right_for(
            dot_score,
            BATCHES,
            "For one sentence your scores are right, for a batch they are not. Every sentence "
            "needs its own product, so count axes from the end (-1, -2): in front of them stand "
            "the sentences.",
        ),
    ],
    wrong=[
        Wrong(pairs_kept_as_a_column, "Still one score a query"),
        Wrong(pairs_by_zip, "Still one score a query"),
        Wrong(pairs_of_as_many_keys, "Still one score a query"),
        Wrong(pairs_on_the_diagonal, "0 off the diagonal"),
        Wrong(pairs_copied, "the old ones, copied"),
        Wrong(sum_over_the_wrong_axis, "two numbers for 2 queries and 2 keys"),
        Wrong(keys_in_the_rows, "a row for each key"),
        Wrong(product_without_transpose, "A key is a row"),
        Wrong(elementwise_with_the_keys_turned, "entry by entry"),
        Wrong(queries_turned, "You turned the queries"),
        Wrong(cosine, "these are cosines"),
        Wrong(all_products_unsummed, "a score is one number"),
        Wrong(scaled_as_well, "you also divide by √D"),
        Wrong(softmax_as_well, "you also take the softmax"),
        Wrong(loop_that_ends_with_the_queries, "still counts on Q = K"),
        Wrong(one_sentence_only, "for a batch they are not"),
        Wrong(axes_counted_from_the_front, "count axes from the end"),
        Wrong(sentences_mixed, "Every sentence needs its own product"),
        Wrong(batches_only, "not for a single one"),
        Wrong(batches_only_by_broadcasting, "not for a single one"),
    ],
)
