"""Attention on a GPU: ``python -m tests.benchmarks.gpu --out FILE``, two minutes.

Four tables: the course's layer against a matrix product, from 1k to 64k tokens; multi-head
attention against the layer by hand, d2l and PyTorch's; additive attention against its formula; what
a forward pass asks of the GPU (whether a CUDA graph can hold it, how many kernels it starts). They
need torch, numpy and this package. d2l's column needs d2l:
``pip install --no-deps --target FOLDER d2l==1.0.3``, then ``PYTHONPATH=FOLDER``.

Times are medians by CUDA events, of methods that take turns. FILE gets everything as JSON, after
each row.
"""

import argparse
import datetime
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from d2l_attention import AdditiveAttention, MultiHeadAttention
from d2l_attention.system.files import write_whole
from tests.benchmarks.gpu_methods import HIDING, differences, has_d2l, multi_head_calls
from tests.benchmarks.gpu_timing import (
    Act,
    captured,
    first_line,
    medians,
    peak_mib,
    there_and_back,
    without_gradients,
)
from tests.benchmarks.other_implementations import AdditiveByHand

CALLS = 20  # in a row, where one call is over at once
SQUARE, SIZE, HEADS = 8192, 1024, 16
LENGTHS = [2**power for power in range(10, 17)]
MULTI_HEAD = [  # dtype, (B, n, D, H)
    (torch.float32, (2, 10, 100, 5)),
    (torch.float32, (32, 128, 256, 8)),
    (torch.float32, (8, 1024, 512, 8)),
    (torch.bfloat16, (8, 1024, 512, 8)),
    (torch.bfloat16, (4, 4096, 1024, 16)),
    (torch.float32, (4, 4096, 1024, 16)),
]
ADDITIVE = [(8, 128, 256), (8, 512, 256)]  # (B, n, h)
Row = dict[str, object]


# The course's layer against a matrix product.


def operations(n: int, size: int, *, causal: bool) -> float:
    """Additions and multiplications forward: four projections, scores, averages of the values.

    The backward pass needs twice as many.
    """
    pairs = n * n / 2 if causal else n * n
    return 8 * n * size**2 + 4 * pairs * size


def layer_rows(
    device: torch.device,
    lengths: list[int],
    size: int = SIZE,
    num_heads: int = HEADS,
    square: int = SQUARE,
) -> Iterator[Row]:
    """A row for each length: milliseconds, shares of the product's operations a second, MiB."""
    options = {"device": device, "dtype": torch.bfloat16}
    matrix = torch.randn(square, square, **options)
    layer = MultiHeadAttention(size, num_heads, 0.0)
    layer(*[torch.zeros(1, 1, size)] * 3)  # makes the lazy weights
    layer.to(**options)
    for n in lengths:
        X = torch.randn(1, n, size, **options, requires_grad=True)
        acts = {"product": lambda: matrix @ matrix}
        for kind in ("whole", "causal"):
            arguments = {"is_causal": kind == "causal"}
            acts[f"{kind}, forward"] = without_gradients(layer, X, X, X, **arguments)
            acts[f"{kind}, both"] = there_and_back(layer, X, X, X, **arguments)
        if device.type == "cuda":
            # The same kernels, started by the GPU: what is left is their own work.
            try:
                acts["whole, forward, in a graph"] = captured(acts["whole, forward"]).replay
            except RuntimeError as error:
                print("no CUDA graph:", first_line(error))
        took = medians(acts, device, CALLS if n <= 4096 else 1)
        speed = 2 * square**3 / took["product"]  # operations a millisecond
        shares = {}
        for name, ms in took.items():
            if name != "product" and isinstance(ms, float):
                work = operations(n, size, causal=name.startswith("causal"))
                shares[name] = work * (3 if name.endswith("both") else 1) / ms / speed
        peaks = {kind: peak_mib(acts[f"{kind}, both"], device) for kind in ("whole", "causal")}
        yield {
            "tokens": n,
            "product TFLOP/s": speed / 1e9,
            "ms": took,
            "share of the product": shares,
            "MiB": peaks,
        }


# Multi-head attention against others.


