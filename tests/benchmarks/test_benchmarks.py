"""The benchmark starts from the course's folder, on systems that lack what Linux has, too."""

import os
import subprocess
import sys

from tests.benchmarks import __main__ as benchmark
from tests.benchmarks.footprint import ROOT


def test_it_starts_as_a_module():
    command = [sys.executable, "-m", "tests.benchmarks", "nonsense"]
    said = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT)
    assert said.returncode == 2
    assert "no subject nonsense: choose of attention, translation, transformer" in said.stderr


def test_a_system_that_does_not_say_its_load(monkeypatch):
    assert "load" in benchmark.machine() or not hasattr(os, "getloadavg")
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert "load" not in benchmark.machine()
