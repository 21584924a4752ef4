"""The command line: write a chapter as an assignment for nbgrader."""

import argparse
import sys
from pathlib import Path

from d2l_attention.exercises.assignment import NOTEBOOKS, CannotWrite, write_assignment


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m d2l_attention.exercises")
    command = parser.add_subparsers(required=True, metavar="nbgrader").add_parser(
        "nbgrader",
        help="write a chapter as an assignment for nbgrader",
        description="Write a chapter as an assignment into COURSE_FOLDER/source/: its text, and "
        "for each exercise an answer cell with the solution and a test cell with its points.",
    )
    command.add_argument("chapter", type=int, metavar="CHAPTER", help="its number, such as 04")
    command.add_argument(
        "course", type=Path, metavar="COURSE_FOLDER", help="nbgrader's folder; made if missing"
    )
    command.add_argument(
        "--notebooks",
        type=Path,
        default=NOTEBOOKS,
        metavar="FOLDER",
        help="where the chapters' notebooks are (default: those of the checkout)",
    )
    options = parser.parse_args()
    try:
        target, new = write_assignment(options.chapter, options.course, options.notebooks)
    except CannotWrite as reason:
        sys.exit(str(reason))
    print(f"Assignment {target.name} is written: {target}")
    if not new:
        print("nbgrader_config.py was there and stays as it is.")
    print(f"Next, in {options.course}: nbgrader generate_assignment {target.name}")


if __name__ == "__main__":
    main()
