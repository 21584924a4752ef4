"""12.10: two mistakes that hide each other."""

import torch

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values, mask=None):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5  # (B, Q, K)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    return weights @ values  # (B, Q, V)


def by_pytorch(queries, keys, values, mask=None):
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(queries, keys, values, attn_mask=mask)


def after_the_softmax(queries, keys, values, mask=None):
    weights = (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights if mask is None else weights * mask) @ values


def test_hidden_by_each_other(attend):
    """Pass where a mask hides keys from queries, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask=None)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and a
    mask (B, Q, K), True where a query may attend (to one key at least). It returns (B, Q, V).
    Without a mask both implementations are right, whatever the sizes.
    """
    ...


def test_hidden_by_each_other_solution(attend):
    queries, keys, values = torch.randn(2, 5, 7), torch.randn(2, 5, 7), torch.randn(2, 5, 11)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    mask = torch.stack([causal, torch.eye(5, dtype=torch.bool)])  # each sentence has its own
    output = attend(queries, keys, values, mask)
    torch.testing.assert_close(output[0, 0], values[0, 0])  # token 0 sees only itself
    torch.testing.assert_close(output[1], values[1])  # each token sees only itself


# Seen, too, at https://github.com/lsdefine/attention-is-all-you-need-keras/issues/6
hidden_by_each_other = exhibit(
    **heading("12.10", "Right, until somebody adds a mask", "hard", minutes=12),
    section="Six more exhibits",
    right=attend,
    bug={
        "queries @ keys.mT": "keys @ queries.mT",
        "(B, Q, K)": "(B, K, Q)",
        "dim=-1": "dim=-2",
        "weights @ values": "weights.mT @ values",
    },
    what="has its scores transposed, (B, K, Q), and a softmax over axis -2 that makes up for it "
    "(a mask is then an error unless Q equals K, or one of them is 1)",
    also_right=[by_pytorch],
    blind=[
        (
            lambda mask: mask is None or mask.all(),
            "Without a mask, or with one that hides nothing, the two mistakes cancel. What comes "
            "between them?",
        ),
        (
            lambda mask: (
                mask is None or mask.shape[-2] == mask.shape[-1] and (mask == mask.mT).all()
            ),
            "Your mask is its own transpose. Which mask is not?",
        ),
        (
            lambda values: (values == values[:, :1]).all(),
            "All your values are alike, and their average is the same whoever sees whom. Let the "
            "tokens differ.",
        ),
    ],
    more=[
        Suspect(
            after_the_softmax,
            "hides keys after the softmax, so that they keep their share of the weight",
            [(lambda: True, "A hidden *value* changes nothing there; a hidden *key* does. Change "
              "both.")],
        ),
        Suspect(
            {"masked_fill(~mask": "masked_fill(~mask[:1]"},
            "gives all sentences the mask of the first",
            [
                (lambda mask: mask is None or (mask == mask[:1]).all(),
                 "All your sentences have the same mask. Let them differ."),
                (lambda: True, "The first sentence is right there. Look at the others, too."),
            ],
        ),
    ],
    stub=test_hidden_by_each_other,
    solution=test_hidden_by_each_other_solution,
    explanation="Scores (K, Q) with a softmax over axis -2 are right: the keys share each query's "
    "weight. Then somebody adds a mask (Q, K), between the two mistakes. Where Q and K differ and "
    "neither is 1, it does not fit, and one sees it; where they are equal, it is applied "
    "transposed, so that a causal mask shows the future and hides the past. Tests of the parts "
    "would have found each mistake; a test of the whole has to use every input that there is.",
    hints=[
        "Without a mask the two cancel, whatever the sizes. What is added between scores and "
        "softmax?",
        "A transposed mask is an error where Q and K differ. So take as many queries as keys, "
        "and a mask that is not its own mirror image.",
        "Try a causal mask. What must token 0 get?",
    ],
    test_options=noise(attend)
    | dict(notice="Who sees whom? With a causal mask token 0 sees only itself: what must it get?"),
)  # fmt: skip
