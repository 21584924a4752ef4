"""50.1: which query is surest of its key?"""

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal


def sharpest(scores):
    """The number of the query with the largest single weight: scores (Q, K) -> a number.

    The scores [[0., 0.], [3., 0.]] give 1.
    """
    ...


def sharpest_solution(scores):
    return scores.softmax(dim=-1).amax(dim=-1).argmax().item()


sharpest_query = Exercise(
    id="50.1",
    title="Who is surest?",
    difficulty="easy",
    minutes=5,
    hints=["The largest weight of each row first, then the row in which it is largest."],
    stub=sharpest,
    solution=sharpest_solution,
    explanation="Weights compare queries, because each row sums to one. Scores do not: a row of "
    "large and equal scores is not sure of anything.",
    # In the first case each mistake, and the answer 0, gives another number.
    cases=[Case(tuple(normal(seed, (5, 3)))) for seed in (33, 0, 1)]
    + [Case(tuple(9.0 + normal(seed, (1, 4))[0].expand(1, 4) for _ in range(1))) for seed in (7,)],
    mistakes=instead_of(
        "scores.softmax(dim=-1)",
        {
            "scores": "That is the query with the largest score. Ten equal scores of 9 are sure of "
            "nothing: compare the weights.",
            "scores.softmax(dim=-2)": "Your softmax goes over the queries. A query shares its one "
            "over its keys, the last axis.",
        },
    )
    + [Mistake({".argmax().item()": ".max().item()"}, "That is the weight. Which query has it?")],
)
