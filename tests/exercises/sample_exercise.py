"""A small exercise for trying the engine, complete a softmax, and a class to complete."""

from dataclasses import replace

import torch

from d2l_attention.exercises.authoring import Case, Exercise, Mistake

SCORES = [(torch.tensor([[1.0, 2.0]]),), (torch.tensor([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0]]),)]


def softmax(scores):
    return scores.softmax(dim=-1)


def blank(scores): ...


class Given(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2

    def forward(self, x): ...


class Written(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2

    def forward(self, x):
        return x * self.scale

    def reset(self):
        pass


def an_exercise(**changes):
    """The exercise, with some of its fields changed."""
    exercise = Exercise(
        id="4.99",
        title="A softmax",
        difficulty="easy",
        minutes=1,
        hints=["First.", "Second."],
        stub=blank,
        solution=softmax,
        explanation="Because.",
        cases=[Case(inputs) for inputs in SCORES],
        mistakes=[
            Mistake({"dim=-1": "dim=0"}, "Your softmax runs over the queries."),
            Mistake({"return ": "return 2 * "}, "Your weights are twice too large."),
        ],
    )
    return replace(exercise, **changes)
