"""A function's run, line by line: what each name holds, and what each line changed."""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np
import torch
from torch import Tensor
from traitlets import Int, TraitError, Unicode, validate

from d2l_attention.views.differences import first_difference
from d2l_attention.views.picture import add_picture, png
from d2l_attention.views.recorder import Recording, Step, record
from d2l_attention.views.replays import replays
from d2l_attention.views.values import entries_of
from d2l_attention.views.view import View, script, styled
from d2l_attention.views.watch_drawing import Page, as_text, draw, in_words, scales


class Watch(View):
    """A recorded run, as ``watch`` returns it.

    ``result`` is what the function returned, ``error`` what it raised or None. ``steps`` are the
    lines that have run, each with ``line``, ``source``, ``changed`` (name -> the value as it was
    then; of what ``watch`` does not see change, the object itself, as it is at the end) and
    ``error``. ``step``, the one that is shown, may be set, observed and linked.
    """

    _esm = script("renderWatch", "watch.js")
    _css = styled("watch.css")

    step = Int(0).tag(sync=True)
    # Numbers travel as text: a saved notebook would give each entry of a list its own line.
    run_text = Unicode().tag(sync=True)

    def __init__(
        self,
        recording: Recording,
        title: str,
        axes: Mapping[str, str] | None = None,
        at: int | None = None,
        scale: Mapping[str, tuple[float, float]] | None = None,
    ):
        steps = recording.steps
        if not steps and recording.error is not None:  # it could not even be called
            raise recording.error
        if not steps:
            raise ValueError(f"{title}: none of its lines ran, so there is nothing to watch")
        if not all(isinstance(letters, str) for letters in (axes or {}).values()):
            raise TypeError(f"axes must give letters to names, as {{'scores': 'QK'}}, got {axes}")
        if at is not None and not -len(steps) <= at < len(steps):
            raise ValueError(f"at must be a step from 0 to {len(steps) - 1}, got {at}")
        self._recording, self._axes = recording, dict(axes or {})
        self._scale = scales(recording) if scale is None else scale
        self._still = (len(steps) - 1 if at is None else at) % len(steps)
        self.steps: list[Step] = steps
        # The start is where a reader starts; an error is what a reader wants to see.
        opened = len(steps) - 1 if recording.error is not None else 0
        super().__init__(
            step=opened if at is None else self._still,
            title=title,
            alt=_described(title, steps, self._still),
            run_text=as_text(recording, self._scale, self._axes),
        )

    @property
    def error(self) -> Exception | None:
        return self._recording.error

    @property
    def result(self) -> Any:
        """What the function returned. Errors: what it raised."""
        if self.error is not None:
            raise self.error
        return self._recording.result

    @validate("step")
    def _step_exists(self, proposal):
        value = proposal["value"]
        if not 0 <= value < len(self.steps):
            raise TraitError(f"step must be from 0 to {len(self.steps) - 1}, got {value}")
        return value

    def __repr__(self) -> str:
        ended = f", {self.steps[-1].error}" if self.error is not None else ""
        return f"watch({self.title}, {len(self.steps)} steps{ended})"

    def still(self) -> bytes:
        """The last step, or the one that was asked for, as a PNG."""
        return png(draw([self.page()]), math=False)

    def page(self) -> Page:
        return Page(self._recording, self._still, self._scale, self._axes, self.title)


class Compared(widgets.HBox):
    """Two runs beside each other, ``mine`` and ``theirs``; ``name`` is the first that differs."""

    def __init__(self, mine: Watch, theirs: Watch, name: str | None):
        self.mine, self.theirs, self.name = mine, theirs, name
        for view in (mine, theirs):
            view.layout = widgets.Layout(flex="1 1 340px", min_width="0")
        super().__init__([mine, theirs], layout=widgets.Layout(flex_flow="row wrap"))

    def __repr__(self) -> str:
        found = f"{self.name} differs" if self.name else "no name of the same shape differs"
        return f"compare({self.mine!r}, {self.theirs!r}): {found}"

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        picture = png(draw([self.mine.page(), self.theirs.page()]), math=False)
        alt = f"{self.mine.alt} {self.theirs.alt}"
        return add_picture(bundle, picture, f"{self!r}: {alt}", alt)


