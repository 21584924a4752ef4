"""4.4: lengths per query that hide the padding and the future."""

import torch
from torch import Tensor

from d2l_attention.exercises.authoring import Case, Exercise, heading, instead_of


def decoder_lens(valid_lens, num_steps):
    """One length a sentence, (B,), -> one length a query, integers (B, Q); Q is num_steps.

    One sentence of 2 words in 4 steps: [2] gives [[1, 2, 2, 2]].
    """
    ...


def decoder_lens_solution(valid_lens, num_steps):
    up_to_me = torch.arange(1, num_steps + 1)  # query i sees itself and the i keys before it
    return torch.minimum(up_to_me, valid_lens[:, None])


EACH = "That is one length a sentence. Under a causal mask each query has its own."


def shapes(result, valid_lens, num_steps):
    batch, queries = len(valid_lens), num_steps
    if not isinstance(result, Tensor):
        return None
    if result.dtype == torch.bool:
        return "Your result is a mask. Asked for are the lengths that `length_mask` makes it from."
    return {
        (queries, batch): "The sentences have to be the rows and the queries the columns.",
        **dict.fromkeys([(batch,), (batch, 1)], EACH),
        (queries,): "The axis of the sentences is missing: each has its own padding.",
        (1, queries): "That is the same for every sentence, but each has its own padding.",
        (batch, queries, queries): "One number for each query is enough, not one for each key.",
        (batch, queries): "(B, Q)",
    }


STOPS_AT_TWO = "Your function stops at two sentences: (B,) and (Q,) must line up to (B, Q)."
SMALLER = "torch.minimum(up_to_me, valid_lens[:, None])"

write_decoder_lens = Exercise(
    **heading("4.4", "Padding and future as lengths", "medium", minutes=8),
    section="Padding and future together",
    stub=decoder_lens,
    solution=decoder_lens_solution,
    explanation="Both masks show keys from the left, up to a number. A key passes both where it "
    "passes the shorter one, so a logical and of masks is a minimum of lengths. The padding's own "
    "queries keep the words; the loss ignores their answers.",
    hints=[
        "Write down the lengths per query for one sentence of 3 words and 5 steps. How many keys "
        "does query 0 see, query 1, query 2?",
        "How many keys would query i see with only a causal mask, how many with only the "
        "padding hidden? A key must pass both.",
        "`torch.minimum` broadcasts: (Q,) against (B, 1) gives (B, Q).",
    ],
    cases=[
        Case((torch.tensor([2]), 3)),
        Case((torch.tensor([2, 3]), 3), errors={"": STOPS_AT_TWO}),
        Case((torch.tensor([0]), 2)),
        Case((torch.tensor([2, 0, 3]), 3)),
        Case((torch.tensor([3, 0, 5, 2]), 5)),
    ],
    mistakes=[
        *instead_of(
            SMALLER,
            {
                "valid_lens[:, None].repeat(1, num_steps)": "The padding is hidden, the future "
                "is not. Query 0 may see itself, and nothing that comes later.",
                "up_to_me.repeat(len(valid_lens), 1)": "The future is hidden, the padding is not: "
                "your last query sees keys beyond `valid_lens`.",
                "torch.maximum(up_to_me, valid_lens[:, None])": "You took the larger of the two "
                "lengths: a key is visible then where one mask allows it. Both have to.",
                "up_to_me * (up_to_me <= valid_lens[:, None])": "The padding's own queries get "
                "length 0. A mask hides keys, not queries: they may still see the words.",
                "torch.minimum(up_to_me, (valid_lens[:, None] - 1).clamp(min=0))": "The last word "
                "of each sentence is hidden. Length n shows keys 0 to n - 1: n of them.",
            },
        ),
        *instead_of(
            "torch.arange(1, num_steps + 1)",
            {
                "torch.arange(num_steps)": "Query 0 sees no key at all. These are numbers of keys, "
                "not positions, and every query may see its own position."
            },
        ),
    ],
    shapes=shapes,
)
