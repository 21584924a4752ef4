"""Finds exercises: ``'4.1'`` lives in ``chapter_04``, which is imported when asked for."""

import difflib
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import torch

from d2l_attention.exercises.exercise import Exercise, sort_key


class UnknownExercise(LookupError):
    """No exercise has this id; the message names those that are near."""


@dataclass(frozen=True)
class Chapter:
    """A chapter's number, its title and its exercises in order."""

    number: int
    title: str
    exercises: Sequence[Exercise]


def chapter_numbers() -> list[int]:
    """The chapters that have a file ``chapter_NN.py`` here, without importing them."""
    folder = import_module(__package__).__path__
    names = (found.name for found in pkgutil.iter_modules(folder))
    return sorted(int(name[8:]) for name in names if re.fullmatch(r"chapter_\d\d", name))


@cache
def load_chapter(number: int) -> Chapter:
    # The cases of a check live on the CPU, whatever default a notebook has set.
    with torch.device("cpu"):
        module = import_module(f"{__package__}.chapter_{number:02d}")
    exercises = sorted(module.EXERCISES, key=lambda exercise: sort_key(exercise.id))
    return Chapter(number, module.TITLE, exercises)


def all_chapters() -> list[Chapter]:
    return [load_chapter(number) for number in chapter_numbers()]


def find(exercise_id: Any) -> Exercise:
    """The exercise with this id, for example ``'4.1'``.

    Errors: ``UnknownExercise``.
    """
    if not isinstance(exercise_id, str):
        # As a number 4.10 would be 4.1.
        raise UnknownExercise(
            f"Write the exercise's number in quotes: `'4.1'`, not `{exercise_id!r}`."
        )
    wanted = exercise_id.strip()
    chapter = wanted.partition(".")[0]
    if chapter.isdecimal() and int(chapter) in chapter_numbers():
        for exercise in load_chapter(int(chapter)).exercises:
            if exercise.id == wanted:
                return exercise
    raise UnknownExercise(f"There is no exercise `{wanted}`. {near(wanted)}")


def near(wanted: str) -> str:
    """A sentence with the ids that were probably meant."""
    ids = [exercise.id for chapter in all_chapters() for exercise in chapter.exercises]
    neighbours = [known for known in ids if known.partition(".")[0] == wanted.partition(".")[0]]
    close = neighbours or difflib.get_close_matches(wanted, ids, n=5, cutoff=0.3) or ids
    return f"Did you mean {', '.join(f'`{known}`' for known in close)}?"
