"""The command line: write a chapter as an assignment for nbgrader, report what came of it."""

import argparse
import io
import sys
from pathlib import Path

from d2l_attention.classroom.assignment import NOTEBOOKS, CannotWrite, write_assignment
from d2l_attention.exercises.engine.registry import PRIVATE, use_private


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m d2l_attention.exercises")
    commands = parser.add_subparsers(required=True, metavar="nbgrader | inventory | report | new")
    hand_out = commands.add_parser(
        "nbgrader",
        help="write a chapter as an assignment for nbgrader",
        description="Write a chapter as an assignment into COURSE_FOLDER/source/: its text, and "
        "for each exercise an answer cell with the solution and a test cell with its points.",
    )
    hand_out.add_argument("chapter", type=int, metavar="CHAPTER", help="its number, such as 04")
    hand_out.add_argument(
        "--notebooks",
        type=Path,
        default=NOTEBOOKS,
        metavar="FOLDER",
        help="where the chapters' notebooks are (default: those of the checkout)",
    )
    hand_out.set_defaults(command=write_chapter)
    ask = commands.add_parser(
        "inventory",
        help="write the questions for before and after the course",
        description="Write two parallel forms of twelve questions: assignments for nbgrader into "
        "COURSE_FOLDER/source/, pages to print and a table into COURSE_FOLDER/inventory/.",
    )
    ask.set_defaults(command=write_questions)
    tell = commands.add_parser(
        "report",
        help="say what the class got wrong",
        description="Read what nbgrader autograde has graded, print what the class got wrong, "
        "and write it into COURSE_FOLDER/report/, as a page and as a table.",
    )
    tell.add_argument(
        "assignment", metavar="ASSIGNMENT", help="such as hw06_multi_head_attention, or inventory"
    )
    tell.set_defaults(command=tell_class)
    for command in (hand_out, ask, tell):
        command.add_argument(
            "course", type=Path, metavar="COURSE_FOLDER", help="nbgrader's folder; made if missing"
        )
    for command in (hand_out, tell):
        command.add_argument(
            "--with",
            dest="private",
            type=Path,
            metavar="FOLDER",
            help="exercises of your own: a folder with chapter_50 or so, and its 50_....ipynb",
        )
    begin = commands.add_parser(
        "new",
        help="begin an exercise of the course",
        description="Write the file of a new exercise, an example to change, and say what is left.",
    )
    for name, such_as in {"id": "3.9", "name": "zero_query", "title": '"A title"'}.items():
        begin.add_argument(name, help=f"such as {such_as}")
    begin.set_defaults(command=begin_exercise)
    options = parser.parse_args()
    # A terminal that cannot write a name or a root sign writes '?'; files have all as it is.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    options.command(options)


def write_chapter(options: argparse.Namespace) -> None:
    try:
        target, new = write_assignment(
            options.chapter, options.course, options.notebooks, options.private
        )
    except CannotWrite as reason:
        sys.exit(str(reason))
    print(f"Assignment {target.name} is written: {target}")
    if not new:
        print("nbgrader_config.py was there and stays as it is.")
        if options.private:
            print("It has to say where the checks are; if it does not, add the line")
            print(f'os.environ["{PRIVATE}"] = {str(options.private.resolve())!r}')
    print(f"Next, in {options.course}: nbgrader generate_assignment {target.name}")


def write_questions(options: argparse.Namespace) -> None:
    from d2l_attention.classroom.inventory import write_inventory  # torch takes its time

    try:
        print("Written:", *write_inventory(options.course))
    except OSError as error:
        sys.exit(f"Cannot write into {options.course}: {error.strerror}.")
    print(f"Next, in {options.course}: nbgrader generate_assignment inventory_before")


def begin_exercise(options: argparse.Namespace) -> None:
    from d2l_attention.exercises.authoring.new import write_new  # for authors only

    try:
        print(write_new(options.id, options.name, options.title))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


def tell_class(options: argparse.Namespace) -> None:
    from d2l_attention.classroom import inventory_report, report  # nbformat takes its time

    if options.private:
        use_private(str(options.private.resolve()))
    try:
        if options.assignment.startswith("inventory"):
            learned, files = inventory_report.write(options.course)
            text = inventory_report.as_text(learned)
        else:
            found, files = report.write(options.course, options.assignment)
            text = report.as_text(found)
    except (report.NoReport, OSError) as error:
        sys.exit(str(error))
    print(text)
    print("Written:", *files)


if __name__ == "__main__":
    main()
