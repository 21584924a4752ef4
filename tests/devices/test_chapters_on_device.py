"""Every chapter's cells, from first to last, where ``try_gpu()`` gives the device under test.

Training ends after a few steps and an ``assert`` says nothing: nbval checks what a chapter claims,
and a model that has hardly learned proves no claim. What is left is what a device can break.
"""

import ast
import importlib
import inspect
from functools import wraps

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from accelerate.state import AcceleratorState, GradientState
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from d2l_attention import try_gpu
from d2l_attention.scale import parallel
from notebooks.publish.course import NOTEBOOKS, texts
from notebooks.publish.text import read_text

FEW = 2  # steps of training
# The package's loops that chapters call, each with an argument ``steps``.
LOOPS = {
    "d2l_attention.training.loop": "train",
    "d2l_attention.experiments.spelling": "train",
    "d2l_attention.experiments.lookups": "train",
    "d2l_attention.experiments.indexed": "train_indexers",
    "d2l_attention.experiments.repeats": "train",
}
CURVE = 10  # a chapter draws the means of some losses: each is written so many times


class Shorter(ast.NodeTransformer):
    """Loops around a backward pass end after a few rounds, and claims are computed, not made."""

    def visit_For(self, loop: ast.For) -> ast.For:
        self.generic_visit(loop)
        inner = [node for node in ast.walk(loop) if isinstance(node, ast.For) and trains(node)]
        if inner == [loop]:
            few = ast.parse(f"__import__('itertools').islice(0, {FEW * CURVE})", mode="eval").body
            few.args[0] = loop.iter
            loop.iter = few
        return ast.fix_missing_locations(loop)

    def visit_keyword(self, given: ast.keyword) -> ast.keyword:
        """A clock that runs for ``seconds``, counts that are improved in ``iterations``."""
        self.generic_visit(given)
        if given.arg in ("seconds", "iterations"):
            least = ast.Constant(0 if given.arg == "seconds" else 1)
            given.value = ast.copy_location(least, given.value)
        return given

    def visit_Assert(self, claim: ast.Assert) -> ast.Expr:
        return ast.copy_location(ast.Expr(claim.test), claim)


def trains(loop: ast.For) -> bool:
    """Whether there is a gradient in it: ``loss.backward()``, ``torch.autograd.grad(...)``."""
    calls = [node.func for node in ast.walk(loop) if isinstance(node, ast.Call)]
    names = {called.attr for called in calls if isinstance(called, ast.Attribute)}
    return not names.isdisjoint({"backward", "grad"})


@pytest.fixture(autouse=True)
def short_training(monkeypatch):
    for module, name in LOOPS.items():
        module = importlib.import_module(module)
        monkeypatch.setattr(module, name, few_steps(getattr(module, name)))


@pytest.fixture(autouse=True)
def small_measurements(monkeypatch):
    """Chapter 10 measures a CPU's memory and time in new processes: no matter of this device."""
    in_processes = parallel.run_processes

    def short(function, *processes, steps=None, **arguments):
        if steps is None:
            return in_processes(function, *processes, **arguments)
        few = [(attend, min(n, 64), backward) for attend, n, backward in steps]
        return [[(n, mib + 1.0, ms + 1.0) for n, mib, ms in function(few)]]  # nothing is 0

    monkeypatch.setattr(parallel, "run_processes", short)


def few_steps(train):
    @wraps(train)
    def short(*args, **kwargs):
        bound = inspect.signature(train).bind(*args, **kwargs)
        bound.arguments["steps"] = FEW
        result = train(*bound.args, **bound.kwargs)
        for losses in (result, getattr(result, "losses", None)):
            if isinstance(losses, list) and isinstance(losses[0], float):
                losses *= CURVE
        return result

    return short


@pytest.fixture
def shell():
    """IPython in this process, as a kernel has it, but for what only a browser shows."""
    matplotlib.use("agg")
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors="nocolor")
    shell.ast_transformers.append(Shorter())
    shell.user_ns["display"] = display
    yield shell
    plt.close("all")
    InteractiveShell.clear_instance()
    AcceleratorState._reset_state(reset_partial_state=True)  # it keeps its first device
    GradientState._reset_state()


@pytest.mark.filterwarnings("default")  # as in a kernel
@pytest.mark.parametrize("text", texts(), ids=lambda text: text.stem)
def test_every_cell_runs(device, text, shell, monkeypatch, tmp_path):
    monkeypatch.chdir(NOTEBOOKS)
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))
    assert try_gpu().type == device.type
    torch.manual_seed(0)
    for number, cell in enumerate(read_text(text).cells):
        if cell.cell_type == "code":
            done = shell.run_cell(cell.source, store_history=True)
            error = done.error_before_exec or done.error_in_exec
            assert error is None, f"cell {number}: {error!r}\n{cell.source}"
