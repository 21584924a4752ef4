"""Write a file all or nothing: whoever is interrupted, or has no room left, finds the old one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def writing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write bytes to. It takes the place of ``path`` once the block has ended well."""
    path = Path(path)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a power cut can leave the name without the content
        os.chmod(unfinished, path.stat().st_mode if path.exists() else 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write text, as UTF-8, or bytes, all or nothing."""
    with writing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