def watch(
    function: Callable | str,
    *inputs: Any,
    into: Sequence[Callable] = (),
    axes: Mapping[str, str] | None = None,
    at: int | None = None,
    **named: Any,
) -> Watch:
    """Run ``function(*inputs, **named)`` once and show it line by line.

    Every name is shown with its shape and its numbers, and what a line changed is marked; a
    slider and the arrow keys step. ``function`` is a Python function, a method, or a layer, whose
    ``forward`` is watched. Functions that it calls are entered where they stand in ``into``.
    ``axes`` gives letters to the axes of a name: ``axes={"scores": "BHQK"}``. ``at`` is the step
    that is opened and drawn as a picture, from 0; without it the first and the last.

    ``watch("6.4")`` replays your answer to an exercise on the case on which ``check`` found it
    wrong, and opens at the first line where a name of the same shape differs from the solution's.

    A change in place is seen in tensors, arrays, lists, tuples, also with names, dicts, counters,
    ``defaultdict`` and ``OrderedDict``, sets and deques, and in what a method's ``self`` holds of
    these and of numbers, but for ``__slots__`` and names that begin with an underscore; through
    ``.data`` in tensors of at most 10,000 numbers. In other objects it is not. Nor is it beyond the
    first 100 entries of a list, a tuple or a deque, or more than three deep. At most 500 steps are
    kept. An exception is the last step; it is not raised.

    Errors: ``TypeError`` for what has no lines to watch (built in, compiled, a generator);
    ``ValueError`` for a step that is not there, an exercise with nothing to replay.
    """
    if isinstance(function, str):
        return _replayed(function)
    if not isinstance(into, Sequence):
        raise TypeError(f"into must be a list of functions, got {type(into).__name__}")
    recording = record(lambda: function(*inputs, **named), [function, *into])
    return Watch(recording, _name(function), axes, at)


def compare(
    mine: Callable, theirs: Callable, *inputs: Any, axes: Mapping[str, str] | None = None, **named
) -> Compared:
    """Run two functions on the same inputs, and show both at the first name where they differ.

    Names are compared by their last value of each shape, and only numbers are: texts, dicts and
    other objects count as equal. Each run gets copies of the inputs, in which what is one object
    is one again, and the same random numbers. What ``copy.deepcopy`` refuses (a generator, an open
    file, an object that holds a tensor computed with a gradient) both runs share, one after the
    other.

    Errors: as for ``watch``.
    """

    def run(function: Callable) -> Any:
        args, kwargs = _copied((inputs, named), {})
        return function(*args, **kwargs)

    runs, found = _both(mine, theirs, run)
    name, *places = found or (None, None, None)
    scale = scales(*runs)
    end = f": {name} differs here" if name else ": no name of the same shape differs"
    views = [
        Watch(one, _name(function) + end, axes, at, scale)
        for one, function, at in zip(runs, (mine, theirs), places, strict=True)
    ]
    return Compared(*views, name)


def _replayed(exercise_id: str) -> Watch:
    if exercise_id not in replays:
        raise ValueError(
            f'there is nothing to replay for "{exercise_id}": watch replays your function on the '
            f'case on which check("{exercise_id}", ...) last found it wrong'
        )
    replay = replays[exercise_id]()
    (mine, theirs), found = _both(replay.mine, replay.theirs, replay.run)
    title = f"{exercise_id} · {_name(replay.mine)}"
    if found is None:
        title += ": no name of the same shape differs from the solution's"
        return Watch(mine, title, at=len(mine.steps) - 1)
    name, here, _ = found
    if name == "return":
        return Watch(mine, f"{title}: the result differs from the solution's", at=here)
    # A name may well mean something else in the student's function: no more than a hint.
    return Watch(mine, f"{title}: in the solution, {name} has other numbers", at=here)


def _both(mine: Any, theirs: Any, run: Callable[[Any], Any]):
    """Two runs on the same random numbers, and the first difference."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    first = record(lambda: run(mine), [mine])
    for set_state, state in zip(
        (torch.set_rng_state, np.random.set_state, random.setstate), states, strict=True
    ):
        set_state(state)
    second = record(lambda: run(theirs), [theirs])
    return (first, second), first_difference(first, second)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy. ``memo``, of ``copy.deepcopy``, holds by its id what has been copied already.

    Of lists, tuples and dicts with something in them that refuses, each entry by itself.
    """
    before = dict(memo)
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # each kind of object refuses in its own way
        memo.clear()  # of halves of objects, too
        memo.update(before)
    if type(value) in (list, tuple, dict):
        for each in entries_of(value, None):
            _copied(each, memo)
        return copy.deepcopy(value, memo)
    memo[id(value)] = value.clone() if isinstance(value, Tensor) else value
    return memo[id(value)]


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__).split("<locals>.")[-1]


def _described(title: str, steps: Sequence[Step], at: int) -> str:
    step = steps[at]
    changed = ", ".join(f"{name} = {in_words(value)}" for name, value in step.changed.items())
    end = step.error or (f"New: {changed}." if changed else "Nothing is changed.")
    text = f"{title}. Step {at + 1} of {len(steps)}, line {step.line}: {step.source} {end}"
    return text if len(text) <= 400 else text[:399] + "…"
