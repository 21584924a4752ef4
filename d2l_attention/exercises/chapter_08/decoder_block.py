"""8.4: a decoder block, post-norm or pre-norm. What can go wrong is in ``block_table.py``."""

import torch
from torch import Tensor, nn

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_08 import block_mistakes as mistakes
from d2l_attention.exercises.chapter_08 import blocks
from d2l_attention.exercises.chapter_08.block_table import named
from d2l_attention.exercises.chapter_08.blocks import block_with, right
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import alike, because, normal
from d2l_attention.exercises.steps import agrees, explains, like


def decoder_block(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm): ...


def decoder_block_solution(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    sublayers = (lambda Y: attention1(Y, Y, Y), lambda Y: attention2(Y, sources, sources), ffn)
    for f, norm in zip(sublayers, norms, strict=True):
        if pre_norm:
            X = X + dropout(f(norm(X)))
        else:
            X = norm(X + dropout(f(X)))
    return X


class Named:
    """A layer of a check, with a name to be shown by; it notes nothing and remembers nothing."""

    def __init__(self, name: str, layer):
        self.__name__, self.layer = name, layer

    def __call__(self, *inputs: Tensor) -> Tensor:
        return self.layer(*inputs)


def attention(name: str, W: Tensor) -> Named:
    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        weights = (queries @ W @ keys.mT).softmax(dim=-1)
        return weights @ values @ W.mT

    return Named(name, attend)


def layer_norm(name: str, scale: Tensor, shift: Tensor) -> Named:
    size = scale.shape
    return Named(name, lambda X: nn.functional.layer_norm(X, size, 1 + scale / 2, shift))


def drop(X: Tensor) -> Tensor:
    """A dropout that always takes the second number of each token, and makes up for it."""
    kept = torch.full((X.shape[-1],), X.shape[-1] / (X.shape[-1] - 1))
    kept[1] = 0.0
    return X * kept


def layers(seed: int, D: int) -> tuple:
    A, B, C, scales, shifts = normal(seed, (D, D), (D, D), (D, D), (3, D), (3, D))
    norms = [layer_norm(f"norm{i}", scales[i], shifts[i]) for i in range(3)]
    return (
        attention("self_attention", A),
        attention("cross_attention", B),
        Named("ffn", lambda X: (X @ C).tanh()),
        norms,
        Named("dropout", drop),
    )


def random_case(seed: int, B: int, T: int, S: int, D: int, pre_norm: bool) -> tuple:
    X, sources = normal(seed + 50, (B, T, D), (B, S, D))
    return X, sources, *layers(seed, D), pre_norm


# As many target as source tokens: what is swapped fits, and can be named.
TOKENS = (
    torch.tensor([[[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]]),
    torch.tensor([[[2.0, 0.0, 1.0], [1.0, 1.0, 0.0]]]),
    *layers(0, 3),
)
POST, PRE = (*TOKENS, False), (*TOKENS, True)
OTHER_SIZES = [
    random_case(seed, *sizes, pre_norm)
    for seed, sizes in enumerate([(2, 3, 5, 7), (3, 5, 2, 3), (2, 1, 4, 5)], start=1)
    for pre_norm in (False, True)
]
ERRORS = {
    "missing 1 required": "Attention takes queries, keys and values, also where they are the same.",
    "missing 2 required": "Attention takes queries, keys and values, also where they are the same.",
    "'list' object is not callable": "`norms` is a list of three: one for each sublayer.",
}
PRE_FAILS = "Post-norm is right. With `pre_norm` your block is not."
SIZES = (
    "Where target and source are equally long your block is right. Here they are not: queries "
    "come from the target, keys and values from the source."
)


def flag_turned_round(attempt: Attempt) -> str | None:
    if not alike(attempt(*POST), right(*PRE)) or not alike(attempt(*PRE), right(*POST)):
        return None
    return (
        "`pre_norm` is turned round: where it is False your block normalises before the sublayer, "
        f"and where it is True after it. Smallest case that shows it: {attempt.case(POST)}."
    )


def wrong_parts(diagnosis: str, **parts) -> Wrong:
    return Wrong(block_with(**parts), diagnosis)


write_decoder_block = Exercise(
    id="8.4",
    title="Write a decoder block",
    task=(
        "Complete `decoder_block(X, sources, attention1, attention2, ffn, norms, dropout, "
        "pre_norm)`: three sublayers, `attention1` among the tokens X (B, T, D), `attention2` from "
        "them to `sources` (B, S, D), then `ffn`, each with a residual connection and a norm. "
        "Return what comes out of the last one, (B, T, D). Call an attention as "
        "`attention(queries, keys, values)`; it has its mask inside. `norms` is a list of three "
        "layer norms, one a sublayer, in their order. `dropout` is a function and falls on what a "
        "sublayer gives. `sources` is the encoder's output and needs no norm here. `pre_norm` is "
        "True or False."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "All three sublayers are treated alike. Write post-norm for one of them first, as a line "
        "with `f`, `norm` and `dropout`; then the line for pre-norm.",
        "In one of the two lines `norm` stands around the sum, in the other around what `f` gets. "
        "In both, the X that is added is as it came.",
        "`lambda Y: attention1(Y, Y, Y)` makes a sublayer of one argument out of an attention. For "
        "`attention2`: who asks, and who is asked? Then one loop over three.",
    ],
    stub=decoder_block,
    solution=decoder_block_solution,
    explanation=(
        "Post-norm is norm(X + dropout(f(X))), pre-norm X + dropout(f(norm(X))): one line each, "
        "for all three sublayers. In post-norm every number passes the norm; in pre-norm X runs "
        "from the block's input to its output by additions alone, and dropout never touches it. "
        "The target asks, so the output is as long as the target, however long the source."
    ),
    steps=[
        explains(ERRORS, [POST]),
        like(right, [POST, PRE]),
        flag_turned_round,
        named(POST),
        agrees(right, [POST]),
        because(PRE_FAILS, named(PRE)),
        because(PRE_FAILS, agrees(right, [PRE])),
        because(SIZES, agrees(right, OTHER_SIZES)),
    ],
    wrong=[
        Wrong(mistakes.flag_ignored, "that is post-norm"),
        Wrong(mistakes.always_pre_norm, "that is pre-norm"),
        Wrong(mistakes.flag_turned_round, "`pre_norm` is turned round"),
        wrong_parts("that is pre-norm", post=blocks.pre),
        wrong_parts("The residual connection is missing", post=blocks.post_without_residual),
        wrong_parts("The residual connection is missing", pre=blocks.pre_without_residual),
        wrong_parts("You normalise before you add", post=blocks.norm_then_sum),
        wrong_parts("what comes out of the sublayer", pre=blocks.norm_then_sum),
        wrong_parts("You normalise before you add", post=blocks.norm_dropout_sum),
        wrong_parts("the sum has to be normalised", post=blocks.no_norm),
        wrong_parts("what goes into the sublayer has to be", pre=blocks.no_norm),
        wrong_parts("You normalise twice", post=blocks.norm_twice),
        wrong_parts("Pre-norm does the first alone", pre=blocks.norm_twice),
        wrong_parts("carries the normalised X", pre=blocks.residual_normalised),
        wrong_parts("all begin at the block's own input", post=blocks.post_from_the_beginning),
        wrong_parts("all begin at the block's own input", pre=blocks.pre_from_the_beginning),
        wrong_parts("The dropout is missing", post=blocks.post_without_dropout),
        wrong_parts("Your dropout falls on the sum", post=blocks.post_dropout_on_the_sum),
        wrong_parts("Your dropout falls on the sum", pre=blocks.pre_dropout_on_the_sum),
        wrong_parts("on the normalised sum", post=blocks.dropout_on_the_norm),
        wrong_parts("what goes into the sublayer", post=blocks.post_dropout_on_the_way_in),
        wrong_parts("queries and keys are swapped", cross=blocks.source_asks),
        wrong_parts("`sources` never get in", cross=blocks.only_the_target),
        wrong_parts("the source asks itself", cross=blocks.only_the_source),
        wrong_parts("the values from the target", cross=blocks.target_as_values),
        wrong_parts("the keys from the target", cross=blocks.target_as_keys),
        wrong_parts("You ask the source first", order=(1, 0, 2)),
        wrong_parts("`ffn` is missing", order=(0, 1)),
        wrong_parts("never reads the source", order=(0, 2)),
        wrong_parts("One norm serves all three", norm_of=(0, 0, 0)),
        wrong_parts("Two mistakes at once", post=blocks.pre, cross=blocks.source_asks),
        Wrong(blocks.only_queries_normalised, "neither its keys nor its values"),
        Wrong(blocks.sources_normalised, "You normalise `sources`"),
        Wrong(blocks.norm_at_the_end, "once, after its last block"),
        Wrong(blocks.all_side_by_side, "side by side"),
        wrong_parts("`attention2` and `ffn` have no residual", bare=(1, 2)),
        wrong_parts("`ffn` has no residual", bare=(2,)),
        Wrong(mistakes.one_argument, "Attention takes queries, keys and values"),
        Wrong(mistakes.one_norm, "`norms` is a list of three"),
        Wrong(mistakes.adds_in_place, "changes its input"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
        Wrong(mistakes.returns_the_sources, "it should return a tensor"),
        Wrong(mistakes.cross_swapped_where_it_fits, "Here they are not"),
    ],
)
