"""8.3: who sees whom in a Transformer, as three masks.

Each case looks at one mask, as broadcast to (B, Q, K), and at the queries that are words:
what a padding query sees does not matter.
"""

import torch
from torch import Tensor

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, show


def three_masks(src_lens, tgt_lens, num_src, num_tgt):
    """Masks of the encoder, the decoder, and the decoder on the source; True = may attend.

    Lengths (B,) -> three boolean masks that broadcast to (B, S, S), (B, T, T) and (B, T, S),
    with S = num_src and T = num_tgt.

    One sentence of one word in two places, translated as two words, `three_masks(
    torch.tensor([1]), torch.tensor([2]), 2, 2)`, may give the masks [[[True, False]]],
    [[True, False], [True, True]] and [[[True, False]]].
    """
    ...


def three_masks_solution(src_lens, tgt_lens, num_src, num_tgt):
    words = torch.arange(num_src) < src_lens[:, None, None]  # (B, 1, S): for every query
    steps = torch.arange(num_tgt)
    past = steps <= steps[:, None]  # (T, T): each step sees itself and what comes before
    return words, past, words


ROLES = [
    "The encoder's self-attention",
    "The decoder's self-attention",
    "The decoder's attention to the source",
]


def axes(which, source, target):
    """Who asks and who is asked in this mask."""
    return [(source, source), (target, target), (target, source)][which]


def one_mask(three_masks, src_lens, tgt_lens, num_src, num_tgt, which):
    """The mask, or a sentence on its form."""
    result = three_masks(src_lens, tgt_lens, num_src, num_tgt)
    if result is None:
        return None
    masks = result if isinstance(result, tuple | list) else [result]
    if len(masks) != 3:
        got = "one result" if len(masks) == 1 else f"{len(masks)} results"
        return f"your function returned {got}; three masks are asked for."
    mask, shape = masks[which], (len(src_lens), *axes(which, num_src, num_tgt))
    if not isinstance(mask, Tensor):
        return f"a mask is a boolean tensor, yours is {show(mask)}."
    if mask.dtype != torch.bool:
        return f"your mask is {mask.dtype}. Here masks are bool: end with a comparison."
    lens, _ = axes(which, src_lens, tgt_lens)
    try:
        return mask.expand(shape) & (torch.arange(shape[1]) < lens[:, None])[..., None]
    except RuntimeError:
        why = "Rows are who asks, columns who is asked."
        if mask.shape == (shape[0], shape[2]):
            why = "A mask (B, K) has no axis for the queries: make it (B, 1, K)."
        return (
            f"your mask has shape {tuple(mask.shape)}, which does not broadcast to (B, Q, K) = "
            f"{shape}. {why}"
        )


def first_wrong_key(mask, *inputs):
    right = one_mask(three_masks_solution, *inputs)
    sentence, query, key = (mask != right).nonzero()[0].tolist()
    may = right[sentence, query, key]
    return (
        f"in sentence {sentence} your mask {'hides' if may else 'shows'} key {key} to query "
        f"{query}, which {'may' if may else 'may not'} see it."
    )


def cases(src_lens, tgt_lens, num_src, num_tgt, because=""):
    inputs = torch.tensor(src_lens), torch.tensor(tgt_lens), num_src, num_tgt
    told = f"`{src_lens = }, {tgt_lens = }, {num_src = }, {num_tgt = }`"
    return [
        Case((*inputs, which), f"{because}{role}:", shown=told) for which, role in enumerate(ROLES)
    ]


