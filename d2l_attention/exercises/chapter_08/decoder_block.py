"""8.4: a decoder block, post-norm or pre-norm."""

import torch
from torch import nn

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def decoder_block(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    """Three sublayers, each with a residual connection and a norm: (B, T, D) -> (B, T, D).

    X is (B, T, D), `sources` (B, S, D).

    If each sublayer gives zeros, dropout keeps everything and each norm doubles what it gets,
    X = [[[1, -1]]] becomes [[[8, -8]]] in post-norm, and stays [[[1, -1]]] in pre-norm.
    """
    ...


def decoder_block_solution(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    sublayers = (lambda Y: attention1(Y, Y, Y), lambda Y: attention2(Y, sources, sources), ffn)
    for f, norm in zip(sublayers, norms, strict=True):
        if pre_norm:
            X = X + dropout(f(norm(X)))
        else:
            X = norm(X + dropout(f(X)))
    return X


def named(name, layer):
    """With the name that a case shows it by."""
    layer.__name__ = layer.__qualname__ = name
    return layer


def attention(name, W):
    def attend(queries, keys, values):
        return (queries @ W @ keys.mT).softmax(dim=-1) @ values @ W.mT

    return named(name, attend)


def layer_norm(name, scale, shift):
    size = scale.shape
    return named(name, lambda X: nn.functional.layer_norm(X, size, 1 + scale / 2, shift))


def drop(X):
    """A dropout that always takes the second number of each token, and makes up for it."""
    kept = X.new_full((X.shape[-1],), X.shape[-1] / (X.shape[-1] - 1))
    kept[1] = 0.0
    return X * kept


def with_layers(seed, X, sources, pre_norm):
    D = X.shape[-1]
    numbers = normal(seed, (D, D), (D, D), (D, D), (3, D), (3, D))
    A, B, C, scales, shifts = (each.to(X.dtype) for each in numbers)
    return (
        X,
        sources,
        attention("attention1", A),
        attention("attention2", B),
        named("ffn", lambda X: (X @ C).tanh()),
        [layer_norm(f"norm{i}", scales[i], shifts[i]) for i in range(3)],
        named("dropout", drop),
        pre_norm,
    )


def random_case(pre_norm, seed, B, T, S, D):
    return with_layers(seed, *normal(seed + 50, (B, T, D), (B, S, D)), pre_norm)


# As many target as source tokens: what is swapped fits, and can be named.
X = torch.tensor([[[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]])
SOURCES = torch.tensor([[[2.0, 0.0, 1.0], [1.0, 1.0, 0.0]]])
OTHERS = [(1, 2, 3, 5, 7), (2, 3, 5, 2, 3), (3, 2, 1, 4, 5)]
SIZES = (
    "Where target and source are equally long your block is right. Here they are not: queries "
    "come from the target, keys and values from the source."
)

# The pieces of the solution that mistakes replace.
POST, PRE = "norm(X + dropout(f(X)))", "X + dropout(f(norm(X)))"
ZIP, CROSS = "zip(sublayers, norms, strict=True)", "attention2(Y, sources, sources)"
NORM_INSIDE = (
    "You normalise before you add: what comes out of the sublayer. Post-norm normalises the sum, "
    "pre-norm what goes into the sublayer."
)
BEGIN = {"    for f": "    begin = X\n    for f"}
# In post-norm and in pre-norm.
EITHER = {
    ("norm(dropout(f(X)))", "dropout(f(norm(X)))"): "The residual connection is missing: X itself "
    "is added to what its sublayer gives.",
    ("X + norm(dropout(f(X)))",) * 2: NORM_INSIDE,
    ("X + dropout(f(X))",) * 2: "No norm: in post-norm the sum has to be normalised, in pre-norm "
    "what goes into the sublayer has to be.",
    ("norm(X + dropout(f(norm(X))))",) * 2: "You normalise twice, before the sublayer and after "
    "the sum. Post-norm does only the second, pre-norm only the first.",
    ("norm(X) + dropout(f(norm(X)))",) * 2: "Your residual connection carries the normalised X, as "
    "after `X = norm(X)`. It carries X as it came, in post-norm and in pre-norm.",
    ("norm(X + f(X))", "X + f(norm(X))"): "The dropout is missing: it falls on what the sublayer "
    "gives, before X is added.",
    ("norm(dropout(X + f(X)))", "dropout(X + f(norm(X)))"): "Your dropout falls on the sum, so it "
    "hits the residual connection as well. It falls on what the sublayer gives.",
    ("norm(begin + dropout(f(X)))", "begin + dropout(f(norm(X)))"): "Your residual connections all "
    "begin at the block's own input. Each begins where its sublayer does: X is what came out of "
    "the sublayer before.",
}


def bare(which, names):
    why = f"{names} no residual connection: every sublayer has one."
    return Mistake({"X + dropout": f"({which}) * X + dropout"}, why, everywhere=True)


ONE_WORD = "A key and its value belong to one word."
ORDERS = {
    (1, 0, 2): "You ask the source first. A decoder block begins among its own tokens: "
    "`attention1`, `attention2`, `ffn`.",
    (2, 0, 1): "`ffn` comes last. The order is `attention1`, `attention2`, `ffn`.",
    (0, 1): "`ffn` is missing.",
    (0, 2): "`attention2` is missing: this block never reads the source.",
    (1, 2): "`attention1` is missing: this block never reads the other tokens.",
}

write_decoder_block = Exercise(
    **heading("8.4", "Write a decoder block", "medium", minutes=12),
    section="The decoder's block",
    stub=decoder_block,
    solution=decoder_block_solution,
    explanation="Post-norm is norm(X + dropout(f(X))), pre-norm X + dropout(f(norm(X))): one line "
    "each, for all three sublayers. In post-norm every number passes the norm; in pre-norm X "
    "runs from the block's input to its output by additions only, and dropout never touches "
    "it. The target asks, so the output is as long as the target, however long the source.",
    hints=[
        "All three sublayers are treated alike. Write post-norm for one of them first, as a line "
        "with `f`, `norm` and `dropout`; then the line for pre-norm.",
        "In one of the two lines `norm` stands around the sum, in the other around what `f` gets. "
        "In both, the X that is added is as it came.",
        "`lambda Y: attention1(Y, Y, Y)` makes a sublayer of one argument out of an attention. For "
        "`attention2`: who asks, and who is asked? Then one loop over three.",
    ],
    cases=[
        Case(with_layers(0, X, SOURCES, False)),
        Case(
            with_layers(0, X, SOURCES, True),
            because="Post-norm is right. With `pre_norm` your block is not.",
        ),
        *(
            Case(random_case(pre_norm, *sizes), because=SIZES)
            for sizes in OTHERS
            for pre_norm in (False, True)
        ),
        Case(with_layers(0, X.double(), SOURCES.double(), False)),
        Case(with_layers(0, X.double(), SOURCES.double(), True)),
    ],
    mistakes=[
        Mistake(
            {"if pre_norm": "if not pre_norm"},
            "`pre_norm` is turned round: where it is False your block normalises before the "
            "sublayer, and where it is True after it.",
        ),
        Mistake(
            {POST: PRE}, f"You compute `{PRE}`: that is pre-norm. Post-norm normalises the sum."
        ),
        Mistake(
            {PRE: POST},
            f"You compute `{POST}`: that is post-norm. Pre-norm normalises what goes into the "
            "sublayer, and leaves the sum as it is.",
        ),
        *(
            Mistake({piece: wrong} | (BEGIN if "begin" in wrong else {}), why)
            for both, why in EITHER.items()
            for piece, wrong in zip((POST, PRE), both, strict=True)
        ),
        bare("f is not ffn", "`ffn` has"),
        bare("f is not sublayers[0]", "`attention1` has"),
        *instead_of(
            CROSS,
            {
                "attention2(sources, Y, Y)": "In `attention2` queries and keys are swapped: your "
                "source asks the target. The target asks; keys and values come from the source. "
                "(Only where both are equally long does no error tell.)",
                "attention2(Y, Y, Y)": "`sources` never get in: in `attention2` the target asks "
                "itself. Keys and values come from the source.",
                "attention2(sources, sources, sources)": "In `attention2` the source asks itself. "
                "The target asks: queries come from X.",
                "attention2(Y, sources, Y)": "In `attention2` the keys come from the source, and "
                "the values from the target. " + ONE_WORD,
            },
        ),
        *(
            Mistake({ZIP: f"zip([sublayers[i] for i in {order}], {norms}, strict=False)"}, why)
            for order, why in ORDERS.items()
            for norms in (f"[norms[i] for i in {order}]", "norms")  # its own, or as they stand
        ),
        *instead_of(
            ZIP,
            {
                "zip(sublayers, norms[::-1], strict=True)": "The norms stand in the wrong order: "
                "`norms[0]` is `attention1`'s."
            },
        ),
        Mistake(
            {"return X": "return norm(X) if pre_norm else X"},
            "You normalise once more at the block's end. A pre-norm stack does that once, after "
            "its last block.",
        ),
    ],
    errors={
        "required positional argument": "Attention takes queries, keys and values, also where they "
        "are the same.",
        "'list' object is not callable": "`norms` is a list of three: one for each sublayer.",
    },
    steps=[
        authoring.gradients_flow("X", "sources", why="The layers before the block could not learn.")
    ],
)
