"""12.6: of all that a block computes, the first result that knows the future."""

import torch
import torch.nn.functional as F

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def first_leak(run, X, t):
    """The name of the first result that knows the future before token t, or None.

    X (B, n, D) are the vectors of the tokens, and `run(X)` returns a dict of names and results
    (B, n, ...), in the order in which they are computed. A result knows the future where one of
    its rows before t changes although X changes only from token t on.
    """
    ...


def first_leak_solution(run, X, t):
    other = X.clone()
    other[:, t:] = torch.randn_like(other[:, t:])  # another future
    before, after = run(X), run(other)
    for name in before:
        if not torch.allclose(before[name][:, :t], after[name][:, :t], atol=1e-5):
            return name
    return None


def means_so_far(X):
    """Nothing leaks."""
    counts = torch.arange(1, X.shape[1] + 1)[:, None]
    return {"doubled": 2 * X, "means so far": X.cumsum(dim=1) / counts}


def minus_the_mean(X):
    """The mean over all tokens leaks, and so does what follows from it."""
    centred = X - X.mean(dim=1, keepdim=True)
    return {"doubled": 2 * X, "centred": centred, "squared": centred**2}


def masked_scores(X):
    """-inf stays -inf; the values are those of the next token."""
    future = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).triu(1)
    scores = (X @ X.mT).masked_fill(future, -torch.inf)
    weights = scores.softmax(dim=-1)
    return {"scores": scores, "weights": weights, "output": weights @ X.roll(-1, dims=1)}


def after_a_norm(X):
    """A layer norm takes away what is added to all numbers of a token."""
    normed = F.layer_norm(X, X.shape[-1:])
    return {"normed": normed, "shifted": normed.roll(-1, dims=1), "sum": X + normed}


def at_the_end(X):
    """Only the last of four results leaks."""
    steps = means_so_far(X)
    halved = steps["means so far"] / 2
    return steps | {"halved": halved, "largest": halved + X.amax(dim=(1, 2), keepdim=True)}


def case(run, seed, t, because, B=2, n=5, D=3):
    return Case((run, *normal(seed, (B, n, D)), t), because=because, shown=because)


COMPARE = "torch.allclose(before[name][:, :t], after[name][:, :t], atol=1e-5)"
OWN = (
    "You compare rows that may differ, because token t and those after it were changed. Compare "
    "the rows before t of all sentences, `[:, :t]`."
)
CHANGE = "other[:, t:] = torch.randn_like(other[:, t:])  # another future"

find_first_leak = Exercise(
    **heading("12.6", "The first number that knows too much", "hard", minutes=15),
    section="12.6 · Too good, and the mask is right",
    pairs=False,
    stub=first_leak,
    solution=first_leak_solution,
    explanation="Two runs that differ only in the future must agree in every result before it. The "
    "names come in the order of the computation, so the first that differs is where the future "
    "came in, and all later ones may have it from there. It needs neither a second implementation "
    "nor an idea of what is wrong. In the chapter's sixth model it is the mean of the "
    "normalization: it is taken over the tokens, and should be taken over the numbers of each "
    "token. The same loop works on padding (change it), on the batch (change another sentence), "
    "and on any model whose results you can write down by name.",
    hints=[
        "Run the block twice, on X and on a copy with other tokens from t on.",
        "Of each result compare the rows `[:, :t]`. The dict keeps the order of the computation.",
        "`torch.allclose` compares with a tolerance, and takes -inf and -inf as equal. A "
        "difference of two infinities is NaN.",
    ],
    cases=[
        case(minus_the_mean, 0, 3, "The second result takes the mean over all tokens."),
        case(means_so_far, 1, 2, "Here nothing leaks: give None."),
        case(masked_scores, 6, 1, "The values come from the next token, and t = 1."),
        case(masked_scores, 2, 3, "Hidden scores are -inf; the values come from the next token."),
        case(after_a_norm, 3, 2, "The first result is a layer norm, which is right."),
        case(at_the_end, 4, 1, "The last of four results leaks."),
        case(masked_scores, 5, 6, "One sentence of 7 tokens, and t = 6.", B=1, n=7, D=2),
    ],
    mistakes=[
        *instead_of(
            COMPARE,
            {
                "torch.allclose(before[name], after[name], atol=1e-5)": OWN,
                "torch.allclose(before[name][:, t:], after[name][:, t:], atol=1e-5)": OWN,
                "torch.allclose(before[name][:, 0], after[name][:, 0], atol=1e-5)": "You compare "
                "only row 0. A leak of one token shows in row t - 1 first.",
                "bool((before[name][:, :t] - after[name][:, :t]).abs().max() < 1e-5)": "Minus "
                "infinity minus minus infinity is NaN, and NaN is not below your limit: so hidden "
                "scores look like a leak. `torch.allclose` takes two equal infinities as equal.",
            },
        ),
        *instead_of(
            CHANGE,
            {
                "other[:, t:] += 1": "You add one number to all of a token. A layer norm removes "
                "it again, and with it the leak that follows. Change the numbers at random.",
                "other[:, t + 1 :] = torch.randn_like(other[:, t + 1 :])": "You leave token t as "
                "it is, so that a leak of one token is not seen.",
                "other = torch.randn_like(other)": "You change all tokens, those before t, too: "
                "then each result differs.",
                "other[t:] = torch.randn_like(other[t:])": "You change sentences from t on. The "
                "tokens are the second axis: `[:, t:]`.",
            },
        ),
        Mistake({"for name in before": "for name in reversed(before)"}, "You give the last result "
                "that differs. What comes later has it from earlier ones: give the first."),
    ],
    shapes=lambda *_: "Return the name of a result, such as 'weights', or None.",
)  # fmt: skip
