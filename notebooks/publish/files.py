"""Write a file all or nothing.

The package has its own writer; importing it would bring torch, and seconds before ``make lab``.
"""

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write the file, or leave what was there: never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if isinstance(content, str):
            content = content.encode("utf-8", errors="replace")
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
