"""8.3: who sees whom in a Transformer, as three masks. Named mistakes: ``mask_mistakes.py``."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention import causal_mask, combine_masks, length_mask
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_08 import mask_mistakes as mistakes
from d2l_attention.exercises.chapter_08.mask_table import ROLES, SHOWS, Sizes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because
from d2l_attention.exercises.show import kind
from d2l_attention.exercises.steps import holds


def three_masks(src_lens, tgt_lens, num_src, num_tgt): ...


def three_masks_solution(src_lens, tgt_lens, num_src, num_tgt):
    words = torch.arange(num_src) < src_lens[:, None, None]  # (B, 1, S): for every query
    steps = torch.arange(num_tgt)
    past = steps <= steps[:, None]  # (T, T): itself and what comes before
    return words, past, words


def by_the_package(src_lens, tgt_lens, num_src, num_tgt) -> tuple[Tensor, Tensor, Tensor]:
    """The target's padding hidden as well: right, too, and not needed."""
    words = length_mask(src_lens, num_src)
    return words, combine_masks(causal_mask(num_tgt), length_mask(tgt_lens, num_tgt)), words


def case(src_lens: list[int], tgt_lens: list[int], num_src: int, num_tgt: int) -> tuple:
    return torch.tensor(src_lens), torch.tensor(tgt_lens), num_src, num_tgt


# Equally long: what belongs elsewhere fits, and can be named.
ONE = case([2], [4], 5, 5)
OTHERS = [
    case([4], [2], 4, 4),
    case([2, 4, 1], [4, 3, 5], 4, 5),
    case([3, 5], [2, 1], 5, 2),
    case([1, 2], [2, 1], 2, 2),
    case([1], [1], 1, 1),
]
BATCHES = "For one sentence your masks are right. For several, or for other lengths, they are not."


def three_boolean_masks(result: Any, *inputs: Any) -> str | None:
    if not isinstance(result, tuple | list) or len(result) != 3:
        got = "one tensor" if isinstance(result, Tensor) else f"a {type(result).__name__}"
        got = f"{len(result)} results" if isinstance(result, tuple | list) else got
        return (
            f"Your function returned {got}; it should return three masks: the encoder's, the "
            "decoder's own, and the decoder's on the source."
        )
    sizes = Sizes(*inputs)
    for mask, (what, *axes) in zip(result, ROLES, strict=True):
        if found := no_mask_for(mask, what, sizes.shape(axes)):
            return found
    return None


def no_mask_for(mask: Any, what: str, shape: tuple[int, int, int]) -> str | None:
    if not isinstance(mask, Tensor):
        return f"{what}: a mask is a boolean tensor, yours is a {type(mask).__name__}."
    if mask.dtype != torch.bool:
        return (
            f"{what}: your mask is {kind(mask.dtype)}. Here masks are bool, True = may attend: "
            "end with a comparison."
        )
    if fits(mask, shape):
        return None
    if mask.ndim == 3 and fits(mask.mT, shape):
        why = "Queries and keys are swapped: rows are who asks, columns who is asked."
    elif mask.ndim == 2 and mask.shape == (shape[0], shape[2]):
        why = "A mask (B, K) has no axis for the queries: make it (B, 1, K)."
    else:
        why = "Rows are who asks, columns who is asked."
    return (
        f"{what}: your mask has shape {tuple(mask.shape)}, which does not broadcast to (B, Q, K) "
        f"= {shape}. {why}"
    )


def fits(mask: Tensor, shape: tuple[int, int, int]) -> bool:
    try:
        mask.expand(shape)
    except RuntimeError:
        return False
    return True


def right_masks(result: Any, *inputs: Any) -> str | None:
    """Of the rows that somebody reads: a padding query may see what it likes."""
    sizes = Sizes(*inputs)
    for number, (mask, (what, asks, asked)) in enumerate(zip(result, ROLES, strict=True)):
        shape = sizes.shape((asks, asked))
        mask, right = mask.expand(shape), three_masks_solution(*inputs)[number].expand(shape)
        read = sizes.words(asks)[..., None]
        if ((mask == right) | ~read).all():
            continue
        # Rows that nobody reads may still tell what was meant.
        for rows in (torch.ones_like(read), read):
            for wrong, why in SHOWS[number]:
                shown = wrong(sizes, asks, asked)
                if fits(shown, shape) and torch.equal(mask & rows, shown.expand(shape) & rows):
                    return f"{what}: {why}"
        sentence, query, key = ((mask != right) & read).nonzero()[0].tolist()
        verb = "hides" if right[sentence, query, key] else "shows"
        may = "may" if right[sentence, query, key] else "may not"
        return (
            f"{what}: in sentence {sentence} your mask {verb} key {key} to query {query}, which "
            f"{may} see it."
        )
    return None


