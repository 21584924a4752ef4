"""9.7: a test of order for every form, those that are causal to rounding too."""

import torch
import torch.nn.functional as F

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Exercise, Mistake, Suspect, normal, with_mistakes
from d2l_attention.variants import elu_plus_one, long_convolution
from d2l_attention.variants.multi_token import key_query_convolution


def test_keeps_the_order(layer):
    """Pass on causal layers, and fail by an `AssertionError` on those that see the future.

    `layer` is a function: X (B, n, 8) -> (B, n, 8). A test that looks only at the shape would be
    `assert layer(torch.randn(2, 12, 8)).shape == (2, 12, 8)`.
    """
    ...


def test_keeps_the_order_solution(layer):
    generator = torch.Generator().manual_seed(0)
    X, other = torch.randn(2, 3, 12, 8, generator=generator)
    before = layer(X)
    for t in range(1, 12):
        # Another future, of ordinary numbers: a transform rounds by the largest of all.
        changed = torch.cat((X[:, :t], other[:, t:]), dim=1)
        torch.testing.assert_close(layer(changed)[:, :t], before[:, :t])


# The layers: X (B, n, 8), n up to 16 -> (B, n, 8) ------------------------------------------


W = [matrix / 8**0.5 for matrix in normal(0, (8, 8), (8, 8), (8, 8))]
KERNEL = torch.tensor([[[0.5, -1.0, 1.0], [-0.5, 1.0, 1.5]]])  # two queries, three keys
MIXING, TAPS = normal(1, (4, 16), (16, 8))  # of Linformer, of Hyena
TAPS *= (torch.arange(16) < 5)[:, None]


def projected(X):
    return [X @ matrix.to(X) for matrix in W]


def places_ahead(X):
    """(n, n): how many positions after the query a key is."""
    return torch.arange(X.shape[1]) - torch.arange(X.shape[1])[:, None]


def window(X):
    queries, keys, values = projected(X)
    ahead = places_ahead(X)
    mask = (-2 <= ahead) & (ahead <= 0)
    scores = (queries @ keys.mT / 8**0.5).masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ values


def multi_token(X):
    queries, keys, values = projected(X)
    hidden = places_ahead(X) > 0
    scores = (queries @ keys.mT / 8**0.5).masked_fill(hidden, 0.0)
    scores = key_query_convolution(scores[:, None], KERNEL.to(X))[:, 0]
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values


def linear(X):
    queries, keys, values = projected(X)
    queries, keys = elu_plus_one(queries), elu_plus_one(keys)
    weights = (queries @ keys.mT).tril()
    return weights @ values / weights.sum(dim=-1, keepdim=True)


def hyena(X):
    """Causal but for rounding: the transform touches all tokens at once."""
    gates, _, values = projected(X)
    return gates * long_convolution(values, TAPS.to(X))


def exact_hyena(X):
    """The same sum, term by term: no rounding passes from the future to the past."""
    gates, _, values = projected(X)
    n = X.shape[1]
    return gates * sum(F.pad(values, (0, 0, t, 0))[:, :n] * TAPS[t].to(X) for t in range(n))


def linformer(X):
    """Query i sees the first mixtures of all keys, as if they were keys."""
    queries, keys, values = projected(X)
    mixing = MIXING[:, : X.shape[1]].to(X)
    scores = queries @ (mixing @ keys).mT / 8**0.5
    later = torch.arange(4) > torch.arange(X.shape[1])[:, None]
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ (mixing @ values)


MASK, ROLLED = "(-2 <= ahead) & (ahead <= 0)", "values.roll(t, dims=1)"
everything = with_mistakes(window, Mistake({MASK: "ahead < 99"}, ""))
masked_too_late = with_mistakes(multi_token, Mistake({".masked_fill(hidden, 0.0)": ""}, ""))
total_of_all = with_mistakes(linear, Mistake({"weights.sum(": "(queries @ keys.mT).sum("}, ""))
coming_round = with_mistakes(exact_hyena, Mistake({"F.pad(values, (0, 0, t, 0))": ROLLED}, ""))
CAUSAL = (window, multi_token, linear, hyena)
ONE_AHEAD = (
    "It sees one token ahead, no more. Change the future from position t on, and compare up to "
    "position t - 1, that last one included."
)
NO_ROOM = "Your sequences have at most {} tokens: the leak has no room in them."


