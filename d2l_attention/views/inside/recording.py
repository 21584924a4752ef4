"""Runs a model once and keeps what went into each of its parts and what came out.

PyTorch calls a hook before and after the ``forward`` of every module that has one. Nothing else is
touched: hooks, modes, random states and the layers' memories are as before, also after an error.
No hook is called behind a part that raises. Where a model catches that, the part is over all the
same: its frame is no longer among those that are running.
"""

import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from d2l_attention.attention.layers import AttentionLayer, WeightsOnDemand
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder
from d2l_attention.real_models.interface import Call
from d2l_attention.views.inside.flow import HEADS, Flow, Made, Part
from d2l_attention.views.inside.foreign import looks_of
from d2l_attention.views.inside.holding import (
    Held,
    arguments_of,
    held,
    merged,
    tensors_in,
    tensors_of,
    with_others,
)
from d2l_attention.views.inside.labels import CarriedWords, Labels, Words, words_of_inputs
from d2l_attention.views.inside.looks import Look, look_of
from d2l_attention.views.words import whole

MOST_CALLS = 20_000
SILENT = nn.Dropout, nn.Identity  # outside training they do nothing; what is made of them may
MEMORIES = {WeightsOnDemand: "_last", Seq2SeqAttentionDecoder: "_weights"}


@dataclass(eq=False)
class PartCall:
    """One call of a part: what went in, what came out, and the calls that it made itself."""

    module: nn.Module
    path: str
    above: "PartCall | None" = None
    inputs: list[Held] = field(default_factory=list)
    outputs: list[Held] = field(default_factory=list)
    calls: list["PartCall"] = field(default_factory=list)
    look: Look | None = None
    heads_at: int = 0  # how many of the calls come before the heads
    raised: bool = False  # it has no outputs, and the part above went on
    old_weights: Any = None  # that the module keeps of an earlier call
    words: dict[str, Words | None] = field(default_factory=dict)  # of a library's queries and keys
    # Which tensors went where: from and to, counting inputs, calls with the heads, and outputs.
    arrows: list[tuple[int, int]] = field(default_factory=list)
    part: Part | None = None  # as long as it runs
    made: Made = field(default_factory=Made, repr=False)


@dataclass
class Run:
    """A recorded run: the model's own call, and how many calls were too many to be kept."""

    call: PartCall
    left_out: int
    result: Any


def record(model: nn.Module, inputs: tuple, named: Mapping[str, Any], tokens) -> Run:
    """Call ``model(*inputs, **named)`` once, without gradients and without dropout.

    Errors: ``TypeError`` for what is no module; what the model raises.
    """
    if not isinstance(model, nn.Module):
        kind = getattr(model, "__name__", type(model).__name__)
        raise TypeError(
            f"look_inside opens an nn.Module, got {kind}. For a function there is watch(function, "
            "*inputs)."
        )
    tokens, scored = _without_output(tokens)
    words = words_of_inputs(tokens, tensors_of(model, inputs, named))
    recorder = _Listener(model, words, scored)
    looking = looks_of(model, recorder.attended)
    with _as_before(model), looking as looks, recorder.listening(), torch.no_grad():
        recorder.looks = looks
        with _uncompiled(), CarriedWords(recorder.labels), recorder.flow:
            result = model(*inputs, **named)
    return Run(recorder.first, recorder.left_out, result)


class _Running(NamedTuple):
    """A part that is running, in this frame of PyTorch's; no call where they are too many."""

    call: PartCall | None
    module: nn.Module
    frame: FrameType


