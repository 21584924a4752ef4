"""A pytest plugin for ``make test``: how long each notebook ran, and that none ran too long.

A machine that others use, too, has hours in which training takes several times as long. So a
chapter that trains fails only beyond twice its limit; that it took longer is said.
"""

from collections import defaultdict
from pathlib import Path

SECONDS = 60
SECONDS_TO_TRAIN = 120
TRAIN = ("05_", "08_")
BEYOND_EXCUSE = 2  # times the limit, for chapters that train

spent = defaultdict(float)


def limit(notebook: str) -> int:
    return SECONDS_TO_TRAIN if notebook.startswith(TRAIN) else SECONDS


def failure(notebook: str) -> int:
    return limit(notebook) * (BEYOND_EXCUSE if notebook.startswith(TRAIN) else 1)


def pytest_runtest_logreport(report):
    # Every cell reports three times: before, during and after it; the kernel starts before.
    spent[Path(report.nodeid.split("::")[0]).name] += report.duration


def pytest_sessionfinish(session):
    if any(seconds > failure(notebook) for notebook, seconds in spent.items()):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    for notebook, seconds in sorted(spent.items()):
        late = f"   more than the {limit(notebook)} s it may take" * (seconds > limit(notebook))
        terminalreporter.write_line(f"{seconds:6.1f} s  {notebook}{late}")
