"""A pytest plugin for ``make test``: for each failure, what to type to see it alone."""

from notebooks.__main__ import this_python


def pytest_terminal_summary(terminalreporter):
    reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    lines = dict.fromkeys(to_type(report.nodeid) for report in reports)
    if lines:
        terminalreporter.write_line("To see one alone, type its line:")
    for line in lines:
        terminalreporter.write_line(f"  {line}")


def to_type(name: str) -> str:
    """The command for the test of this name; a cell needs the cells before it, so its chapter."""
    file = name.partition("::")[0]
    if file.endswith(".ipynb"):
        number = file.rpartition("/")[2][:2]
        return f"{this_python()} -m notebooks test {number}"
    return f'{this_python()} -m pytest -p no:nbval "{name}"'