def swapped_roles(attempt: Attempt) -> str | None:
    result = attempt(*ONE)
    encoder, decoder, cross = (mask.expand(1, 5, 5) for mask in result)
    words, past, _ = (mask.expand(1, 5, 5) for mask in three_masks_solution(*ONE))
    if torch.equal(encoder, past) and torch.equal(decoder, words):
        return (
            "The encoder's and the decoder's mask have changed places: the encoder's comes first. "
            f"Smallest case that shows it: {attempt.case(ONE)}."
        )
    if torch.equal(decoder, words) and torch.equal(cross, past):
        return (
            "The decoder's two masks have changed places: its own tokens come before the source. "
            f"Smallest case that shows it: {attempt.case(ONE)}."
        )
    return None


write_three_masks = Exercise(
    id="8.3",
    title="Three attentions, three masks",
    task=(
        "Complete `three_masks(src_lens, tgt_lens, num_src, num_tgt)` for a batch of source "
        "sentences (B, `num_src`) and target sentences (B, `num_tgt`), padded behind, with lengths "
        "(B,) of 1 or more. Return three boolean masks, True = may attend, each broadcastable to "
        "(B, Q, K): of the encoder's self-attention, of the decoder's self-attention, and of the "
        "decoder's attention to the source. What a padding query sees does not matter: nobody "
        "reads its output."
    ),
    difficulty="easy",
    minutes=8,
    hints=[
        "For each of the three ask: who asks (rows), who is asked (columns), and which of those "
        "asked are padding, or not yet written?",
        "The source is there in full before the decoder writes its first word. So in which of the "
        "three is there a future?",
        "`torch.arange(K) < lens[:, None, None]` is (B, 1, K). Two ranges, one of them with an "
        "axis behind, compared by `<=`, are a causal mask (n, n).",
    ],
    stub=three_masks,
    solution=three_masks_solution,
    explanation=(
        "The source's padding is hidden from all who ask the source, encoder and decoder alike. "
        "The future is hidden where tokens ask tokens that are not written yet: in the decoder's "
        "self-attention alone. `tgt_lens` is not needed: the target's padding stands behind its "
        "words, and the causal mask hides it from them. (To hide it twice is right, too.)"
    ),
    steps=[
        holds(three_boolean_masks, [ONE]),
        swapped_roles,
        holds(right_masks, [ONE]),
        because(BATCHES, holds(three_boolean_masks, OTHERS)),
        because(BATCHES, holds(right_masks, OTHERS)),
    ],
    wrong=[
        Wrong(mistakes.everything_visible, "Its embeddings are no words"),
        Wrong(mistakes.rows_hidden, "Hide columns"),
        Wrong(mistakes.causal_encoder, "The encoder's self-attention: the future is hidden"),
        Wrong(mistakes.causal_everywhere, "The encoder's self-attention: the future is hidden"),
        Wrong(mistakes.causal_cross, "no future in the source"),
        Wrong(mistakes.causal_cross_without_padding, "no future in the source"),
        Wrong(mistakes.padding_only, "the future is visible"),
        Wrong(mistakes.no_future_anywhere, "The decoder's self-attention: everything is visible"),
        Wrong(mistakes.strictly_past, "one too few"),
        Wrong(mistakes.one_step_ahead, "one too many"),
        Wrong(mistakes.future_only, "the past is hidden"),
        Wrong(mistakes.cross_by_target, "`tgt_lens`, which counts the target's words"),
        Wrong(mistakes.cross_unmasked, "Its embeddings are no words"),
        Wrong(mistakes.decoder_by_source, "`src_lens`, which counts the source's words"),
        Wrong(mistakes.inverted, "turned over"),
        Wrong(mistakes.cross_rows_by_target, "Hide columns"),
        Wrong(mistakes.queries_and_keys_swapped, "queries and keys are swapped"),
        Wrong(mistakes.encoder_and_decoder_swapped, "changed places: the encoder's comes first"),
        Wrong(mistakes.decoder_and_cross_swapped, "changed places: its own tokens"),
        Wrong(mistakes.without_query_axis, "no axis for the queries"),
        Wrong(mistakes.longest_for_all, "For one sentence your masks are right"),
        Wrong(mistakes.first_for_all, "For one sentence your masks are right"),
        Wrong(mistakes.two_masks, "2 results"),
        Wrong(mistakes.as_numbers, "Here masks are bool"),
        Wrong(mistakes.additive, "Here masks are bool"),
        Wrong(mistakes.one_word_too_many, "one padding place is visible"),
        Wrong(mistakes.last_word_hidden, "last word is hidden"),
    ],
)
