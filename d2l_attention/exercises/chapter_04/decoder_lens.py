"""4.4: lengths per query that hide the padding and the future."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.compare import form_differs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import kind
from d2l_attention.exercises.steps import explains, holds


def decoder_lens(valid_lens, num_steps): ...


def decoder_lens_solution(valid_lens, num_steps):
    up_to_me = torch.arange(1, num_steps + 1)  # query i sees itself and the i keys before it
    return torch.minimum(up_to_me, valid_lens[:, None])


CASES = [
    (torch.tensor([2]), 3),
    (torch.tensor([0]), 2),
    (torch.tensor([2, 0, 3]), 3),
    (torch.tensor([3, 0, 5, 2]), 5),
    (torch.tensor([4, 1]), 7),
]
TWO_SENTENCES = (torch.tensor([2, 3]), 3)
STOPS_AT_TWO = {
    "": (
        "Your function works for one sentence and stops at two. Lengths (B,) and steps (Q,) must "
        "line up to (B, Q)."
    )
}


def lengths_per_query(result: Any, valid_lens: Tensor, num_steps: int) -> str | None:
    right = decoder_lens_solution(valid_lens, num_steps)
    if not isinstance(result, Tensor):
        return form_differs(result, right)
    batch, queries = right.shape
    if result.dtype == torch.bool:
        return (
            f"Your result is bool, of shape {tuple(result.shape)}: a mask. Asked for are the "
            "lengths that `length_mask` makes it from: how many keys does each query see?"
        )
    shapes = {
        (queries, batch): "The sentences have to be the rows and the queries the columns.",
        (batch,): "That is one length a sentence. Under a causal mask each query has its own.",
        (batch, 1): "That is one length a sentence. Under a causal mask each query has its own.",
        (queries,): "The axis of the sentences is missing: each has its own padding.",
        (1, queries): "That is the same for every sentence, but each has its own padding.",
        (batch, queries, queries): "One number for each query is enough, not one for each key.",
    }
    if result.shape != right.shape:
        why = shapes.get(tuple(result.shape), "One length for each query of each sentence.")
        wanted = f"it should be (B, Q) = {(batch, queries)}"
        return f"Your result has shape {tuple(result.shape)}; {wanted}. {why}"
    if result.is_floating_point():
        return f"Your lengths are {kind(result.dtype)}; a number of keys is an integer."
    return None


def right_lengths(lens: Tensor, valid_lens: Tensor, num_steps: int) -> str | None:
    right = decoder_lens_solution(valid_lens, num_steps)
    if torch.equal(lens.to(right.dtype), right):
        return None
    for mistake, why in MISTAKES.items():
        if torch.equal(lens.to(right.dtype), mistake(valid_lens, num_steps)):
            return why
    sentence, query = (lens != right).nonzero()[0].tolist()
    size = "large" if lens[sentence, query] > right[sentence, query] else "small"
    return (
        f"In sentence {sentence}, query {query} gets length {lens[sentence, query]}: too {size}. "
        "Count the keys that stand at its own place or before it, and are words."
    )


def padding_only(valid_lens, num_steps):
    return valid_lens[:, None].repeat(1, num_steps)


def causal_only(valid_lens, num_steps):
    return torch.arange(1, num_steps + 1).repeat(len(valid_lens), 1)


def counted_from_zero(valid_lens, num_steps):
    return torch.minimum(torch.arange(num_steps), valid_lens[:, None])


def the_larger(valid_lens, num_steps):
    return torch.maximum(torch.arange(1, num_steps + 1), valid_lens[:, None])


def rows_hidden_as_well(valid_lens, num_steps):
    steps = torch.arange(1, num_steps + 1)
    return steps * (steps <= valid_lens[:, None])


def at_least_one(valid_lens, num_steps):
    return decoder_lens_solution(valid_lens, num_steps).clamp(min=1)


def turned_over(valid_lens, num_steps):
    return torch.minimum(torch.arange(num_steps, 0, -1), valid_lens[:, None])


def added(valid_lens, num_steps):
    return torch.arange(1, num_steps + 1) + valid_lens[:, None]


MISTAKES = {
    padding_only: (
        "Every query of a sentence gets the same length: the padding is hidden, the future is "
        "not. Query 0 may see itself, and nothing that comes later."
    ),
    causal_only: (
        "The future is hidden, the padding is not: your last query sees keys beyond "
        "`valid_lens`. Where do the sentences' own lengths come in?"
    ),
    counted_from_zero: (
        "Query 0 sees no key at all. These are numbers of keys, not positions, and every query "
        "may see its own position."
    ),
    the_larger: (
        "You took the larger of the two lengths: a key is visible then where one mask allows it. "
        "Both have to."
    ),
    rows_hidden_as_well: (
        "The padding's own queries get length 0. A mask hides keys, not queries: who asks from "
        "the padding may still see the words before it, and the loss ignores the answer."
    ),
    at_least_one: (
        "A sentence of length 0 has no word, and your queries see one key there: padding. "
        "`masked_softmax` can deal with a length of 0."
    ),
    turned_over: (
        "Your lengths fall from query to query. The later a query stands, the more keys stand "
        "before it."
    ),
    added: "You added the two lengths. A query sees as far as both of them allow.",
}


def in_columns(valid_lens, num_steps):
    return decoder_lens_solution(valid_lens, num_steps).T


def one_length_a_sentence(valid_lens, num_steps):
    return valid_lens.clamp(max=num_steps)


def one_row_for_all(valid_lens, num_steps):
    return torch.arange(1, num_steps + 1)


def the_mask_itself(valid_lens, num_steps):
    keys = torch.arange(num_steps)
    return (keys < valid_lens[:, None, None]) & (keys <= keys[:, None])


def as_floats(valid_lens, num_steps):
    return decoder_lens_solution(valid_lens, num_steps).float()


def never_in_columns(valid_lens, num_steps):
    return torch.minimum(torch.arange(1, num_steps + 1), valid_lens)


def for_one_sentence(valid_lens, num_steps):
    return torch.arange(1, num_steps + 1).clamp(max=valid_lens.item())[None]


def as_lists(valid_lens, num_steps):
    return [[min(i + 1, n) for i in range(num_steps)] for n in valid_lens.tolist()]


def last_word_hidden(valid_lens, num_steps):
    return torch.minimum(torch.arange(1, num_steps + 1), (valid_lens[:, None] - 1).clamp(min=0))


write_decoder_lens = Exercise(
    id="4.4",
    title="Padding and future as lengths",
    task=(
        "Complete `decoder_lens(valid_lens, num_steps)`: from one length a sentence, shape (B,), "
        "to one length a query, integers of shape (B, Q) with Q = `num_steps`, so that "
        "`length_mask(decoder_lens(valid_lens, num_steps), num_steps)` is causal and hides the "
        "padding. A length may be 0."
    ),
    difficulty="medium",
    minutes=8,
    hints=[
        "Write down the lengths per query for one sentence of 2 words and 4 steps. How many keys "
        "does query 0 see, query 1, query 2?",
        "How many keys would query i see with a causal mask alone, how many with the padding "
        "alone? A key must pass both.",
        "`torch.minimum` broadcasts: (Q,) against (B, 1) gives (B, Q).",
    ],
    stub=decoder_lens,
    solution=decoder_lens_solution,
    explanation=(
        "Both masks show keys from the left, up to a number. A key passes both where it passes "
        "the shorter one, so a logical and of masks is a minimum of lengths. The padding's own "
        "queries keep the words; the loss ignores their answers."
    ),
    steps=[
        holds(lengths_per_query, CASES[:1]),
        explains(STOPS_AT_TWO, [TWO_SENTENCES]),
        holds(lengths_per_query, [TWO_SENTENCES, *CASES]),
        holds(right_lengths, CASES),
    ],
    wrong=[
        Wrong(padding_only, "the future is not"),
        Wrong(causal_only, "The future is hidden, the padding is not"),
        Wrong(counted_from_zero, "numbers of keys, not positions"),
        Wrong(the_larger, "Both have to."),
        Wrong(rows_hidden_as_well, "A mask hides keys, not queries"),
        Wrong(at_least_one, "A sentence of length 0 has no word"),
        Wrong(turned_over, "Your lengths fall"),
        Wrong(added, "You added the two lengths"),
        Wrong(in_columns, "The sentences have to be the rows"),
        Wrong(one_length_a_sentence, "one length a sentence"),
        Wrong(one_row_for_all, "The axis of the sentences is missing"),
        Wrong(the_mask_itself, "Asked for are the lengths"),
        Wrong(as_floats, "a number of keys is an integer"),
        Wrong(never_in_columns, "The axis of the sentences is missing"),
        Wrong(for_one_sentence, "must line up to (B, Q)"),
        Wrong(as_lists, "returned a list"),
        Wrong(last_word_hidden, "gets length 1: too small"),
    ],
)
