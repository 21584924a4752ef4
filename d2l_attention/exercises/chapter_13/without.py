"""13.9: an attention in which one head looks at nothing in particular."""

import torch

from d2l_attention.exercises.authoring import Case, Exercise, heading, instead_of, normal


def without(attention, head):
    """attention(queries, keys, values, mask) -> a function like it, in which a head has queries 0.

    queries are (B, H, Q, d); head counts from 0. All else is handed on to attention as it came,
    and no input is changed.
    """
    ...


def without_solution(attention, head):
    def attend(queries, keys, values, mask=None):
        queries = queries.clone()  # an input is never changed
        queries[:, head] = 0
        return attention(queries, keys, values, mask)

    return attend


def plain(queries, keys, values, mask=None):
    """The chapter's seven lines, but for the weights."""
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ values


def outputs_without(function, head, queries, keys, values, mask):
    """What the function's attention returns, and the queries afterwards."""
    queries = queries.clone()  # so that a function that changes it spoils nobody else's case
    outputs = function(plain, head)(queries, keys, values, mask=mask)
    if not isinstance(outputs, torch.Tensor):
        raise TypeError("no tensor came from your attention")
    return torch.cat((outputs, queries), dim=-1)


def random_case(seed, head, B, H, n, d):
    shapes = [(B, H, n, d)] * 3
    return head, *normal(seed, *shapes), torch.ones(n, n, dtype=torch.bool).tril()


ATTEND = "attention(queries, keys, values, mask)"

write_without = Exercise(
    **heading("13.9", "Take a head away", "easy", minutes=8),
    section="Ablation: take a head away",
    hints=[
        "`without` returns a function. Define it inside, with the arguments of `my_attention`, and "
        "return it, without calling it.",
        "The second axis of the queries counts the heads: `queries[:, head] = 0`. Change a copy, "
        "`queries.clone()`.",
        "The inner function ends with `return attention(queries, keys, values, mask)`.",
    ],
    stub=without,
    solution=without_solution,
    explanation="All scores of this head are now 0, so the softmax gives equal weights to all that "
    "the mask allows. The head still writes: the mean of the values so far.",
    run=outputs_without,
    cases=[
        Case(random_case(0, 1, 3, 4, 5, 6)),
        Case(random_case(1, 0, 2, 3, 4, 2), because="Here head 0 is taken away."),
        Case((2, *random_case(2, 2, 3, 4, 5, 6)[1:4], None), because="Here is no mask."),
    ],
    mistakes=[
        *instead_of(
            "queries.clone()",
            {
                "queries": "You changed the queries that you were given. Copy them first, with "
                "`queries.clone()`.",
                "torch.zeros_like(queries)": "You set the queries of all heads to 0.",
            },
        ),
        *instead_of(
            "queries[:, head] = 0",
            {
                "queries[head] = 0": "You set a sequence of the batch to 0. The heads are the "
                "second axis.",
                "queries[:, :, head] = 0": "You set the query of one *token* to 0, in all heads. "
                "The heads are the second axis.",
                "queries[..., head] = 0": "You set one number of each query to 0. The heads are "
                "the second axis.",
                "queries[:, head - 1] = 0": "You took the head before it: `head` counts from 0.",
                "values = values.clone(); values[:, head] = 0": "You set the values to 0, which "
                "silences the head. Set its queries to 0.",
                "pass": "Nothing is taken away.",
            },
        ),
        *instead_of(
            ATTEND,
            {
                "attention(queries, keys, values)": "You lost the mask: hand it on.",
                "attention(queries, queries, values, mask)": "Your keys are the queries.",
            },
        ),
    ],
    errors={
        "no tensor came": "The inner function must return what `attention` returns.",
        "not callable": "Return the inner function itself, without calling it.",
        "positional argument": "The inner function takes `queries, keys, values, mask=None`.",
        "unexpected keyword": "The inner function takes `queries, keys, values, mask=None`.",
    },
)
