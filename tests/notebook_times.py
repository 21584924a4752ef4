"""A pytest plugin for ``make test``: how long each notebook ran, and which ran too long.

A machine that others use, too, has hours in which everything takes several times as long. So more
than the limit is only said; a failure is what no such hour explains.
"""

from collections import defaultdict
from pathlib import Path

SECONDS = 60
SECONDS_TO_TRAIN = 120
TRAIN = ("05_", "08_")
BEYOND_EXCUSE = 5  # times the limit

spent = defaultdict(float)


def limit(notebook: str) -> int:
    return SECONDS_TO_TRAIN if notebook.startswith(TRAIN) else SECONDS


def pytest_runtest_logreport(report):
    # Every cell reports three times: before, during and after it; the kernel starts before.
    spent[Path(report.nodeid.split("::")[0]).name] += report.duration


def pytest_sessionfinish(session):
    if any(seconds > BEYOND_EXCUSE * limit(notebook) for notebook, seconds in spent.items()):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    for notebook, seconds in sorted(spent.items()):
        late = f"   more than the {limit(notebook)} s it may take" * (seconds > limit(notebook))
        terminalreporter.write_line(f"{seconds:6.1f} s  {notebook}{late}")
