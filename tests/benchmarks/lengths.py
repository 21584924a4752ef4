"""Seconds and memory against the number of tokens, drawn: ``python -m tests.benchmarks.lengths``.

One training pass of multi-head attention, 512 wide, 8 heads, each point in a fresh process.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt

from d2l_attention.system.files import writing
from tests.benchmarks.timing import ROOT

LENGTHS = [512, 1024, 2048, 4096, 8192, 16_384]
LONGEST_EXPLICIT = 4096  # d2l needs 6 GiB for 8,192 tokens
ONE = """
import sys, time, torch
from tests.benchmarks.timing import peak
from d2l_attention import MultiHeadAttention
torch.set_num_threads(1)
who, n = sys.argv[1], int(sys.argv[2])
if who == "d2l":
    from tests.d2l_oracle import load_d2l
    layer = load_d2l().MultiHeadAttention(512, 8, 0.0)
else:
    layer = MultiHeadAttention(512, 8, 0.0)
def act(n):
    X = torch.randn(1, n, 512, requires_grad=True)
    before, start = peak(), time.process_time()
    layer(X, X, X, None).sum().backward()
    return time.process_time() - start, before
act(64)
spent, before = act(n)
memory = peak() - before
print(min(spent, act(n)[0]), memory)
"""
COLOURS = {"d2l": "#b35900", "this package": "#08519c"}


def measure(who: str, n: int) -> tuple[float, float]:
    """Seconds and MiB of one pass forward and backward."""
    command = [sys.executable, "-c", ONE, who, str(n)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=ROOT)
    seconds, mib = map(float, done.stdout.split())
    return seconds, mib


def draw(points: dict[str, dict[int, tuple[float, float]]], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), dpi=110, layout="constrained")
    titles = "Seconds: the same slope, a lower line", "Memory: a square against a line"
    for panel, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        for name, measured in points.items():
            lengths, values = list(measured), [value[panel] for value in measured.values()]
            ax.plot(lengths, values, "o-", color=COLOURS[name], linewidth=2)
            ax.annotate(
                name,
                (lengths[-1], values[-1]),
                xytext=(-8, 4),
                textcoords="offset points",
                color=COLOURS[name],
                ha="right",
            )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(LENGTHS, [f"{n:,}" for n in LENGTHS])
        ax.yaxis.set_major_formatter("{x:,g}")
        ax.set_xlabel("tokens")
        ax.set_ylabel(("seconds, forward and backward", "MiB above the inputs")[panel])
        ax.set_title(title)
        ax.spines[["top", "right"]].set_visible(False)
    with writing(path) as file:
        figure.savefig(file, format=path.suffix[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench" / "lengths.png")
    out = parser.parse_args().out
    points = {name: {} for name in COLOURS}
    for n in LENGTHS:
        for name in COLOURS:
            if name == "d2l" and n > LONGEST_EXPLICIT:
                continue
            seconds, mib = points[name][n] = measure(name, n)
            print(f"{name:14s}{n:8,} tokens{seconds:9.3f} s{mib:9.0f} MiB", flush=True)
    draw(points, out)
    print(f"Written: {out}")


if __name__ == "__main__":
    main()
