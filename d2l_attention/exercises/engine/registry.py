"""Finds exercises: ``'4.1'`` lives in ``chapter_04``, which is imported when asked for."""

import difflib
import itertools
import os
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from d2l_attention.exercises.engine.examine import neutral
from d2l_attention.exercises.engine.show import safe_text, shortened
from d2l_attention.exercises.exercise import Exercise

PACKAGE = __name__.removesuffix(".engine.registry")
PRIVATE = "D2L_ATTENTION_EXERCISES"  # an instructor's folders, in the environment
ID = re.compile(r"(\d{1,3})\.\d{1,3}", re.ASCII)


class UnknownExercise(LookupError):
    """No exercise has this id; the message names those that are near."""


@dataclass(frozen=True)
class Chapter:
    """A chapter's number, its title and its exercises in order."""

    number: int
    title: str
    exercises: Sequence[Exercise]


def private_folders() -> list[str]:
    """The folders that the environment names; a folder's own name may hold what separates them."""
    folders, left = [], os.environ.get(PRIVATE, "").split(os.pathsep)
    while left:
        ends = range(len(left), 0, -1)
        joined = {end: os.pathsep.join(left[:end]) for end in ends}
        end = next((end for end in ends if joined[end] and Path(joined[end]).is_dir()), 1)
        folders.append(joined[end])
        left = left[end:]
    return [each for each in folders if each]


def use_private(folder: str) -> None:
    """Also find the chapters in ``folder``, ``chapter_50`` and so on, here and in new processes.

    Their solutions are then where the folder is, and nowhere in the package.
    """
    folders = private_folders()
    if folder not in folders:
        os.environ[PRIVATE] = os.pathsep.join([*folders, folder])
    if folder not in (path := import_module(PACKAGE).__path__):
        path.append(folder)


def sort_key(exercise_id: str) -> tuple[int, ...]:
    """Puts 4.10 behind 4.9."""
    return tuple(int(part) for part in exercise_id.split("."))


def chapter_numbers() -> list[int]:
    """The chapters that have a file or folder ``chapter_NN`` here, without importing them.

    Errors: ``OSError`` where a folder cannot be read, because no more files can be open.
    """
    folders = filter(os.path.isdir, import_module(PACKAGE).__path__)
    names = [name for folder in folders for name in os.listdir(folder)]
    found = (re.fullmatch(r"chapter_(\d\d)(\.py)?", name) for name in names)
    return sorted({int(chapter[1]) for chapter in found if chapter})


@cache
def load_chapter(number: int) -> Chapter:
    """A chapter with every ``Exercise`` of its number that a file of it has a name for.

    Errors: ``ValueError`` for two exercises of one id, and whatever the chapter raises.
    """
    # The cases of a check are ordinary tensors, whatever a notebook has set.
    with neutral():
        chapter = import_module(f"{PACKAGE}.chapter_{number:02d}")
        files = pkgutil.iter_modules(getattr(chapter, "__path__", ()), f"{chapter.__name__}.")
        modules = [chapter, *(import_module(file.name) for file in files)]
    found = [each for module in modules for each in vars(module).values()]
    found = [each for each in found if isinstance(each, Exercise)]
    own = {id(each): each for each in found if each.id.startswith(f"{number}.")}
    exercises = sorted(own.values(), key=lambda exercise: sort_key(exercise.id))
    for one, other in itertools.pairwise(exercises):
        if one.id == other.id:
            raise ValueError(f"chapter {number:02d} has two exercises {one.id}: each has its own")
    return Chapter(number, chapter.TITLE, exercises)


def all_chapters() -> list[Chapter]:
    return [load_chapter(number) for number in chapter_numbers()]


def is_private(exercise: Exercise) -> bool:
    """Whether it is an instructor's own: its chapter, folder or file, is not in this package.

    Where the chapter was found decides, not what the environment says: that may have changed.
    """
    found = find_spec(f"{PACKAGE}.chapter_{int(exercise.id.partition('.')[0]):02d}")
    file = Path(found.origin or "") if found else Path()
    home = file.parent.parent if file.stem == "__init__" else file.parent
    return home.resolve() != Path(__file__).resolve().parents[1]


def find(exercise_id: Any) -> Exercise:
    """The exercise with this id, for example ``'4.1'``.

    Errors: ``UnknownExercise``.
    """
    if type(exercise_id) is not str:
        # As a number 4.10 would be 4.1.
        plain = type(exercise_id) in (int, float)
        shown = shortened(safe_text(repr, exercise_id)) if plain else type(exercise_id).__name__
        raise UnknownExercise(f"Write the exercise's number in quotes: `'4.1'`, not `{shown}`.")
    wanted = exercise_id.strip()
    parts = ID.fullmatch(wanted)
    if parts and int(parts[1]) in chapter_numbers():
        for exercise in load_chapter(int(parts[1])).exercises:
            if exercise.id == wanted:
                return exercise
    if parts and int(parts[1]) > max(chapter_numbers()):
        raise UnknownExercise(
            f"The course has no exercise `{wanted}`. If it is your instructor's own, it is checked "
            "after you have handed it in."
        )
    raise UnknownExercise(f"There is no exercise `{shortened(wanted)}`. {near(wanted[:20])}")


def near(wanted: str) -> str:
    """A sentence with the ids that were probably meant."""
    ids = [exercise.id for chapter in all_chapters() for exercise in chapter.exercises]
    neighbours = [known for known in ids if known.partition(".")[0] == wanted.partition(".")[0]]
    close = neighbours or difflib.get_close_matches(wanted, ids, n=5, cutoff=0.3) or ids
    return f"Did you mean {', '.join(f'`{known}`' for known in close)}?"
