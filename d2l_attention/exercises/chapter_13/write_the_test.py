"""13.5: a test that finds a mask the wrong way round inside a model, from outside."""

import torch

from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading, normal


def test_sees_only_the_past(model):
    """Pass where each token sees itself and all before it, and fail by an `AssertionError` if not.

    `model(tokens)` takes integers from 0 to 10, (B, n), n up to 32, and returns logits (B, n, 11).
    A test that looks only at the shape would be
    `assert model(torch.randint(11, (2, 8))).shape == (2, 8, 11)`.
    """
    ...


def test_sees_only_the_past_solution(model):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(11, (4, 12), generator=generator)
    before = model(tokens)
    for t in range(12):
        changed = tokens.clone()
        changed[:, t] = (tokens[:, t] + 1) % 11
        after = model(changed)
        torch.testing.assert_close(after[:, :t], before[:, :t])  # a later token changes nothing
        far = (after[:, t:] - before[:, t:]).abs().amax(dim=(0, 2))
        assert (far > 1e-4).all()  # an earlier one, and the token itself, change something


# A Llama of two layers, small enough to be read: no network after the attention, one head ---


WIDTH = 16
# In float64 inside: the logits of a shorter text are then the same to the last digit of float32.
EMBEDDING, *MATRICES = (X.double() for X in normal(0, (11, WIDTH), *[(WIDTH, WIDTH)] * 8))
LAYERS = [[matrix / WIDTH**0.5 for matrix in MATRICES[i : i + 4]] for i in (0, 4)]
SPEEDS = torch.arange(1, WIDTH + 1) / 3


def attend(X, layer, mask):
    """(B, n, D) -> (B, n, D). A token that may see nothing gets zeros, as in chapter 4."""
    W_q, W_k, W_v, W_o = layer
    scores = (X @ W_q) @ (X @ W_k).mT / WIDTH  # gentle: a test can see each token's weight
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0) @ X @ W_v @ W_o


def embed(tokens):
    positions = torch.arange(tokens.shape[1])[:, None]
    return EMBEDDING[tokens] + torch.sin(positions * SPEEDS)


def logits_of(X):
    return (X / X.norm(dim=-1, keepdim=True) @ EMBEDDING.T).float()


def small_model(tokens):
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    X = embed(tokens)
    X = X + attend(X, LAYERS[0], mask)
    X = X + attend(X, LAYERS[1], mask)
    return logits_of(X)


def running_means(tokens):
    """Another right one, without scores: each token adds the mean of all up to itself."""
    X = embed(tokens)
    so_far = X.cumsum(dim=1) / torch.arange(1, X.shape[1] + 1)[:, None]
    return logits_of(X + so_far)


TRIANGLE, SECOND = ".tril()", "attend(X, LAYERS[1], mask)"
FIRST_CALL = "Your test always gives the same tokens. Let two calls differ in one token."
PAST = (
    "No later token changes anything here, and no earlier one does, either. Ask for both: change "
    "an early token, and assert that the logits after it differ."
)

write_the_test = Exercise(
    **heading("13.5", "A mask that nobody sees", "medium", minutes=20),
    section="Two bugs in a trained model",
    hints=[
        "You cannot look at the mask, only at tokens and logits. Which logits may change when "
        "token 5 is replaced by another, and which may not?",
        "Call the model twice, with one token changed (a `clone()` first). All logits before it "
        "must agree: `torch.testing.assert_close`. All logits from it on must differ.",
        "Change each token in turn, the last one too. A change is real if some logit differs by "
        "more than rounding, such as 1e-4. Several rows of tokens at once make it safer.",
    ],
    stub=test_sees_only_the_past,
    solution=test_sees_only_the_past_solution,
    explanation="Nothing in a model of millions of parameters says that its mask is the wrong way "
    "round: the shapes are right, and the logits are ordinary numbers. Two calls that differ "
    "in one token show it from outside. The first question finds what sees the future, the "
    "second what is blind to the past. The same test runs on a model of the library: `lambda "
    "tokens: model(input_ids=tokens).logits`.",
    steps=[
        catches(
            small_model,
            Suspect({TRIANGLE: ""}, "has no mask at all"),
            Suspect(
                {TRIANGLE: ".tril().logical_not()"},
                "hands over True for the future, so that each token sees only what comes after it",
            ),
            Suspect({TRIANGLE: ".tril().T"}, "has its mask transposed"),
            Suspect(
                {SECOND: SECOND.replace("mask", "torch.ones(n, n, dtype=torch.bool).tril(1)")},
                "shows each token the one after it, too, in its second layer",
                [
                    (
                        lambda: True,
                        "Only the next token leaks. Change token t, and compare up to t - 1, that "
                        "one included.",
                    )
                ],
            ),
            Suspect(
                {SECOND: SECOND.replace("mask", "~mask")},
                "has the mask the wrong way round in its second layer only",
            ),
            Suspect(
                {TRIANGLE: ".tril() & torch.ones(n, n, dtype=torch.bool).tril().T"},
                "combines the mask with its transpose, so that each token sees only itself",
                [(lambda: True, PAST)],
            ),
            Suspect(
                {TRIANGLE: ".tril() & (torch.arange(n) > 0)"},
                "hides the first token, as if it were padding",
                [
                    (
                        lambda: True,
                        "Token 0 is hidden from all, and no other is. Change each token in turn, "
                        "the first one, too, and look at all logits from there on.",
                    )
                ],
            ),
            name="model",
            blind=[
                (lambda tokens: tokens.shape[1] == 1, "You give one token: there is no future."),
                (lambda tokens, first: torch.equal(tokens, first["tokens"]), FIRST_CALL),
            ],
            also_right=(running_means,),
            nothing=lambda *_: torch.randn(1),
            little=lambda tokens: torch.randn(*tokens.shape, 11),
            little_why="It even passes where the logits are drawn by lot. Compare the logits of "
            "two calls that differ in one token.",
            notice="Change one token, and compare all logits before it.",
            rounding="Compare by `torch.testing.assert_close`.",
        )
    ],
    seconds=20.0,  # the first `assert_close` of a process imports much
)
