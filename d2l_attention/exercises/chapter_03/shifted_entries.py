"""3.3: the variance of a dot product where the mean is not 0."""

from d2l_attention.exercises.authoring import Exercise, as_numbers, heading, number

MISTAKES = {
    100: "that is the variance for mean 0. A term is now (1 + a)(1 + b) rather than ab: what does "
    "that add?",
    200: "a part is missing. Multiply out (1 + a)(1 + b): how many of its four parts vary?",
    400: "that is 100 times the mean of the squared term. A variance subtracts the square of "
    "the mean.",
    10_300: "that is the mean of (q · k)². q · k has mean 100 now, and a variance subtracts the "
    "square of the mean.",
    10_000: "that is 100². The squared mean of q · k is no part of the variance, and variances of "
    "independent terms add: 100 times, not 100² times.",
    30_000: "variances of independent terms add: 100 times that of one term, not 100² times.",
    101: "the shift is not simply added: it makes the other factor count. Multiply out "
    "(1 + a)(1 + b).",
    3: "that is the variance of one term. There are 100.",
    4: "that is the mean of one squared term. A variance subtracts the square of the mean, and "
    "there are 100 terms.",
    10: "that is the standard deviation for mean 0. The task asks for the variance, and the mean "
    "is 1.",
    300**0.5: "that is the standard deviation. The variance is its square.",
    0: "the products do vary: draw a few and look.",
}


def measured(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 1 or not 1e-6 < abs(got.item() - 300) < 50:
        return None
    return (
        "That is about right and looks measured. Which exact number is it near? Take one "
        "term: `q_j = 1 + a` and `k_j = 1 + b`, with a and b of mean 0 and variance 1."
    )


shifted_entries = Exercise(
    **heading("3.3", "When the mean is not 0", "easy", minutes=8),
    section="What the factor assumes",
    solution=300,
    explanation="One term is (1 + a)(1 + b) = 1 + a + b + ab. The 1 does not vary; a, b and ab "
    "have variance 1 each and are uncorrelated. That is 3 for one term and 300 for 100 terms. So "
    "1/√d keeps the variance at 1 only where the mean is 0.",
    hints=[
        "Measure: `q = torch.randn(10_000, 100) + 1`, the same for k, and one dot product per row.",
        "The terms are still independent, so their variances still add. What is the variance "
        "of one?",
        "Write `q_j = 1 + a`, `k_j = 1 + b` and multiply out. The parts are uncorrelated: add "
        "their variances.",
    ],
    steps=[measured, number(300, mistakes=MISTAKES)],
)
