"""Recognises a task that was not begun, without running it.

What is looked at is the type, never ``__class__``: an answer may say anything of itself.
"""

import ast
import inspect
import linecache
import textwrap
from types import CodeType, FunctionType
from typing import Any


def is_stub(answer: Any, stub: Any) -> bool:
    """Whether ``answer`` is still a blank, or still what the notebook handed out.

    A blank is ``None``, ``...``, a list with such an entry, a function whose body is ``...``,
    ``pass``, ``return ...`` or ``raise NotImplementedError`` below any docstring, or a class
    with such a method.
    """
    if answer is None or answer is ...:
        return True
    if type(answer) in (list, tuple):
        return any(entry is None or entry is ... for entry in answer)
    if type(answer) in (str, int, float, bool):
        return type(answer) is type(stub) and answer == stub
    bodies = function_bodies(answer)
    return bool(bodies) and (any(map(is_blank, bodies)) or same(bodies, function_bodies(stub)))


def function_bodies(thing: Any) -> list[list[ast.stmt]]:
    """The statements, without docstrings, of a function or of each method of a class.

    Empty where there is no source to read, as for built-in functions.
    """
    if issubclass(type(thing), type):
        # Python cannot find the source of a class that was typed into a notebook's cell,
        # but it does find that of its methods. One that just passes is a finished method.
        methods = type.__dict__["__dict__"].__get__(thing).values()
        bodies = [body for method in methods for body in function_bodies(method)]
        return [body for body in bodies if not all(isinstance(line, ast.Pass) for line in body)]
    if type(thing) is not FunctionType:
        return []
    try:
        tree = ast.parse(textwrap.dedent(source_of_code(thing.__code__)))
    except SyntaxError:
        return []
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    function = next(functions, None)
    return [without_docstring(function.body)] if function else []


def source_of_code(code: CodeType) -> str:
    """As ``inspect.getsource``, which looks through all modules for the file first: slow.

    Of the code, not of the function: that may lead elsewhere by its ``__wrapped__``.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    return "".join(inspect.getblock(lines[code.co_firstlineno - 1 :]))


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return [statement for statement in body if not is_constant(statement, str)]


def is_constant(statement: ast.stmt, kind: type) -> bool:
    return isinstance(statement, ast.Expr) and is_value(statement.value, kind)


def is_value(expression: ast.expr | None, kind: type) -> bool:
    return isinstance(expression, ast.Constant) and isinstance(expression.value, kind)


def is_blank(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Pass)
        or is_constant(statement, type(...))
        or (isinstance(statement, ast.Return) and is_value(statement.value, type(...)))
        or (isinstance(statement, ast.Raise) and "NotImplementedError" in ast.dump(statement))
        for statement in body
    )


def same(bodies: list[list[ast.stmt]], others: list[list[ast.stmt]]) -> bool:
    """Equal but for comments, line breaks and docstrings."""
    return dumped(bodies) == dumped(others)


def dumped(bodies: list[list[ast.stmt]]) -> list[list[str]]:
    return [[ast.dump(statement) for statement in body] for body in bodies]
