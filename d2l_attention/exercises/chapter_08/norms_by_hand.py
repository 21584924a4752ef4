"""8.1: post-norm and pre-norm of one token, worked out on paper."""

import torch

from d2l_attention.exercises.authoring import Exercise, as_numbers, heading, number


def norm(numbers, *, root=0.5, one_less=0):
    """Layer norm; ``root`` and ``one_less`` are for those who divide by something else."""
    return centred(numbers) / numbers.var(correction=one_less) ** root


def centred(numbers):
    return numbers - numbers.mean()


X = torch.tensor([-4.0, -1, 0, 3], dtype=torch.float64)
SUM = X + X**2
POST, PRE = norm(SUM), X + norm(X) ** 2

BY_3 = "you divide the squared distances by 3. Layer norm takes their mean, over all 4."
BY_VARIANCE = "you divide by the variance. Layer norm divides by its root, the standard deviation."
ONLY_CENTRED = "the mean is gone, but the division by the standard deviation is missing."
ACROSS = (
    "you compare the two tokens, number by number. Layer norm looks at one token and its four "
    "numbers; the other token takes no part."
)
POST_MISTAKES = {
    PRE: "that is pre-norm. Post-norm comes after: what is normalised is the sum of both.",
    SUM: "that is the sum of the token and its squares. Normalise it.",
    norm(X**2): "the token itself is missing: you normalise the squares only. The residual "
    "connection adds the token to them first.",
    X + norm(X**2): "you normalise the squares, and then add the token. In post-norm the sum is "
    "normalised.",
    norm(X): "that is the normalised token. Where have the squares gone?",
    norm(SUM, one_less=1): BY_3,
    norm(SUM, root=1): BY_VARIANCE,
    centred(SUM): ONLY_CENTRED,
    torch.full((4,), -1.0): ACROSS,
}
PRE_MISTAKES = {
    POST: "that is post-norm. Pre-norm normalises what goes into the squares, nothing else.",
    norm(X) + norm(X) ** 2: "you add the normalised token. The residual connection carries the "
    "token as it came.",
    norm(X) ** 2: "the token itself is missing: add it to the squares of the normalised one.",
    SUM: "nothing is normalised: the squares should be those of the normalised token.",
    X + norm(X**2): "you normalise what comes out of the squares. Pre-norm normalises what goes "
    "in.",
    norm(PRE): "you normalise the sum as well. In pre-norm the sum stays as it is.",
    norm(X): "that is the normalised token. It is what the sublayer gets to see; go on.",
    X + norm(X, one_less=1) ** 2: BY_3,
    X + norm(X, root=1) ** 2: BY_VARIANCE,
    X + centred(X) ** 2: ONLY_CENTRED,
    torch.tensor([-3.0, 0, 1, 4]): ACROSS,
}


def near(mine, wanted):
    return torch.allclose(mine, wanted.double(), rtol=0, atol=0.006)


def each_norm_on_its_own(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 8:
        return None
    post, pre = got.reshape(2, 4)
    if near(post, PRE) and near(pre, POST):
        return "Both are right, the other way round: give post-norm first."
    named = [("Post-norm", post, POST, POST_MISTAKES), ("Pre-norm", pre, PRE, PRE_MISTAKES)]
    for what, mine, right, mistakes in named:
        for wrong, why in mistakes.items():
            if near(mine, wrong) and not near(mine, right):
                return f"{what}: {why}"
    return None


COUNTS = {
    4: "That is one list of four numbers. Give two: post-norm's, then pre-norm's.",
    16: "That is both tokens. The task asks about the first one.",
}

norms_by_hand = Exercise(
    **heading("8.1", "Where the norm stands", "easy", minutes=8),
    section="Our order: add, then norm",
    hints=[
        "Write both as formulas, with x for the token, f for the sublayer and ln for the norm. "
        "In which of them is the sum the last thing that happens?",
        "Layer norm takes off the mean of the token's own four numbers and divides by their "
        "standard deviation: the root of the mean squared distance. No other token takes part.",
        "The token has mean -0.5 and standard deviation 2.5. For post-norm do not use them: add "
        "the squares first, and take mean and standard deviation of what you get.",
    ],
    solution=[[1, -1, -1, 1], [-2.04, -0.96, 0.04, 4.96]],
    explanation="Post-norm is ln(x + f(x)): the sum (12, 0, 0, 12) has mean 6 and standard "
    "deviation 6. Pre-norm is x + f(ln(x)): ln(x) is (-1.4, -0.2, 0.2, 1.4), its squares are "
    "added to the token as it came. Nothing normalises that sum, so it may grow from block to "
    "block, and a pre-norm stack needs one layer norm at its end.",
    steps=[
        each_norm_on_its_own,
        number(torch.stack([POST, PRE]).tolist(), tolerance=0.006, counts=COUNTS),
    ],
)
