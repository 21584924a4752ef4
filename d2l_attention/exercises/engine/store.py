"""Remembers across kernels what was solved and tried: one small JSON file."""

import json
import os
import stat
from pathlib import Path

from filelock import FileLock
from filelock import Timeout as LockTimeout
from platformdirs import user_data_path

from d2l_attention.system.files import write_whole

RANK = {"attempted": 1, "solved": 2}  # a solved exercise stays solved
LARGEST = 1_000_000  # bytes; a course takes a few thousand


class NotOurs(Exception):
    """Something that is no progress file of ours and is left alone; the message says what."""


def path() -> Path:
    """Where progress is kept: ``$D2L_ATTENTION_PROGRESS``, or the user's data folder."""
    given = os.environ.get("D2L_ATTENTION_PROGRESS")
    file = Path(given).expanduser() if given else user_data_path("d2l-attention") / "progress.json"
    # A link stays a link: what it leads to is read and replaced.
    return Path(os.path.realpath(file))


def record(exercise_id: str, state: str) -> str | None:
    """Note ``state``, 'attempted' or 'solved'; what to tell the student, if anything."""
    try:
        file = path()
        file.parent.mkdir(parents=True, exist_ok=True)  # for the lock
        # Two notebooks may write at once: reading and writing belong together.
        with FileLock(f"{file}.lock", timeout=2):
            states, note = read(file)
            if RANK[state] > RANK.get(states.get(exercise_id), 0):
                states[exercise_id] = state
                write_whole(file, json.dumps(states, indent=1, sort_keys=True) + "\n")
        return note
    except NotOurs as other:
        return f"Your progress is not saved: {other}"
    # RuntimeError: no home for `~`. NotImplementedError: no locks there.
    except (OSError, LockTimeout, RuntimeError) as error:
        return f"Your progress could not be saved ({type(error).__name__}: {error})."


def load() -> tuple[dict[str, str], str | None]:
    """State by exercise, and what to tell the student, if anything."""
    try:
        return read(path())
    except NotOurs as other:
        return {}, f"Your progress cannot be shown: {other}"
    except (OSError, RuntimeError) as error:
        return {}, f"Your progress could not be read ({type(error).__name__}: {error})."


def read(file: Path) -> tuple[dict[str, str], str | None]:
    """As ``load``; a damaged file is set aside under another name.

    Errors: ``NotOurs``, ``OSError``.
    """
    try:
        content = json.loads(regular_text(file))
        if isinstance(content, dict) and "format" in content:
            raise NotOurs(f"{file} was written by a newer version of the course.")
        if not isinstance(content, dict) or not set(content.values()) <= RANK.keys():
            raise ValueError("not a table of states")
    except FileNotFoundError:
        return {}, None
    except (ValueError, TypeError, RecursionError):
        aside = set_aside(file)
        return {}, f"Your progress file was damaged; it is kept as {aside.name}, a new one begins."
    return content, None


def regular_text(file: Path) -> str:
    """What stands in a regular file; nothing else is opened, or it might not end."""
    found = os.stat(file)
    if not stat.S_ISREG(found.st_mode):
        raise NotOurs(f"{file} is not a file.")
    if found.st_size > LARGEST:
        raise NotOurs(f"{file} is too large for a progress file.")
    return file.read_text(encoding="utf-8-sig")  # an editor may have put a BOM there


def set_aside(file: Path) -> Path:
    number = 1
    while (aside := file.with_name(f"{file.name}.damaged-{number}")).exists():
        number += 1
    file.rename(aside)
    return aside
