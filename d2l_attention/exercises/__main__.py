"""The command line: grade students' notebooks."""

import argparse
import csv
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import torch

from d2l_attention.exercises.exercise import sort_key
from d2l_attention.exercises.submission import Submission, read

DAY = 86_400  # seconds
MARKS = {"solved": "✓", "wrong": "✗", "not attempted": "·", "not there": "-", "not run": "?"}
DESCRIPTION = """\
Run each notebook in a fresh kernel of its own, check its answers outside of that kernel, and
write a table: per exercise 'solved', 'wrong', 'not attempted' (as handed out), 'not there' (no
call of check) or 'not run' (its turn did not come). Whatever is wrong with a notebook is a
remark in its row. Ctrl-C keeps the rows so far.

The notebooks' code runs with your rights: use a container or a throw-away account."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m d2l_attention.exercises")
    command = parser.add_subparsers(required=True, metavar="grade").add_parser(
        "grade",
        help="run students' notebooks and write a table of what they solved",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "notebooks",
        nargs="+",
        type=Path,
        metavar="NOTEBOOK",
        help="a notebook, or a folder: all notebooks in it and below it",
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("grades.csv"),
        help="the table; one that is there is replaced (default: grades.csv)",
    )
    command.add_argument(
        "--seconds",
        type=positive_up_to(DAY),
        default=300.0,
        help="for all cells of a notebook; one cell may take half of what is left (default: 300)",
    )
    command.add_argument(
        "--memory",
        type=positive_up_to(1024),
        default=4.0,
        metavar="GB",
        help="for each process of a notebook; only Linux keeps it (default: 4)",
    )
    options = parser.parse_args()
    if not hasattr(os, "fork"):
        sys.exit("The grader needs Linux or macOS; on Windows run it in WSL or in a container.")
    sys.stdout.reconfigure(errors="replace")  # a terminal that knows no ✓ gets a ?
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    if options.out.suffix == ".ipynb":  # one of the notebooks, if the table's name was forgotten
        sys.exit(f"{options.out} is a notebook's name: the table would take its place.")
    try:
        write_table(options)
    except BrokenPipeError:  # nobody reads the screen any more; the table is another file
        sys.exit(f"Stopped. The rows so far are in {options.out}.")
    except KeyboardInterrupt:
        print(f"Stopped. The rows so far are in {options.out}.", file=sys.stderr)
        sys.exit(130)  # as a shell expects after Ctrl-C


def positive_up_to(most: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"must be more than 0, at most {most:g}, got {text}")
        return value

    return number


def write_table(options: argparse.Namespace) -> None:
    from d2l_attention.exercises.apart import adopt_orphans
    from d2l_attention.exercises.grade import grade, one_line

    torch.set_num_threads(1)  # or a copy of this process would wait for threads it has not
    adopt_orphans()
    with new_table(options.out) as file:
        submissions = list(map(read, found(options.notebooks)))
        columns = exercise_columns(submissions)
        table = csv.writer(file)
        table.writerow(["notebook", "solved", "tried", "total", *columns, "seconds", "remark"])
        file.flush()
        width = max((len(str(submission.path)) for submission in submissions), default=0)
        print(f"{'notebook':{width}}  solved  tried  total  seconds", flush=True)
        for submission in submissions:
            row = grade(submission, options.seconds, options.memory)
            states = [row.states.get(column, "") for column in columns]
            counts = [row.solved, row.tried, row.total]
            table.writerow([row.notebook, *counts, *states, f"{row.seconds:.1f}", row.remark])
            file.flush()
            marks = " ".join(f"{id_} {MARKS[state]}" for id_, state in row.states.items())
            line = f"{one_line(row.notebook):{width}}  {row.solved:6}  {row.tried:5}  {row.total:5}"
            line += f"  {row.seconds:7.1f}  {marks}{'  ' if marks else ''}{row.remark}"
            print(line, flush=True)
    print("  ".join(f"{mark} {state}" for state, mark in MARKS.items()))
    print(f"{len(submissions)} rows in {options.out}.")


def new_table(path: Path) -> TextIO:
    try:
        return path.open("w", newline="", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        sys.exit(f"Cannot write {path}: {error.strerror}.")


def found(paths: Sequence[Path]) -> Iterator[Path]:
    """The notebooks in ``paths``, each once; what is not there comes along and gets a row."""
    seen = set()
    for path in paths:
        inside = sorted(path.rglob("*.ipynb")) if path.is_dir() else []
        for notebook in inside or [path]:
            real = os.path.realpath(notebook)  # unlike resolve(), it stands a link to itself
            if ".ipynb_checkpoints" not in notebook.parts and real not in seen:
                seen.add(real)
                yield notebook


def exercise_columns(submissions: Sequence[Submission]) -> list[str]:
    ids = {exercise.id for submission in submissions for exercise in submission.exercises}
    return sorted(ids, key=sort_key)


if __name__ == "__main__":
    main()