def fails_where_it_should_pass(attempt):
    failed = [each for each in CAUSAL if isinstance(attempt.error(each), AssertionError)]
    if not failed:
        return None
    spy = authoring.Spy(window)
    attempt.error(spy)
    if any(not call["X"].isfinite().all() for call in spy.calls):
        return (
            "Your test fails on causal layers, because it puts NaN or infinity in. A hidden key "
            "has the weight 0, and 0 times NaN is NaN. Change the future to ordinary numbers."
        )
    if failed == [hyena] and attempt.error(exact_hyena) is None:
        return (
            "Your test fails on a causal layer that convolves by a Fourier transform: Hyena. There "
            "the future changes the past by rounding, by about 1e-7 of the largest number that you "
            "put in. Take numbers of ordinary size, such as `torch.randn`. Do not ask for equal "
            "digits, or for a gradient of exactly 0: `torch.testing.assert_close` allows for it."
        )
    if len(failed) < len(CAUSAL):
        return (
            "Your test fails on some causal layers and not on others: on "
            f"{authoring.show(failed)}. Do not ask for particular numbers: ask whether the future "
            "changes them."
        )
    if attempt.error(everything) is None:
        return (
            "Your test fails on causal layers and passes on one without a mask: the comparison is "
            "the wrong way round. What should stay as it was?"
        )
    return (
        "Your test fails on causal layers. A token may see itself and what comes before it. And "
        "what the numbers are is none of the test's business."
    )


write_the_test = Exercise(
    **authoring.heading("9.7", "Does it keep the order?", "hard", minutes=30),
    section="No pairs at all: Hyena",
    hints=[
        "Two calls that agree up to position t, and differ after it, have to give the same outputs "
        "up to t. Which t, and how much of the future has to differ?",
        "One leak shows only in the token right before the change, one only in token 1, one most "
        "of all in the first tokens. So try all positions, and compare all that comes before.",
        "Hyena is causal to rounding: the transform spreads 1e-7 of the largest number over the "
        "whole column, and NaN over everything. What may the new future look like, and how should "
        "you compare?",
    ],
    stub=test_keeps_the_order,
    solution=test_keeps_the_order_solution,
    explanation="The test asks one question of every form, and knows none of them: does another "
    "future change the past? All positions are tried, since a single link leaks at one of them. "
    "The new future has ordinary numbers. NaN is a dye for what nobody may see; here every "
    "token is seen by somebody, and 0 times NaN is NaN. This Linformer cannot pass: its "
    "mixtures hold the future before anybody masks.",
    steps=[
        fails_where_it_should_pass,
        authoring.catches(
            window,
            Suspect(
                {MASK: "(-2 < ahead) & (ahead <= 1)"},
                "has a window off by one, so that each token sees the next",
                [(lambda: True, ONE_AHEAD)],
            ),
            Suspect(
                masked_too_late,
                "convolves the future's scores into those of the past and masks too late",
                [(lambda: True, ONE_AHEAD)],
            ),
            Suspect(linformer, "is a Linformer with a causal mask over its mixtures"),
            Suspect(
                {MASK: "(ahead % 3 == 0) & (ahead.abs() <= 3)"},
                "has a dilated window that sees the third token after each, no nearer one",
                [
                    (lambda X: X.shape[1] <= 3, NO_ROOM.format(3)),
                    (
                        lambda: True,
                        "Change all that comes after a position, not only the next token or two.",
                    ),
                ],
            ),
            Suspect(
                {MASK: "(ahead <= 0) | ((ahead == 3) & (torch.arange(len(ahead)) == 4))"},
                "is causal but for one random link: token 1 also sees token 4 (counted from 0)",
                [
                    (lambda X: X.shape[1] <= 4, NO_ROOM.format(4)),
                    (
                        lambda: True,
                        "Only the second token sees too much, and only one token of its future. "
                        "Try every position t: change all after it, compare all up to it.",
                    ),
                ],
            ),
            Suspect(
                total_of_all,
                "is linear attention that divides by a sum over all keys, the future's too",
            ),
            Suspect(
                coming_round,
                "convolves by a transform without zeros after the end, which comes round",
                [
                    (
                        lambda: True,
                        "Its last tokens reach its first ones. Change the future up to the very "
                        "end, and compare from the very beginning, closely.",
                    )
                ],
            ),
            name="layer",
            blind=[
                (
                    lambda X, first: torch.equal(X, first["X"]),
                    "Your test always gives the same tokens. Let two calls differ in the future, "
                    "and in nothing else. (After `b = a` both are one tensor: change a `clone()`.)",
                ),
                (
                    lambda X: torch.equal(X, X[:, :1].expand_as(X)),
                    "All tokens of your sequences are alike, and a mean of equal values tells "
                    "nothing.",
                ),
            ],
            also_right=CAUSAL[1:],
            nothing=lambda X: torch.rand(1),
            little=lambda X: 100 * torch.rand(X.shape),
            little_why="It even passes where outputs are drawn by lot. Is there an `assert` that "
            "nothing catches, and does it compare the outputs of two calls closely?",
            notice="Change all that comes after a position to other random numbers, and compare "
            "closely.",
        ),
    ],
    seconds=20.0,  # the first `assert_close` of a process imports much
)
