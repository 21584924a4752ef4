"""Wrong functions, made from the source of a right one."""

import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations

from d2l_attention.exercises.exercise import Mistake

Edit = tuple[int, int, str]  # from, to, and what stands there instead


class AuthorError(ValueError):
    """An exercise is not what its author meant; the message names exercise and edit."""


def spans(function: Callable, mistake: Mistake) -> list[Edit]:
    """Where ``mistake`` changes the source of ``function``.

    Errors: ``AuthorError`` for a piece that is not there, or there more than once.
    """
    source, found = source_of(function), []
    for piece, instead in mistake.wrong.items():
        times = source.count(piece)
        if times == 0:
            raise AuthorError(f"`{piece}` does not occur in `{function.__name__}`")
        if times > 1 and not mistake.everywhere:
            raise AuthorError(f"`{piece}` occurs {times} times in `{function.__name__}`")
        start = -1
        for _ in range(times):
            start = source.index(piece, start + 1)
            found.append((start, start + len(piece), instead))
    return sorted(found)


def wrong_function(function: Callable, *mistakes: Mistake, name: str | None = None) -> Callable:
    """``function`` with these mistakes in it, called ``name``.

    Errors: ``AuthorError`` for edits that do not fit, or not together.
    """
    if len(mistakes) == 1 and callable(mistakes[0].wrong):
        return mistakes[0].wrong
    edits = sorted(edit for mistake in mistakes for edit in spans(function, mistake))
    if any(first[1] > second[0] for first, second in zip(edits, edits[1:], strict=False)):
        raise AuthorError("two edits change the same piece")
    return compiled(function, tuple(edits), name)


@cache
def compiled(function: Callable, edits: tuple[Edit, ...], name: str | None) -> Callable:
    source = source_of(function)
    for start, end, instead in reversed(edits):
        source = source[:start] + instead + source[end:]
    if name:
        source = renamed(source, function, name)
    file = f"<{function.__name__} with mistake {abs(hash(edits))}>"
    module = sys.modules[function.__module__]
    names = dict(vars(module))
    try:
        exec(compile(source, file, "exec"), names)
    except SyntaxError as error:
        raise AuthorError(f"`{function.__name__}` cannot be read any more: {error}") from error
    # So that the source of the wrong function can be looked at like any other.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return names[name or function.__name__]


@cache
def source_of(function: Callable) -> str:
    return textwrap.dedent(inspect.getsource(function))


def renamed(source: str, function: Callable, name: str) -> str:
    """``source``, which defines ``function`` (or a class), with the definition under ``name``."""
    return re.sub(rf"^(def|class) {function.__name__}\b", rf"\1 {name}", source, flags=re.MULTILINE)


def made(function: Callable, *mistakes: Mistake) -> Callable | None:
    """As ``wrong_function``, and None where it cannot be made: a student sees no author's error."""
    try:
        return wrong_function(function, *mistakes)
    except AuthorError:
        return None


def pairs(function: Callable, mistakes: Iterable[Mistake]) -> Iterator[tuple[Callable, str, str]]:
    """Every two mistakes that can be made together: the function, what to say, both names."""
    edits = [mistake for mistake in mistakes if isinstance(mistake.wrong, Mapping)]
    for first, second in combinations(edits, 2):
        if wrong := made(function, first, second):
            why = f"Two mistakes at once: {first.why} And: {second.why}"
            yield wrong, why, f"{first.short_name} and {second.short_name}"
