"""Runs a function once and keeps what each of its lines did to its names.

Python calls a trace function at every line of the frames that ask for it. Here it compares, by
identity and by PyTorch's version counter, what each name stands for, and copies what is new.
"""

import ast
import functools
import inspect
import linecache
import opcode
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST_STEPS = 500
MOST_BYTES = 2**30  # of copies
MOST_ENTRIES = 100  # of a list that are looked at
MOST_LETTERS = 500  # of an error
RETURNS = {number for name, number in opcode.opmap.items() if name.startswith("RETURN")}
PAUSING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True)
class Step:
    """One line that has run, or that raised.

    ``line`` is its number in the file or the cell and ``source`` its text. ``changed`` maps each
    name that the line gave a value, or whose value it changed in place, to a copy of the value as
    it was then; what the function gave back is called "return". ``in_place`` are those of them
    that still are the same object. ``error`` is what was raised, with the shapes of the operands.
    ``names`` are all names of this call, number ``call`` from 0, of the function in ``listing``.
    """

    line: int
    source: str
    changed: dict[str, Any]
    error: str | None
    in_place: tuple[str, ...]
    names: dict[str, Any]
    listing: "Listing" = field(repr=False)
    call: int
    depth: int


@dataclass
class Recording:
    """A run: its steps, what came out, and a ``note`` where not all of it could be kept."""

    listings: list["Listing"]
    steps: list[Step] = field(default_factory=list)
    result: Any = None
    error: Exception | None = None
    note: str = ""


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
            if first < last:
                self.first_line |= dict.fromkeys(range(first, last + 1), node.lineno)
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                if first == code.co_firstlineno:
                    block = first, node.end_lineno
            elif code.co_name == "<lambda>" and first <= code.co_firstlineno <= last:
                block = first, last  # the innermost statement comes last
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                hidden |= set(range(node.body[0].lineno + 1, node.body[0].end_lineno + 1))
        if block is None:
            raise TypeError(
                f"{self.name} has no Python source, so there are no lines to watch: it is built "
                "in, or was not written in a file or a cell"
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


def record(work: Callable[[], Any], functions: Iterable[Any]) -> Recording:
    """Run ``work()`` and keep the steps of these functions, wherever they are called in it.

    An ``Exception`` is kept as well; what stops Python itself goes on. Errors: as ``codes_of``.
    """
    listings = {code: Listing(code) for thing in functions for code in codes_of(thing)}
    recorder = Recorder(listings)
    recording, before = recorder.recording, sys.gettrace()
    sys.settrace(recorder.trace)
    try:
        recording.result = work()
    except Exception as error:
        recording.error = error
    finally:
        sys.settrace(before)
    if recording.error is not None:
        recorder.close(recording.error)
    return recording


class Recorder:
    """The trace function of a run. It sees the thread that it was set in, and no other."""

    def __init__(self, listings: dict[CodeType, Listing]):
        self.listings = listings
        self.recording = Recording(list(listings.values()))
        self.calls: dict[int, Call] = {}
        self.num_calls = self.depth = self.bytes = 0
        self.told: BaseException | None = None  # the last error that has a step

    def trace(self, frame: FrameType, event: str, _arg: Any):
        if self.recording.note or frame.f_code not in self.listings:
            return None
        call = self.calls[id(frame)] = Call(self, frame, number=self.num_calls)
        self.num_calls += 1

        def trace_call(frame: FrameType, event: str, arg: Any):
            try:
                call.see(frame, event, arg)
            except Exception as error:  # what goes wrong here must not reach the function
                said = f"No more of the run could be kept: {type(error).__name__}."
                self.recording.note = said
            return trace_call

        return trace_call(frame, "call", None)

    def close(self, error: Exception) -> None:
        """An error is the last step, also behind a ``finally`` and after the last step kept."""
        steps, traceback, found = self.recording.steps, error.__traceback__, None
        while traceback:
            # A call that is over may have left its address to the frame of another function.
            if traceback.tb_frame.f_code in self.listings and id(traceback.tb_frame) in self.calls:
                found = traceback
            traceback = traceback.tb_next
        if found and (self.told is not error or steps[-1].error is None):
            call = self.calls[id(found.tb_frame)]
            call.add(found.tb_frame, found.tb_lineno, error=told(error, found, call.listing))


class Call:
    """One call of a watched function: its names as they were at its last step."""

    def __init__(self, recorder: Recorder, frame: FrameType, number: int):
        self.recorder, self.number = recorder, number
        self.listing = recorder.listings[frame.f_code]
        self.depth = recorder.depth
        recorder.depth += 1
        self.marks: dict[str, Any] = {}
        self.alive: dict[str, Any] = {}  # or another object could get the address of an old one
        self.names: dict[str, Any] = {}
        self.line: int | None = None  # the statement that is running

    def see(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "return":
            self.recorder.depth -= 1
        if self.recorder.recording.note:
            return
        if event == "call":
            self.add(frame, frame.f_lineno)
        elif event == "line":
            self.next_line(frame)
        elif event == "return" and frame.f_code.co_code[frame.f_lasti] in RETURNS:
            self.add(frame, self.line, result={"return": arg})
        elif event == "return" and self.line is not None:  # a `finally` on an error's way out
            self.add(frame, self.line)
        elif event == "exception":
            self.raised(frame, *arg)

    def next_line(self, frame: FrameType) -> None:
        spans = self.listing.first_line
        line = spans.get(frame.f_lineno, frame.f_lineno)
        if line == self.line and frame.f_lineno in spans:
            return  # another line of the same statement
        if self.line is not None:
            self.add(frame, self.line)
        self.line = line

    def raised(self, frame: FrameType, kind: type, error: BaseException, traceback: Any) -> None:
        if issubclass(kind, StopIteration | GeneratorExit):
            return  # how a loop ends
        if error is not self.recorder.told:  # else it comes from a call that has told it
            self.recorder.told = error
            self.add(frame, frame.f_lineno, error=told(error, traceback, self.listing))
        self.line = None

    def add(self, frame: FrameType, line: int | None, *, result=None, error=None) -> None:
        recording = self.recorder.recording
        values = {
            name: value
            for name, value in frame.f_locals.items()
            if not name.startswith((".", "__"))
        } | (result or {})
        changed, in_place = {}, []
        self.marks = {name: seen for name, seen in self.marks.items() if name in values}
        for name, value in values.items():
            new, old = mark(value), self.marks.get(name)
            if old == new:
                continue
            if isinstance(old, tuple) and old[0] == id(value):
                in_place.append(name)
            self.marks[name] = new
            self.alive[name] = value, *(value if type(value) in (list, tuple) else ())
            changed[name] = kept(value)
            self.recorder.bytes += num_bytes(changed[name])
        self.names = {name: changed.get(name, self.names.get(name)) for name in values}
        line = self.listing.first_line.get(line, line) or frame.f_lineno
        shown = line, self.listing.text(line), changed, error, tuple(in_place), self.names
        recording.steps.append(Step(*shown, self.listing, self.number, self.depth))
        if len(recording.steps) == MOST_STEPS:
            recording.note = f"The run is longer than the first {MOST_STEPS} steps, kept here."
        elif self.recorder.bytes > MOST_BYTES:
            recording.note = "The run is longer: what is kept here already fills a gigabyte."


def mark(value: Any, depth: int = 3) -> Any:
    """Differs where ``value`` is another one, or was changed in place."""
    if isinstance(value, Tensor):
        try:
            return id(value), value._version
        except RuntimeError:  # in inference mode nothing is counted
            return id(value), str(value.tolist()) if value.numel() <= 10_000 else None
    if isinstance(value, np.ndarray):
        return id(value), value.tobytes()
    if type(value) in (list, tuple, dict) and depth:
        entries = [*value, *value.values()] if type(value) is dict else value[:MOST_ENTRIES]
        return id(value), len(value), tuple(mark(entry, depth - 1) for entry in entries)
    if type(value) in (int, float, complex, bool, str):
        return type(value), repr(value)  # where NaN equals NaN
    return id(value)


def kept(value: Any, depth: int = 3) -> Any:
    """A copy of what can change in place."""
    if isinstance(value, Tensor):
        try:
            return value.detach().clone()
        except Exception as error:  # a student's own kind of tensor must not stop the run
            return f"a {type(value).__name__} that cannot be copied: {type(error).__name__}"
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (list, tuple) and depth:
        return type(value)(kept(entry, depth - 1) for entry in value)
    if type(value) is dict and depth:
        return {key: kept(entry, depth - 1) for key, entry in value.items()}
    return value


def num_bytes(copied: Any, depth: int = 3) -> int:
    """The bytes of the tensors and arrays in what ``kept`` gave."""
    if isinstance(copied, Tensor):
        return copied.numel() * copied.element_size()
    if isinstance(copied, np.ndarray):
        return copied.nbytes
    if type(copied) in (list, tuple, dict) and depth:
        entries = copied.values() if type(copied) is dict else copied
        return sum(num_bytes(entry, depth - 1) for entry in entries)
    return 0


def told(error: BaseException, traceback: Any, listing: Listing) -> str:
    """What was raised, and the shapes of the tensors in the expression that raised it."""
    try:
        said = str(error).split("\n")[0][:MOST_LETTERS]
    except Exception:  # a student's own exception may fail to say what it is
        said = ""
    said = f"{type(error).__name__}: {said}".removesuffix(": ")
    positions = list(traceback.tb_frame.f_code.co_positions())
    where = positions[traceback.tb_lasti // 2]
    attributes = ("lineno", "end_lineno", "col_offset", "end_col_offset")
    for node in ast.walk(listing.tree):
        if tuple(getattr(node, key, None) for key in attributes) == where:
            found = dict(operands(node, traceback.tb_frame))
            shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in found.items())
            return f"{said.removesuffix('.')}. Shapes: {shapes}." if shapes else said
    return said


def operands(node: ast.AST, frame: FrameType) -> Iterator[tuple[str, Tensor]]:
    value = looked_up(node, frame)
    if isinstance(value, Tensor):
        yield ast.unparse(node), value
        return
    for part in ast.iter_child_nodes(node):
        yield from operands(part, frame)


def looked_up(node: ast.AST, frame: FrameType) -> Any:
    """The value of a name, a layer's attribute, a transposed matrix: nothing that runs code."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        owner = looked_up(node.value, frame)
        turned = isinstance(owner, Tensor) and owner.ndim > 1 and node.attr == "mT"
        if turned or isinstance(owner, nn.Module):
            return getattr(owner, node.attr, None)
    return None


def first_difference(mine: Recording, theirs: Recording) -> tuple[str, int, int] | None:
    """The first name that differs in two runs, and the steps that gave it its value.

    What counts is the last value of a name with a shape: a name may be built up in several lines,
    and have other shapes on its way. Only the outermost call is looked at.
    """
    ours, others = last_values(mine), last_values(theirs)
    for key, (here, value, changed_input) in sorted(ours.items(), key=lambda item: item[1][0]):
        there, right, changed_theirs = others.get(key, (here, value, changed_input))
        # An input's name is free for another value, but the input itself must stay as it is.
        comparable = bool(here) == bool(there) or changed_input or changed_theirs
        if comparable and not alike(value, right):
            return key[0], here, there
    return None


def last_values(recording: Recording) -> dict[tuple, tuple[int, Any, bool]]:
    """Each name and shape -> the step of its last value, the value, whether that is an input."""
    found, rebound = {}, set()
    steps = [step for step in recording.steps if step.call == 0]
    inputs = set(steps[0].changed) if steps else set()
    for number, step in enumerate(recording.steps):
        if step.call:
            continue
        rebound |= set(step.changed) - set(step.in_place) if number else set()
        for name, value in step.changed.items():
            if name != "return" and not isinstance(value, Tensor | np.ndarray):
                continue  # a number or a list may well have another meaning there
            changed_input = number > 0 and name in inputs - rebound
            found[name, form(value)] = number, value, changed_input
    return found


def form(value: Any) -> Any:
    """What two values must share to be compared: the shape."""
    if isinstance(value, Tensor | np.ndarray) and not getattr(value, "is_nested", False):
        return tuple(value.shape)
    if type(value) in (list, tuple):
        return tuple(map(form, value))
    return "number" if isinstance(value, int | float | complex) else type(value).__name__


def alike(value: Any, other: Any) -> bool:
    """Equal but for rounding; what cannot be compared counts as equal."""
    if type(value) in (list, tuple):
        return all(map(alike, value, other))
    if not isinstance(value, Tensor | np.ndarray | int | float):
        return True
    try:
        value, other = (torch.as_tensor(each).detach().cpu().double() for each in (value, other))
        finite = other[other.isfinite()].abs()
        near = 1e-5 * max(finite.max().item() if finite.numel() else 0.0, 0.1)
        return torch.allclose(value, other, rtol=1e-4, atol=near, equal_nan=True)
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, nested, without numbers
        return True