def multi_head_rows(device: torch.device, cases: list, largest_calls: int = 2**21) -> Iterator[Row]:
    """Milliseconds forward and backward of each method, for each way of hiding keys."""
    for dtype, shape in cases:
        calls_a_sample = CALLS if shape[0] * shape[1] * shape[2] < largest_calls else 1
        for name, (lengths, causal) in HIDING.items():
            calls = multi_head_calls(device, dtype, shape, lengths, causal)
            acts = {
                method: there_and_back(module, *inputs, **options)
                for method, (module, inputs, options) in calls.items()
            }
            took = medians(acts, device, calls_a_sample)
            took.setdefault("d2l", "not installed")
            hand, ours = took["by hand"], took["ours"]
            both = isinstance(hand, float) and isinstance(ours, float)
            yield {
                "dtype": str(dtype).removeprefix("torch."),
                "shape": list(shape),
                "hides": name,
                "ms": took,
                "ours, of the speed by hand": hand / ours if both else None,
                "differs from by hand": differences(calls),
            }


# Additive attention against its formula.


def additive_rows(
    device: torch.device, shapes: list[tuple[int, int, int]], compiled: bool = True
) -> Iterator[Row]:
    """Milliseconds forward, forward and backward, and MiB, of each method."""
    for batch, n, size in shapes:
        inputs = [torch.randn(batch, n, size, device=device, requires_grad=True) for _ in range(3)]
        formula, ours = AdditiveByHand(size).to(device), AdditiveAttention(size, 0.0)
        ours(*[torch.zeros(1, 1, size)] * 3)
        ours.to(device).load_state_dict(formula.state_dict())
        methods = {"formula": formula, "ours": ours}
        if compiled:
            methods["ours, compiled"] = torch.compile(ours, dynamic=False)
        acts = {}
        for name, module in methods.items():
            acts[f"{name}, forward"] = without_gradients(module, *inputs)
            acts[f"{name}, both"] = there_and_back(module, *inputs)
        took = medians(acts, device)
        peaks = {
            name: peak_mib(acts[f"{name}, both"], device)
            for name in methods
            if isinstance(took[f"{name}, both"], float)
        }
        calls = {"by hand": (formula, tuple(inputs), {}), "ours": (ours, tuple(inputs), {})}
        yield {
            "shape": [batch, n, size],
            "ms": took,
            "MiB": peaks,
            "differs from by hand": differences(calls),
        }


# What a forward pass asks of the GPU.


def graph_rows(device: torch.device, shape: tuple[int, ...] = (8, 1024, 512, 8)) -> Iterator[Row]:
    """Whether a CUDA graph can hold a forward pass, and is right when the inputs change."""
    for method in ("by hand", "ours"):
        # What failed in older versions comes last: a failed capture may spoil the next.
        for name in ("plain", "causal", "lengths", "lengths and causal"):
            calls = multi_head_calls(device, torch.bfloat16, shape, *HIDING[name])
            try:
                said = replayed(*calls[method])
            except Exception as error:
                said = f"no: {first_line(error)}"
            yield {"method": method, "hides": name, "in a CUDA graph": said}


