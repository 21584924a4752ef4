"""A pytest plugin for ``make test``: how long each notebook ran. A slow machine is no failure."""

from collections import defaultdict
from pathlib import Path

spent = defaultdict(float)


def pytest_runtest_logreport(report):
    # Every cell reports three times: before, during and after it; the kernel starts before.
    spent[Path(report.nodeid.split("::")[0]).name] += report.duration


def pytest_terminal_summary(terminalreporter):
    for notebook, seconds in sorted(spent.items()):
        terminalreporter.write_line(f"{seconds:6.1f} s  {notebook}")
