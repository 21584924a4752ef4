"""Write a file all or nothing: whoever is interrupted, or has no room left, finds the old one.

Everything that the course writes is written here: progress, checkpoints, notebooks, pages.
"""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PATIENCE = 2.0  # seconds that a file may be held open by somebody else, on Windows


@contextmanager
def writing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write bytes to. It takes the place of ``path`` once the block has ended well.

    A new file gets the rights that the user's umask leaves, an old one keeps its own. Folders
    that are missing are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a power cut can leave the name without the content
        if path.exists():
            shutil.copymode(path, unfinished)
        _replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write text, as UTF-8, or bytes, all or nothing."""
    with writing(path) as file:
        # A surrogate, as a broken name of a file may hold, has no UTF-8: it becomes a '?'.
        file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)


def _replace(new: Path, old: Path) -> None:
    """``os.replace``, which fails on Windows while another program reads the file: wait for it."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return os.replace(new, old)
        except PermissionError:
            if os.name != "nt" or time.monotonic() > give_up:
                raise
            time.sleep(0.05)