def replayed(module: nn.Module, inputs: tuple, options: dict) -> str:
    """Capture a call, change its inputs in place, replay it, and compare with a new call."""
    kept = []

    def act():
        with torch.no_grad():
            kept[:] = [module(*inputs, **options)]

    graph = captured(act)
    output = kept[0][0] if isinstance(kept[0], tuple) else kept[0]
    with torch.no_grad():
        inputs[0].normal_()
        for lens in options.values():
            if isinstance(lens, torch.Tensor) and not lens.is_floating_point() and lens.ndim == 1:
                lens.sub_(lens.min() // 2)
    graph.replay()
    expected = without_gradients(module, *inputs, **options)()
    expected = expected[0] if isinstance(expected, tuple) else expected
    right = torch.allclose(output, expected, atol=2e-2, rtol=2e-2)
    return "yes" if right else "yes, but a replay with other inputs is wrong"


def kernel_rows(device: torch.device, shape: tuple[int, ...] = (8, 1024, 512, 8)) -> Iterator[Row]:
    """How many kernels forward, and forward and backward, start: counted by PyTorch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    def count(act: Act) -> int:
        act()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            act()
            torch.cuda.synchronize()
        on_gpu = [event for event in seen.events() if event.device_type.name == "CUDA"]
        return sum(not event.name.lower().startswith(("memcpy", "memset")) for event in on_gpu)

    for name, (lengths, causal) in HIDING.items():
        calls = multi_head_calls(device, torch.bfloat16, shape, lengths, causal)
        for method, (module, inputs, options) in calls.items():
            forward = count(without_gradients(module, *inputs, **options))
            both = count(there_and_back(module, *inputs, **options))
            yield {"hides": name, "method": method, "kernels": [forward, both]}


# Print and write.


@dataclass
class Table:
    """Rows, and how one is printed."""

    columns: list[str]
    rows: Iterator[Row]
    cells: Callable[[Row], list]


def text(value: object) -> str:
    """Three digits of a number."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return "" if value is None else str(value)


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def layer_cells(row: Row) -> list:
    ms, shares = row["ms"], row["share of the product"]
    cells = [f"{row['tokens']:,}", row["product TFLOP/s"]]
    for kind in ("whole", "causal"):
        names = [f"{kind}, forward", f"{kind}, both"]
        cells.append("; ".join(text(ms[name]) for name in names))
        cells.append(" / ".join(percent(shares.get(name)) for name in names))
    return [*cells, ms.get("whole, forward, in a graph"), row["MiB"]["whole"]]


def multi_head_cells(row: Row) -> list:
    methods = [row["ms"].get(name) for name in ("by hand", "ours", "d2l", "torch")]
    share = percent(row["ours, of the speed by hand"])
    return [row["dtype"], tuple(row["shape"]), row["hides"], *methods, share]


def additive_cells(row: Row) -> list:
    cells = [tuple(row["shape"])]
    for name in ("formula", "ours", "ours, compiled"):
        numbers = [row["ms"].get(f"{name}, {way}") for way in ("forward", "both")]
        cells.append("; ".join(text(number) for number in [*numbers, row["MiB"].get(name)]))
    return cells


def tables(device: torch.device) -> dict[str, Table]:
    methods = ["by hand", "ours", "d2l", "torch"]
    return {
        f"layer, bfloat16, {SIZE} wide, {HEADS} heads, one sequence, ms forward; both": Table(
            ["tokens", "product TFLOP/s", "whole ms", "share", "causal ms", "share"]
            + ["forward in a graph ms", "peak MiB"],
            layer_rows(device, LENGTHS),
            layer_cells,
        ),
        "multi-head, (B, n, D, H), ms forward and backward": Table(
            ["dtype", "shape", "hides", *methods, "ours, of the speed by hand"],
            multi_head_rows(device, MULTI_HEAD),
            multi_head_cells,
        ),
        "additive, float32, (B, n, h), ms forward; both; peak MiB": Table(
            ["shape", "formula", "ours", "ours, compiled"],
            additive_rows(device, ADDITIVE),
            additive_cells,
        ),
        "kernels, bfloat16": Table(
            ["method", "hides", "forward", "both"],
            kernel_rows(device),
            lambda row: [row["method"], row["hides"], *row["kernels"]],
        ),
        # Last, because a capture that fails may leave the GPU in disorder.
        "a forward pass in a CUDA graph, bfloat16": Table(
            ["method", "hides", "captured"], graph_rows(device), lambda row: list(row.values())
        ),
    }


def machine(device: torch.device) -> dict[str, str]:
    cuda = device.type == "cuda"
    return {
        "date": datetime.datetime.now().isoformat(timespec="minutes"),
        "card": torch.cuda.get_device_name(device) if cuda else "none",
        "memory": f"{torch.cuda.get_device_properties(device).total_memory / 2**30:.0f} GiB"
        if cuda
        else "",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "d2l": "1.0.3 from the package index" if has_d2l() else "not installed",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a file for the rows, as JSON")
    out = parser.parse_args().out
    if not torch.cuda.is_available():
        sys.exit("gpu.py: no CUDA device here; `make bench` is the benchmark for the CPU")
    device, started = torch.device("cuda"), time.perf_counter()
    torch.manual_seed(0)
    told: dict[str, object] = {"machine": machine(device)}
    for name, value in told["machine"].items():
        print(f"{name}: {value}")
    for name, table in tables(device).items():
        print(f"\n{name} ({time.perf_counter() - started:.0f} s so far)")
        print(f"| {' | '.join(table.columns)} |\n{'|---' * len(table.columns)}|", flush=True)
        told[name] = measured = []
        try:
            for row in table.rows:
                print(f"| {' | '.join(text(cell) for cell in table.cells(row))} |", flush=True)
                measured.append(row)
                if out:
                    write_whole(out, json.dumps(told, indent=1) + "\n")
        except Exception as error:  # what is measured is measured: the other tables follow
            print(f"this table ends here: {first_line(error)}", flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s" + (f", written: {out}" if out else ""))


if __name__ == "__main__":
    main()
