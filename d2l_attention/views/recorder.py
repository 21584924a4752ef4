"""Runs a function once and keeps what each of its lines did to its names.

Python calls a trace function at every line of the frames that ask for it. Here it compares what
each name stands for with a mark of what it stood for before, and copies what is new.
"""

import opcode
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from d2l_attention.views.error_words import error_words
from d2l_attention.views.listing import Listing, codes_of
from d2l_attention.views.values import attributes_of, entries_of, kept, mark, num_bytes

MOST_STEPS = 500
MOST_BYTES = 2**30  # of copies
RAISE = opcode.opmap["RAISE_VARARGS"]
RETURNS = {number for name, number in opcode.opmap.items() if name.startswith("RETURN")}


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
    listing: Listing = field(repr=False)
    call: int
    depth: int


@dataclass
class Recording:
    """A run: its steps, what came out, and a ``note`` where not all of it could be kept."""

    listings: list[Listing]
    steps: list[Step] = field(default_factory=list)
    result: Any = None
    error: Exception | None = None
    note: str = ""


def record(work: Callable[[], Any], functions: Iterable[Any]) -> Recording:
    """Run ``work()`` and keep the steps of these functions, wherever they are called in it.

    An ``Exception`` is kept as well; what stops Python itself goes on. Errors: as ``codes_of``.
    """
    listings = {code: Listing(code) for thing in functions for code in codes_of(thing)}
    tracer = Tracer(listings)
    recording, before = tracer.recording, sys.gettrace()
    sys.settrace(tracer.trace)
    try:
        recording.result = work()
    except Exception as error:
        recording.error = error
    finally:
        sys.settrace(before)
    if recording.error is not None:
        tracer.close(recording.error)
    return recording


def raises(frame: FrameType) -> bool:
    """Whether the frame stands at ``raise error``; a ``raise`` alone hands on what was raised."""
    operation, operands = frame.f_code.co_code[frame.f_lasti :][:2]
    return operation == RAISE and operands > 0


class Tracer:
    """The trace function of a run. It sees the thread that it was set in, and no other."""

    def __init__(self, listings: dict[CodeType, Listing]):
        self.listings = listings
        self.recording = Recording(list(listings.values()))
        self.calls: dict[int, TracedCall] = {}
        self.num_calls = self.depth = self.bytes = 0
        self.told: BaseException | None = None  # the last error that has a step

    def trace(self, frame: FrameType, event: str, _arg: Any):
        if self.recording.note or frame.f_code not in self.listings:
            return None
        call = self.calls[id(frame)] = TracedCall(self, frame, number=self.num_calls)
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
            call.add(found.tb_frame, found.tb_lineno, error=error_words(error, found, call.listing))


class TracedCall:
    """One call of a watched function: its names as they were at its last step."""

    def __init__(self, tracer: Tracer, frame: FrameType, number: int):
        self.tracer, self.number = tracer, number
        self.listing = tracer.listings[frame.f_code]
        self.depth = tracer.depth
        tracer.depth += 1
        self.marks: dict[str, Any] = {}
        self.alive: dict[str, Any] = {}  # or another object could get the address of an old one
        self.names: dict[str, Any] = {}
        self.line: int | None = None  # the statement that is running

    def see(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "return":
            self.tracer.depth -= 1
        if self.tracer.recording.note:
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
        # An error that was told comes from a call or from a `finally`, if no line raises it anew.
        if error is not self.tracer.told or raises(frame):
            self.tracer.told = error
            self.add(frame, frame.f_lineno, error=error_words(error, traceback, self.listing))
        self.line = None

    def remember(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self.marks[name] = mark(value)
            self.alive[name] = value, *entries_of(value)

    def add(self, frame: FrameType, line: int | None, *, result=None, error=None) -> None:
        recording = self.tracer.recording
        values = {
            name: value
            for name, value in frame.f_locals.items()
            if not name.startswith((".", "__"))
        } | (result or {})
        attributes = attributes_of(values.get("self"))
        if not self.marks:  # the call begins: an attribute is news when a line changes it
            self.remember(attributes)
        values |= attributes
        changed, in_place = {}, []
        self.marks = {name: seen for name, seen in self.marks.items() if name in values}
        for name, value in values.items():
            old = self.marks.get(name)
            if old == mark(value):
                continue
            if isinstance(old, tuple) and old[0] == id(value):
                in_place.append(name)
            self.remember({name: value})
            changed[name] = kept(value)
            self.tracer.bytes += num_bytes(changed[name])
        known = self.names | changed
        self.names = {name: known[name] for name in values if name in known}
        line = self.listing.first_line.get(line, line) or frame.f_lineno
        shown = line, self.listing.text(line), changed, error, tuple(in_place), self.names
        recording.steps.append(Step(*shown, self.listing, self.number, self.depth))
        if len(recording.steps) == MOST_STEPS:
            recording.note = f"The run is longer than the first {MOST_STEPS} steps, kept here."
        elif self.tracer.bytes > MOST_BYTES:
            recording.note = "The run is longer: what is kept here already fills a gigabyte."
