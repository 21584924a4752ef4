"""The source of a watched function: its lines, and which of them are one statement."""

import ast
import functools
import inspect
import linecache
import textwrap
import warnings
from collections.abc import Iterator
from types import CodeType
from typing import Any

from torch import nn

PAUSING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Listing:
    """The source of one function. A statement of several lines counts as its first.

    Errors: ``TypeError`` where there is no source to read.
    """

    def __init__(self, code: CodeType):
        self.name = code.co_qualname.split("<locals>.")[-1]
        # Not inspect.getsource, which looks for the file in all modules first: slow.
        lines = linecache.getlines(code.co_filename)
        self.tree = parsed("".join(lines))
        self.first_line: dict[int, int] = {}
        hidden: set[int] = set()
        block: tuple[int, int] | None = None
        for node in (node for node in ast.walk(self.tree) if isinstance(node, ast.stmt)):
            first, last = header(node)
            if first < last or comprehends(node):
                self.first_line |= dict.fromkeys(range(first, last + 1), node.lineno)
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                if first == code.co_firstlineno:
                    block = first, node.end_lineno
            elif code.co_name == "<lambda>" and first <= code.co_firstlineno <= last:
                block = first, last  # the innermost statement comes last
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                hidden |= set(range(node.body[0].lineno + 1, node.body[0].end_lineno + 1))
        if block is None:
            why = "it is built in, or was not written in a file or a cell"
            if code.co_filename in ("<timed exec>", "<magic-timeit>"):  # IPython keeps no lines
                why = "its cell begins with `%%time`; take that away and run the cell again"
            raise TypeError(
                f"{self.name} has no Python source, so there are no lines to watch: {why}"
            )
        first, last = block
        texts = textwrap.dedent("".join(lines[first - 1 : last])).splitlines()
        self.lines = {
            number: text.rstrip() + (' …"""' if number + 1 in hidden else "")
            for number, text in enumerate(texts, start=first)
            if number not in hidden
        }

    def text(self, line: int) -> str:
        return self.lines.get(line, "").strip()


def parsed(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


def header(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement, without those of its body."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return node.lineno, node.end_lineno
    decorators = [each.lineno for each in getattr(node, "decorator_list", ())]
    inside = getattr(body[0], "lineno", node.lineno + 1)
    return min([node.lineno, *decorators]), max(node.lineno, inside - 1)


def comprehends(node: ast.stmt) -> bool:
    """Whether a comprehension makes Python 3.12 come to the same line again and again."""
    body = getattr(node, "body", None)
    if body and body[0].lineno == node.lineno:
        return False  # a loop in one line is watched turn by turn
    parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    inlined = ast.ListComp, ast.SetComp, ast.DictComp
    return any(isinstance(each, inlined) for part in parts for each in ast.walk(part))


def codes_of(thing: Any) -> Iterator[CodeType]:
    """The code of a function, of a layer's ``forward``, or of all methods of a class.

    Errors: ``TypeError`` for what has no lines that run one after the other.
    """
    name = getattr(thing, "__name__", type(thing).__name__)
    compiled = ("_torchdynamo_orig_callable", "_orig_mod", "_compiled_call_impl")
    if not isinstance(thing, type) and any(getattr(thing, key, None) for key in compiled):
        raise TypeError(
            f"{name} is compiled by torch.compile, and its lines no longer run one by one: watch "
            "the function as it was before it was compiled"
        )
    if isinstance(thing, type):
        methods = map(inspect.unwrap, filter(inspect.isfunction, vars(thing).values()))
        yield from (method.__code__ for method in methods if method.__module__ == thing.__module__)
        return
    function = thing.forward if isinstance(thing, nn.Module) else thing
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    if code is None:
        raise TypeError(f"{name} is no Python function: there are no lines to watch")
    if code.co_flags & PAUSING:
        raise TypeError(f"{name} is a generator or a coroutine, which watch does not step into")
    yield code