BATCHES = "For one sentence your masks are right. For several, or for other lengths, they are not. "
ENCODER, DECODER, CROSS = "return words", ", past", ", words"
PADDING = {
    "torch.ones_like(words)": "the source's padding is visible. Its embeddings are no words; hide "
    "them by `src_lens`. Hide columns, those who are asked, not rows, those who ask: the mask is "
    "(B, 1, K).",
    "~words": "your mask is turned over: the words are hidden, the padding is visible. True = may "
    "attend.",
    "(torch.arange(num_src) <= src_lens[:, None, None])": "one padding place is visible: a length "
    "of 2 shows words 0 and 1.",
    "(torch.arange(num_src) < tgt_lens[:, None, None])": "you hide by `tgt_lens`, which counts the "
    "target's words. Those asked are the source's.",
}
CROSS_STEPS = "(torch.arange(num_src) <= steps[:, None])"
OWN, SOURCES = "(steps < tgt_lens[:, None, None])", "(steps < src_lens[:, None, None])"
DECODERS = {
    "(steps <= steps[:, None] + 1)": "one too many: each token sees the next one, which is the "
    "very word that it should predict. It sees itself and what comes before: `key <= query`.",
    "past.mT": "the past is hidden and the future visible: rows are who asks, `key <= query`.",
    "~past": "your mask is turned over: the past is hidden, the future visible. True = may attend.",
}

write_three_masks = Exercise(
    **heading("8.3", "Three attentions, three masks", "easy", minutes=8),
    section="Three sublayers",
    stub=three_masks,
    solution=three_masks_solution,
    explanation="The source's padding is hidden from all who ask the source, encoder and decoder "
    "alike. The future is hidden where tokens ask tokens that are not written yet: only in the "
    "decoder's self-attention. `tgt_lens` is not needed: the target's padding stands behind "
    "its words, and the causal mask hides it from them. (To hide it twice is right, too.)",
    hints=[
        "For each of the three ask: who asks (rows), who is asked (columns), and which of those "
        "asked are padding, or not yet written?",
        "The source is there in full before the decoder writes its first word. So in which of the "
        "three is there a future?",
        "`torch.arange(K) < lens[:, None, None]` is (B, 1, K). Two ranges, one of them with an "
        "axis behind, compared by `<=`, are a causal mask (n, n).",
    ],
    cases=[
        *cases([2], [4], 5, 5),  # equally long: what belongs elsewhere fits, and can be named
        *cases([4], [2], 4, 4, BATCHES),
        *cases([2, 4, 1], [4, 3, 5], 4, 5, BATCHES),
        *cases([7, 3, 9, 1, 6, 2], [8, 1, 12, 5, 7, 3], 9, 12, BATCHES),
    ],
    mistakes=[
        *(Mistake({ENCODER: f"return {wrong}"}, why) for wrong, why in PADDING.items()),
        Mistake(
            {ENCODER: "return (torch.arange(num_src) <= torch.arange(num_src)[:, None])"},
            "the future is hidden. The source is there in full before anything is translated: each "
            "of its words may see all the others.",
        ),
        *instead_of(
            DECODER,
            {
                ", torch.ones_like(past)": "everything is visible, the future, too. Nobody has "
                "written it yet.",
                f", {OWN}": "the future is visible: your mask hides only the padding. A word that "
                "is not written yet cannot be seen, in training no more than in translation.",
                ", (steps < steps[:, None])": "one too few: no token sees itself, and the first "
                "sees nothing. What goes in at a place is the word before the one to predict: it "
                "may see itself, `key <= query`.",
            },
        ),
        # With and without the target's padding, which is hidden anyway.
        *(
            Mistake({DECODER: f", {wrong}{padding}"}, why)
            for wrong, why in DECODERS.items()
            for padding in ("", f" & {OWN}")
        ),
        *(Mistake({CROSS: f", {wrong}"}, why) for wrong, why in PADDING.items()),
        *(
            Mistake(
                {CROSS: f", {CROSS_STEPS}{padding}"},
                "your mask is causal, and there is no future in the source: it is there in full. "
                "The first word written may need the last word read.",
            )
            for padding in ("", " & words")
        ),
        *instead_of(
            "words, past, words",
            {
                "past, words, words": "the encoder's and the decoder's mask have changed places: "
                "the encoder's comes first.",
                "words, words, past": "the decoder's two masks have changed places: its own tokens "
                "come before the source.",
            },
        ),
    ],
    shapes=lambda result, *_: result if isinstance(result, str) else None,
    rules=[first_wrong_key],
    run=one_mask,
    pairs=False,  # each case looks at one mask
)
