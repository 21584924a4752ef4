"""Remembers across kernels what was solved and tried: one small JSON file."""

import json
import os
from pathlib import Path

from filelock import FileLock
from filelock import Timeout as LockTimeout
from platformdirs import user_data_path

RANK = {"attempted": 1, "solved": 2}  # a solved exercise stays solved


def path() -> Path:
    """Where progress is kept: ``$D2L_ATTENTION_PROGRESS``, or the user's data folder."""
    given = os.environ.get("D2L_ATTENTION_PROGRESS")
    return Path(given) if given else user_data_path("d2l-attention") / "progress.json"


def record(exercise_id: str, state: str) -> str | None:
    """Note ``state``, 'attempted' or 'solved'; what to tell the student, if anything."""
    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Two notebooks may write at once: reading and writing belong together.
        with FileLock(f"{file}.lock", timeout=2):
            states, told = read(file)
            if RANK[state] > RANK.get(states.get(exercise_id), 0):
                states[exercise_id] = state
                write(file, states)
        return told
    except (OSError, LockTimeout, NotImplementedError) as error:  # the last: no locks there
        return f"Your progress could not be saved in {file} ({type(error).__name__})."


def load() -> tuple[dict[str, str], str | None]:
    """State by exercise, and what to tell the student, if anything."""
    try:
        return read(path())
    except OSError as error:
        return {}, f"Your progress in {path()} could not be read ({type(error).__name__})."


def read(file: Path) -> tuple[dict[str, str], str | None]:
    """As ``load``; a damaged file is set aside under another name."""
    try:
        states = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(states, dict) or not set(states.values()) <= RANK.keys():
            raise ValueError("not a table of states")
    except FileNotFoundError:
        return {}, None
    except (ValueError, TypeError, RecursionError):
        aside = set_aside(file)
        return {}, f"Your progress file was damaged; it is kept as {aside.name}, a new one begins."
    return states, None


def set_aside(file: Path) -> Path:
    number = 1
    while (aside := file.with_name(f"{file.name}.damaged-{number}")).exists():
        number += 1
    file.rename(aside)
    return aside


def write(file: Path, states: dict[str, str]) -> None:
    # Another name first: a crash half-way leaves the old file whole.
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    new.write_text(json.dumps(states, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    new.replace(file)
