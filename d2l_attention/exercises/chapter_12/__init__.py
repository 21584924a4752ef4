"""Exercises of chapter 12, the bug museum: one exhibit a file, and for most the test to write."""

from collections.abc import Callable

from d2l_attention.exercises.chapter_12._exhibit import MUSEUM, Exhibit
from d2l_attention.exercises.engine.registry import load_chapter

TITLE = "The bug museum"


def right(exhibit_id: str) -> Callable:
    """The right implementation of an exhibit such as '12.1'. Errors: ``LookupError``."""
    return _exhibit(exhibit_id).right


def broken(exhibit_id: str) -> Callable:
    """The broken implementation of an exhibit such as '12.1'. Errors: ``LookupError``."""
    return _exhibit(exhibit_id).broken


def _exhibit(exhibit_id: str) -> Exhibit:
    load_chapter(12)  # the exhibits join the museum when their files are imported
    if exhibit_id not in MUSEUM:
        raise LookupError(f"exhibit must be one of {', '.join(MUSEUM)}, got {exhibit_id!r}")
    return MUSEUM[exhibit_id]
