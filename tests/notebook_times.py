"""A pytest plugin for ``make test``: how long each notebook ran, and that none ran too long."""

from collections import defaultdict
from pathlib import Path

SECONDS = 60
SECONDS_TO_TRAIN = 120
TRAIN = ("05_", "08_")

spent = defaultdict(float)


def limit(notebook: str) -> int:
    return SECONDS_TO_TRAIN if notebook.startswith(TRAIN) else SECONDS


def pytest_runtest_logreport(report):
    # Every cell reports three times: before, during and after it; the kernel starts before.
    spent[Path(report.nodeid.split("::")[0]).name] += report.duration


def pytest_sessionfinish(session):
    if any(seconds > limit(notebook) for notebook, seconds in spent.items()):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    for notebook, seconds in sorted(spent.items()):
        late = f"   more than the {limit(notebook)} s it may take" * (seconds > limit(notebook))
        terminalreporter.write_line(f"{seconds:6.1f} s  {notebook}{late}")
