"""The benchmarks start from the course's folder, on systems that lack what Linux has, too.

That of a GPU is run on the CPU with tiny sizes: its methods give the same outputs. No time counts.
"""

import os
import subprocess
import sys

import pytest
import torch

from d2l_attention import AdditiveAttention, MultiHeadAttention
from tests.benchmarks import __main__ as benchmark
from tests.benchmarks import gpu, gpu_methods
from tests.benchmarks.gpu_timing import first_line, medians
from tests.benchmarks.other_implementations import AdditiveByHand, ByHand
from tests.benchmarks.timing import ROOT

CPU = torch.device("cpu")


def test_an_unknown_subject_is_told(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmark", "nonsense"])
    with pytest.raises(SystemExit):
        benchmark.main()
    assert "no subject nonsense: choose of attention, transformer" in capsys.readouterr().err


def test_a_system_that_does_not_say_its_load(monkeypatch):
    assert "load" in benchmark.machine() or not hasattr(os, "getloadavg")
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert "load" not in benchmark.machine()


@pytest.mark.parametrize("hides", gpu_methods.HIDING)
@pytest.mark.parametrize("installed", [True, False], ids=["d2l", "no-d2l"])
def test_methods_that_are_timed_on_a_gpu_agree(hides, installed, monkeypatch):
    if not installed:
        monkeypatch.setattr(gpu, "has_d2l", lambda: False)
        monkeypatch.setattr(gpu_methods, "has_d2l", lambda: False)
    monkeypatch.setattr(gpu, "HIDING", {hides: gpu_methods.HIDING[hides]})
    (row,) = gpu.multi_head_rows(CPU, [(torch.float32, (2, 7, 12, 3))])
    assert set(row["differs from by hand"]) == {"ours", "torch", *["d2l"] * installed}
    assert max(row["differs from by hand"].values()) < 1e-5
    cells = gpu.multi_head_cells(row)
    assert cells[:3] == ["float32", (2, 7, 12, 3), hides]
    assert (cells[5] == "not installed") != installed and cells[7].endswith("%")


def test_other_rows_of_a_gpu():
    (row,) = gpu.layer_rows(CPU, [5], size=12, num_heads=3, square=8)
    assert set(row["share of the product"]) == set(row["ms"]) - {"product"}
    assert gpu.operations(5, 12, causal=False) == 8 * 5 * 12**2 + 4 * 5 * 5 * 12
    assert gpu.layer_cells(row)[0] == "5" and len(gpu.layer_cells(row)) == 8
    (row,) = gpu.additive_rows(CPU, [(2, 5, 3)], compiled=False)
    assert row["differs from by hand"]["ours"] < 1e-5
    assert "formula, both" in row["ms"] and len(gpu.additive_cells(row)) == 4


def test_what_cannot_run_says_why_and_the_others_go_on():
    def too_large():
        raise torch.OutOfMemoryError("CUDA out of memory")

    def no_compiler():
        raise RuntimeError("no compiler here\nand more")

    took = medians({"one": too_large, "two": no_compiler, "three": lambda: None}, CPU)
    assert took["one"] == "out of memory" and took["two"] == "RuntimeError: no compiler here"
    assert took["three"] >= 0


def test_of_two_errors_the_first_is_told():
    try:
        try:
            raise RuntimeError("may not read back\nwhile capturing")
        except RuntimeError:
            raise ValueError("the capture has failed") from None
    except ValueError as error:
        assert first_line(error) == "RuntimeError: may not read back"


def test_layers_by_hand_take_the_parameters_of_the_course_s():
    X = torch.randn(2, 7, 12)
    for hand, layer in (
        (ByHand(12, 3), MultiHeadAttention(12, 3, 0.0)),
        (AdditiveByHand(12), AdditiveAttention(12, 0.0)),
    ):
        expected = layer(X, X, X)
        hand.load_state_dict(layer.state_dict(), strict=True)
        torch.testing.assert_close(hand(X, X, X), expected, atol=1e-5, rtol=1e-4)


def test_a_machine_without_a_gpu_is_told_so(monkeypatch):
    monkeypatch.setattr("sys.argv", ["gpu"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="^gpu.py: no CUDA device here"):
        gpu.main()


def test_the_benchmark_of_a_gpu_needs_torch_alone():
    """A machine that is lent has torch and numpy, and not the course's other packages."""
    code = """
import sys
for name in ("pytest", "hypothesis", "matplotlib", "IPython", "accelerate", "d2l", "transformers"):
    sys.modules[name] = None
import tests.benchmarks.gpu
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
