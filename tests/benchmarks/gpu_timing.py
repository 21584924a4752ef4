"""Milliseconds and memory on a GPU, by CUDA events; on a CPU by the clock, for trying out.

Methods take turns: a round measures each of them once, so a change of the GPU's clock meets all.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

WARM_UP, ROUNDS, FEWEST = 3, 15, 5
SECONDS_A_ROW = 3.0  # long rows take fewer rounds, at least FEWEST

Act = Callable[[], object]


def milliseconds(act: Act, device: torch.device, calls: int) -> float:
    """Milliseconds a call, by events in the GPU's own queue, or by the clock on a CPU."""
    if device.type != "cuda":
        started = time.perf_counter()
        for _ in range(calls):
            act()
        return 1000 * (time.perf_counter() - started) / calls
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        act()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / calls


def medians(acts: dict[str, Act], device: torch.device, calls: int = 1) -> dict[str, float | str]:
    """Milliseconds a call of each act, or why there are none. A round measures each act once."""
    taken, reasons = {}, {}
    for name, act in acts.items():
        try:
            for _ in range(WARM_UP):
                act()
            taken[name] = []
        except torch.OutOfMemoryError:
            reasons[name] = "out of memory"
        except Exception as error:  # a compiler that is not there: the others go on
            reasons[name] = first_line(error)
        if name in reasons and device.type == "cuda":
            torch.cuda.empty_cache()
    end, rounds = time.perf_counter() + SECONDS_A_ROW, 0
    while rounds < FEWEST or (rounds < ROUNDS and time.perf_counter() < end):
        for name, spent in taken.items():
            spent.append(milliseconds(acts[name], device, calls))
        rounds += 1
    return {name: reasons.get(name) or statistics.median(taken[name]) for name in acts}


def first_line(error: BaseException) -> str:
    """What went wrong first: ending a capture that has failed is an error of its own."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


def peak_mib(act: Act, device: torch.device) -> float | None:
    """The most memory that one call holds above what was there before."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    try:
        act()
    except torch.OutOfMemoryError:
        return None
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def without_gradients(module: nn.Module, *inputs, **options) -> Act:
    def act():
        with torch.no_grad():
            return module(*inputs, **options)

    return act


def there_and_back(module: nn.Module, *inputs, **options) -> Act:
    """Forward and backward, with gradients for the parameters and for the inputs."""

    def act():
        output = module(*inputs, **options)
        (output[0] if isinstance(output, tuple) else output).sum().backward()
        module.zero_grad()  # at the end, so that a peak of memory counts the gradients
        for X in inputs:
            X.grad = None

    return act


def captured(act: Act) -> torch.cuda.CUDAGraph:
    """A CUDA graph of one call, after a warm-up on a side stream; an error where none can be."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            act()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    return graph
