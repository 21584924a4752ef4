"""What can go wrong in 8.4 and what to say about it, one or two mistakes at a time."""

from collections.abc import Callable
from itertools import combinations

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_08 import blocks
from d2l_attention.exercises.chapter_08.blocks import block_with, right
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.helpers import alike

POST = [
    (
        {"post": blocks.pre},
        "You compute `X + dropout(f(norm(X)))`: that is pre-norm. Post-norm normalises the sum.",
    ),
    (
        {"post": blocks.post_without_residual},
        "The residual connection is missing: X itself is added to what its sublayer gives, and "
        "the sum is normalised.",
    ),
    (
        {"post": blocks.norm_then_sum},
        "You normalise before you add, `X + norm(dropout(f(X)))`. Post-norm normalises the sum.",
    ),
    (
        {"post": blocks.norm_dropout_sum},
        "You normalise before you add, `X + dropout(norm(f(X)))`. Post-norm normalises the sum.",
    ),
    ({"post": blocks.no_norm}, "No norm: the sum has to be normalised."),
    (
        {"post": blocks.norm_twice},
        "You normalise twice, before the sublayer and after the sum. Post-norm does the second "
        "alone.",
    ),
    (
        {"post": blocks.residual_normalised},
        "You normalise on the way in, and add nothing but that. Post-norm normalises the sum.",
    ),
    (
        {"post": blocks.post_from_the_beginning},
        "Your residual connections all begin at the block's own input. Each begins where its "
        "sublayer does: X is what came out of the sublayer before.",
    ),
    ({"post": blocks.post_without_dropout}, "The dropout is missing."),
    (
        {"post": blocks.post_dropout_on_the_sum},
        "Your dropout falls on the sum, so it hits the residual connection as well. It falls on "
        "what the sublayer gives, before X is added.",
    ),
    (
        {"post": blocks.dropout_on_the_norm},
        "Your dropout falls on the normalised sum, so it hits the residual connection as well. It "
        "falls on what the sublayer gives, before X is added.",
    ),
    (
        {"post": blocks.post_dropout_on_the_way_in},
        "Your dropout falls on what goes into the sublayer. It falls on what comes out.",
    ),
]
PRE = [
    (
        {"pre": blocks.post},
        "You compute `norm(X + dropout(f(X)))`: that is post-norm. Pre-norm normalises what goes "
        "into the sublayer, and leaves the sum alone.",
    ),
    (
        {"pre": blocks.residual_normalised},
        "Your residual connection carries the normalised X, as after `X = norm(X)`. It carries X "
        "as it came: only the sublayer gets to see the norm.",
    ),
    (
        {"pre": blocks.pre_without_residual},
        "The residual connection is missing: X itself is added to what its sublayer gives.",
    ),
    (
        {"pre": blocks.norm_then_sum},
        "You normalise what comes out of the sublayer. Pre-norm normalises what goes in.",
    ),
    (
        {"pre": blocks.norm_dropout_sum},
        "You normalise what comes out of the sublayer. Pre-norm normalises what goes in.",
    ),
    ({"pre": blocks.no_norm}, "No norm: what goes into the sublayer has to be normalised."),
    (
        {"pre": blocks.norm_twice},
        "You normalise twice, before the sublayer and after the sum. Pre-norm does the first "
        "alone.",
    ),
    (
        {"pre": blocks.pre_from_the_beginning},
        "Your residual connections all begin at the block's own input. Each begins where its "
        "sublayer does: X is what came out of the sublayer before.",
    ),
    ({"pre": blocks.pre_without_dropout}, "The dropout is missing."),
    (
        {"pre": blocks.pre_dropout_on_the_sum},
        "Your dropout falls on the sum, so it hits the residual connection as well. It falls on "
        "what the sublayer gives, before X is added.",
    ),
    (
        {"pre": blocks.pre_dropout_on_the_way_in},
        "Your dropout falls on what goes into the sublayer. It falls on what comes out.",
    ),
]
BOTH = [
    ({"bare": (2,)}, "`ffn` has no residual connection: every sublayer has one."),
    ({"bare": (1,)}, "`attention2` has no residual connection: every sublayer has one."),
    ({"bare": (0,)}, "`attention1` has no residual connection: every sublayer has one."),
    ({"bare": (1, 2)}, "`attention2` and `ffn` have no residual connection: every sublayer has."),
    (
        {"cross": blocks.source_asks},
        "In `attention2` queries and keys are swapped: your source asks the target. The target "
        "asks; keys and values come from the source. (Only where both are equally long does no "
        "error tell.)",
    ),
    (
        {"cross": blocks.only_the_target},
        "`sources` never get in: in `attention2` the target asks itself. Keys and values come "
        "from the source.",
    ),
    (
        {"cross": blocks.only_the_source},
        "In `attention2` the source asks itself. The target asks: queries come from X.",
    ),
    (
        {"cross": blocks.target_as_values},
        "In `attention2` the keys come from the source, and the values from the target. A key and "
        "its value belong to one word.",
    ),
    (
        {"cross": blocks.target_as_keys},
        "In `attention2` the values come from the source, and the keys from the target. A key and "
        "its value belong to one word.",
    ),
    (
        {"order": (1, 0, 2)},
        "You ask the source first. A decoder block begins among its own tokens: `attention1`, "
        "`attention2`, `ffn`.",
    ),
    (
        {"order": (2, 0, 1)},
        "You begin with `ffn`. The order is `attention1`, `attention2`, `ffn`.",
    ),
    ({"order": (0, 2, 1)}, "`ffn` stands between the attentions. It comes last."),
    ({"order": (0, 1)}, "`ffn` is missing."),
    ({"order": (0, 2)}, "`attention2` is missing: this block never reads the source."),
    ({"order": (1, 2)}, "`attention1` is missing: this block never reads the other tokens."),
    (
        {"norm_of": (0, 0, 0)},
        "One norm serves all three sublayers. Each has its own scale and shift: `norms[0]`, "
        "`norms[1]`, `norms[2]`.",
    ),
    ({"norm_of": (2, 1, 0)}, "The norms stand in the wrong order: `norms[0]` is `attention1`'s."),
]
SPECIAL = [
    (
        blocks.only_queries_normalised,
        "You normalise the queries of `attention1`, and neither its keys nor its values. All three "
        "are the same tokens: `Y = norm(X)`, then `attention1(Y, Y, Y)`.",
    ),
    (
        blocks.sources_normalised,
        "You normalise `sources` in the block. The encoder's last norm has done so, once for all "
        "blocks; the block's norms are for X.",
    ),
    (
        blocks.norm_at_the_end,
        "You normalise once more at the block's end. A pre-norm stack does that once, after its "
        "last block.",
    ),
    (
        blocks.all_side_by_side,
        "All three sublayers read the block's input, side by side. Each reads what the one before "
        "it has made.",
    ),
]


def candidates(pre_norm: bool) -> list[tuple[Callable, str]]:
    """Every mistake alone, then every two that can be made together."""
    parts = (PRE if pre_norm else POST) + BOTH
    alone = [(block_with(**wrong), why) for wrong, why in parts]
    pairs = [
        (block_with(**first, **second), f"Two mistakes at once. {why} The other: {and_why}")
        for (first, why), (second, and_why) in combinations(parts, 2)
        if not first.keys() & second.keys()
    ]
    return [*alone, *SPECIAL, *pairs]


def named(case: tuple) -> Step:
    """The result for ``case`` is none that one or two of these mistakes give."""

    def step(attempt: Attempt) -> str | None:
        got = attempt(*case)
        if alike(got, right(*case)):
            return None
        for mistake, why in candidates(pre_norm=case[-1]):
            if alike(got, mistake(*case)):
                return f"{why} Smallest case that shows it: {attempt.case(case)}."
        return None

    return step