class _Listener:
    def __init__(self, model: nn.Module, tokens: dict[str, Words], scored: Words | None):
        self.model, self.tokens, self.scored = model, tokens, scored
        self.labels = Labels()
        self.looks: dict[nn.Module, Look] = {}  # of layers that attend through another library
        # By threads: a part may run its own parts in several.
        self.running: defaultdict[int, list[_Running]] = defaultdict(list)
        self.flow = Flow()
        self.silent = {
            each for each in model.modules() if type(each) in SILENT and not _hooks(each)
        }
        self.num_calls = self.left_out = 0
        self.first: Any = None
        self.given: list[tuple[weakref.ref, Held]] = []  # by all parts

    @contextmanager
    def listening(self) -> Iterator[None]:
        handles = []
        unseen_after = self.flow.unseen()(self._after)
        try:
            for path, module in self.model.named_modules():
                # Of a hook each: only such a hook is told the keywords.
                before = module.register_forward_pre_hook(self._before(path), with_kwargs=True)
                handles.append(before)
                after = module.register_forward_hook(unseen_after, with_kwargs=True)
                handles.append(after)
            yield
        finally:
            for handle in handles:
                handle.remove()
            self.running.clear()  # frames hold all that was named in them

    def _before(self, path: str):
        @self.flow.unseen()
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            frame = sys._getframe(2)
            running = self._still_running(frame)
            above = running[-1].call if running else self.first
            nowhere = above is None and (bool(running) or module is not self.model)
            self.num_calls += 1
            if nowhere or self.num_calls > MOST_CALLS:
                self.left_out += 1
                running.append(_Running(None, module, frame))
                return
            call = PartCall(module, path, above, old_weights=vars(module).get("attention_weights"))
            running.append(_Running(call, module, frame))
            tensors = tensors_of(module, args, kwargs)
            if above is None:
                self.first = call
                for name, words in self.tokens.items():
                    self.labels.give(tensors[name], words)
            else:
                above.calls.append(call)
            for name, tensor in merged(tensors).items():
                call.inputs.append(held(name, tensor, self.labels.of(tensor)))
            if above is None or above.part is not None:
                shown = merged(tensors).values()
                call.part = Part(above.part if above else None, with_others(shown, (args, kwargs)))
                self.flow.begin(call.part)

        return hook

    def _still_running(self, frame: FrameType) -> list[_Running]:
        """The parts that are running in this thread, without those that have raised meanwhile."""
        running = self.running[threading.get_ident()]
        while running and not _is_within(frame, running[-1].frame):
            call = running.pop().call
            if call is not None:
                call.raised = True
                self._end(call, [])
        return running

    def _end(self, call: PartCall, outputs: list[Tensor]) -> None:
        if call.part is not None:
            call.made, call.part = self.flow.end(call.part, outputs), None

    @contextmanager
    def attended(self, given: Call, outputs: Tensor) -> Iterator[None]:
        """A layer of another library has attended, in the part that runs; what is asked of it."""
        with self.flow.unseen():
            running = self.running[threading.get_ident()]
            call = running[-1].call if running else None
            if call is not None and (part := call.part):
                call.heads_at = len(call.calls)
                asked = {"queries": given.queries, "keys": given.keys}
                call.words = {name: self.labels.of(X) for name, X in asked.items()}
                inputs = [given.queries, given.keys, given.values, given.mask, given.added]
                inputs += [given.more.get("position_bias"), given.sinks]
                part.heads = Made([made for made in map(part.of, inputs) if made], HEADS)
                part.put(outputs, part.heads)
            yield

    def _after(self, module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        running = self._still_running(sys._getframe(2))
        if not running or running[-1].module is not module:
            return  # its beginning was not seen
        call = running.pop().call
        if call is None:
            return
        unchanged = any(output is X for X in (*args, *kwargs.values()))
        if call.above is not None and module in self.silent and unchanged:
            call.above.calls.remove(call)
            if call.part is not None:
                self.flow.forget(call.part)
            return
        came_in = {id(tensor) for tensor in tensors_of(module, args, kwargs).values()}
        tensors = tensors_in("output", output)
        # A state that is only handed on is no result.
        new = {name: X for name, X in tensors.items() if id(X) not in came_in}
        given = arguments_of(module, args, kwargs)
        part, shown = call.part, list((new or tensors).values())
        others = [X for X in with_others(shown, output) if id(X) not in came_in]
        self._end(call, shown + others)
        call.look = self.looks.pop(module, None)
        heads = part and part.heads
        if call.look is None and (inner := _look_inside_it(call)):
            call.look, heads = inner.look, inner.made
        if call.look is None and not _has_look(call):  # or it hands on what a part of it did
            call.look = look_of(module, given, output, call.old_weights)
            if call.look is not None:
                heads = part and _own_heads(call, part, output)
        if part is not None:
            call.arrows = _arrows(call, part, heads, shown)
        known = [words for each in call.inputs if (words := each.words)]
        known = [words for words in known if None not in _fitting(call, len(words))]
        if call.look is not None:
            call.look.query_words, call.look.key_words = _words_of_look(call, call.look)
            known = [call.look.query_words]
        for name, tensor in (new or tensors).items():
            words = self.labels.of(tensor)
            if words is None and tensor is shown[0]:  # beside it may stand a state, of layers
                words = self.labels.guess(tensor, known)
            if words is not None:
                self.labels.give(tensor, words)
            call.outputs.append(held(name, tensor, words, self.scored))
            self.given.append((weakref.ref(tensor), call.outputs[-1]))
        if call is self.first:
            self._only_scores(shown)

    def _only_scores(self, results: list[Tensor]) -> None:
        """The model's outputs score words, and so does a part's that is one of them, unchanged.

        What else has as many columns as there are words may be hidden vectors.
        """
        shares = {id(X): out.best for X, out in zip(results, self.first.outputs, strict=True)}
        for given, out in self.given:
            if shares.get(id(given())) != out.best:
                out.best = None


def _hooks(module: nn.Module) -> int:
    return len(module._forward_pre_hooks) + len(module._forward_hooks)


def _is_within(frame: FrameType | None, outer: FrameType) -> bool:
    """Whether ``outer`` has called ``frame``, directly or not. It is near, if it has."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is not None


def _has_look(call: PartCall) -> bool:
    return any(each.look is not None or _has_look(each) for each in call.calls)


def _look_inside_it(call: PartCall) -> PartCall | None:
    """The attention in the heads of a multi-head attention: it is shown as the whole's own.

    The heads then stand where the part stood that computes them.
    """
    inner = [each for each in call.calls if isinstance(each.module, AttentionLayer) and each.look]
    if not hasattr(call.module, "num_heads") or len(inner) != 1:
        return None
    call.heads_at = call.calls.index(inner[0])
    return call.calls.pop(call.heads_at)


def _own_heads(call: PartCall, part: Part, output: Any) -> Made:
    """The heads of a part that attends itself: its weights, where it made them as a tensor.

    Where a kernel of the course's or PyTorch's has made none, they stand before the output.
    """
    call.heads_at = len(call.calls)
    if isinstance(call.module, AttentionLayer | nn.MultiheadAttention):
        made = part.of(output[0] if isinstance(output, tuple) else output)
        part.last = heads = Made([made] if made else [], HEADS)
        return heads
    for X in (vars(call.module).get("attention_weights"), *tensors_in("", output).values()):
        made = part.of(X)
        if made and made.what is None and tuple(X.shape[-2:]) == call.look.shape[1:]:
            made.what = HEADS
            behind = [i for i, each in enumerate(call.calls) if made in _sources(each.made)]
            call.heads_at = min(behind, default=len(call.calls))
            return made
    return Made()


def _sources(made: Made | None) -> list[Made]:
    return [] if made is None else [each for one in made.of for each in one.named()]


def _arrows(call: PartCall, part: Part, heads: Made | None, outputs: list) -> list[tuple[int, int]]:
    """Between the rows of the view: inputs, calls with the heads among them, outputs."""
    between = [each.made for each in call.calls]
    if call.look is not None:
        between.insert(call.heads_at, heads or Made())
    rows = part.inputs[: len(call.inputs)] + between
    number = {made: i for i, made in enumerate(rows)}
    sources = [(len(call.inputs) + i, _sources(made)) for i, made in enumerate(between)]
    for i, X in enumerate(outputs, start=len(rows)):
        last = part.last if i == len(rows) and part.last else part.of(X)
        sources.append((i, last.named() if last else []))
    return sorted({(number[each], to) for to, found in sources for each in found if each in number})


def _fitting(call: PartCall, length: int) -> list[Words | None]:
    """The words of each input that may have so many tokens; None for one that has no words."""
    found: list[Words | None] = []
    for each in call.inputs:
        axes = each.shape[:-1] if "float" in each.dtype else each.shape
        if len(each.words) == length if each.words else length in axes and each.dtype != "bool":
            found.append(each.words)
    return found


def _words_of_look(call: PartCall, look: Look) -> tuple[Words | None, Words | None]:
    """The words of the queries and of the keys: those of the tensors that are named so.

    Where none is, of the inputs that fit the first is the queries', and another one the keys'; an
    input without words is one of them.
    """
    _, num_queries, num_keys = look.shape
    named = {name: each.words for each in call.inputs for name in each.name.split(" = ")}
    named |= call.words
    queries = next(iter(_fitting(call, num_queries)), None)
    fitting = _fitting(call, num_keys)
    keys = next((words for words in fitting if words != queries), next(iter(fitting), None))
    queries = named.get("queries", named.get("query", queries))
    keys = named.get("keys", named.get("key", keys))
    return (
        queries if queries and len(queries) == num_queries else None,
        keys if keys and len(keys) == num_keys else None,
    )


def _uncompiled():
    """A compiled model runs as it was written meanwhile: a compiler would have to trace the hooks.

    Where nothing has imported the compiler nothing is compiled, and the import takes a second.
    """
    loaded = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if loaded else nullcontext()


@contextmanager
def _as_before(model: nn.Module) -> Iterator[None]:
    """Everything that a run changes, and a look should not: put back at the end, also by an error.

    The modes; the random states; what attention layers keep of their last pass. PyTorch's layers
    have a fast way through that calls none of their parts: it is closed meanwhile. A lazy layer
    draws its parameters in the run and keeps them. The random state then goes on as behind any
    first call, or the next layer would draw the same.
    """
    modes = [(module, module.training) for module in model.modules()]
    kept = [
        (module, name, getattr(module, name))
        for module in model.modules()
        for kind, name in MEMORIES.items()
        if isinstance(module, kind)
    ]
    fast = torch.backends.mha.get_fastpath_enabled()
    tensors = [*model.parameters(), *model.buffers()]
    used = {tensor.device for tensor in tensors}
    cuda = [device for device in used if device.type == "cuda"]
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.random.fork_rng(devices=cuda, enabled=not any(map(is_lazy, tensors))):
            model.eval()
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for module, training in modes:
            module.training = training
        for layer, name, memory in kept:
            setattr(layer, name, memory)


def _without_output(tokens) -> tuple[Any, Words | None]:
    """The words of the inputs, and those that the output scores, if the reader gave them."""
    if not isinstance(tokens, Mapping) or "output" not in tokens:
        return tokens, None
    rest = {name: words for name, words in tokens.items() if name != "output"}
    return rest, tuple(whole(str(word)) for word in tokens["output"])
