"""A small exercise for trying the engine, complete a softmax, and a class to complete."""

from dataclasses import replace

import torch

from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import agrees

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
        task="Complete `softmax`.",
        difficulty="easy",
        minutes=1,
        hints=["First.", "Second."],
        stub=blank,
        solution=softmax,
        explanation="Because.",
        steps=[agrees(softmax, SCORES)],
        wrong=[Wrong(0, "")],
    )
    return replace(exercise, **changes)
