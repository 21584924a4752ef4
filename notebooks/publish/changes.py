"""What a new version of a chapter changes beside a student's copy, and how to take it over.

``work/`` holds the student's copy and, beside it, new versions that the course has delivered;
``work/.delivered/`` holds, under the same names, what each of them was as it came. What a student
wrote is never written over, be it in the copy or in a new version.
"""

import argparse
import difflib
import itertools
import re
import sys
from collections import Counter
from pathlib import Path

import nbdime
import nbformat
from nbdime.diffing.notebooks import diff_cells, set_notebook_diff_targets
from nbformat import NotebookNode

from d2l_attention.system.files import write_whole
from notebooks.publish.course import is_chapter
from notebooks.publish.merging import heading, merged, read, text_of
from notebooks.publish.student_copies import (
    DELIVERED_COPIES,
    as_delivered,
    fingerprint,
    offered,
    older,
    read_delivered,
    remember,
)


def told(base: NotebookNode, new: NotebookNode) -> list[str]:
    """What is new, cell by cell, as lines of text: '-' was there, '+' is there now."""
    set_notebook_diff_targets(outputs=False, metadata=False, identifier=False, details=False)
    lines, old, now = [], base.cells, new.cells
    for change in diff_cells(old, now):
        at = change["key"]
        if change["op"] == "addrange":
            for cell in change["valuelist"]:
                lines += f"\n{heading(old, at, 'new cell')}", *marked("+", cell.source)
        elif change["op"] == "removerange":
            for cell in old[at : at + change["length"]]:
                lines += f"\n{heading(old, at, 'cell taken out')}", *marked("-", cell.source)
        else:
            before = old[at].source
            after = nbdime.patch(old[at], change["diff"]).source
            lines += f"\n{heading(old, at, 'changed')}", *changed_lines(before, after)
    return lines


def marked(mark: str, text: str) -> list[str]:
    return [f"{mark} {line}".rstrip() for line in text.splitlines()]


def changed_lines(before: str, after: str) -> list[str]:
    compared = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line.rstrip() for line in compared if line[0] in "+-"]


def find(number: str, work: Path) -> tuple[Path, Path, Path]:
    """The version that the copy was made from, the copy, and the newest one beside it.

    Raises FileNotFoundError where there is no such chapter, or nothing new.
    """
    mine = copy_of(number, work)
    newest = read_delivered(work).get(mine.name)
    known = [(place, course) for place in offered(mine) if (course := as_delivered(place))]
    if not known:
        raise FileNotFoundError(f"nothing new beside {mine}{left_alone(mine)}")
    # The highest number need not be the newest: the place of an older one is used again.
    known.sort(key=lambda pair: fingerprint(pair[1]) == newest)
    new = known[-1][0]
    base = made_from(mine)
    if base is None:
        raise FileNotFoundError(
            f"{work / DELIVERED_COPIES / mine.name} is missing, so nothing tells what you changed "
            f"and what the course did. Compare the two by eye: nbdiff-web {mine} {new}"
        )
    return base, mine, new


def copy_of(number: str, work: Path) -> Path:
    """The copy of a chapter that the course delivered. Raises FileNotFoundError without one."""
    beside = sorted(work.glob(f"{number}_*.ipynb"))
    copies = [path for path in beside if is_chapter(path)]
    # A student may have named another like a chapter, and the course may have renamed the chapter.
    copies = [path for path in copies if path.name in read_delivered(work)] or copies
    copies = [path for path in copies if offered(path)] or copies
    names = ", ".join(map(str, copies or beside))
    if not beside:
        raise FileNotFoundError(f"no copy of a chapter {number} in {work}: call make lab first")
    if not copies:
        delivered = sorted((work / DELIVERED_COPIES).glob(f"{number}_*.ipynb"))
        name = next((path.name for path in delivered if is_chapter(path)), f"{number}_name.ipynb")
        raise FileNotFoundError(
            f"{work / name} is missing, and {names} is a copy of your own. Give the one in which "
            f"you work the name {name}, then call this again"
        )
    if len(copies) > 1:
        raise FileNotFoundError(
            f"chapter {number} has several copies, of older names of it: {names}. Keep the one "
            "in which you work there, then call this again"
        )
    return copies[0]


def made_from(mine: Path) -> Path | None:
    """The delivered version in which the copy was begun; None where it is not known.

    It is the one that was noted, unless an older one has more of the copy's cells: a student can
    give the name of the copy to an older one, and what came since is then not what they took out.
    """
    noted = mine.parent / DELIVERED_COPIES / mine.name
    if not noted.exists():
        return None
    cells = Counter(map(text_of, read(mine).cells))

    def in_common(version: Path) -> tuple[int, bool]:
        return (cells & Counter(map(text_of, read(version).cells))).total(), version == noted

    return max([noted, *older(noted)], key=in_common)


def take_over(base: Path, mine: Path, new: Path) -> str:
    """Put the student's work into the new version, keep all that was worked in, and say so.

    Raises ValueError where the result would be no notebook, or where it is done already; then
    nothing is written.
    """
    course = as_delivered(new)
    if fingerprint(base) == fingerprint(course) and not any(map(is_worked_in, offered(mine))):
        raise ValueError(
            f"{mine} has been merged with {new} already: what is in it alone is where you and the "
            f"course changed the same places. When you have compared the two, delete {new}"
        )
    as_it_came = course.read_bytes()
    whole, left_out = merged(read(base), read(mine), read(course))
    worked_in, left_in = [place for place in offered(mine) if is_worked_in(place)], {}
    for place in worked_in:
        whole, left_in[place] = merged(read(as_delivered(place)), whole, read(place))
    check_format(whole, mine)

    alone = left_alone(mine)
    kept = {place: keep(mine, place) for place in [mine, *worked_in]}
    write_whole(mine, nbformat.writes(whole) + "\n")
    remember(mine, as_it_came)
    for place in offered(mine):
        if as_delivered(place):
            place.unlink()
    sentences = [
        f"{mine} is now the new version with your work. Your copy as it was: {kept[mine]}."
    ]
    for place in worked_in:
        sentences.append(f"Your work in {place} is in it, too. That file as it was: {kept[place]}.")
        if left_in[place]:
            sentences.append(f"Not all of it fits. What is missing stands in {kept[place]}:")
            sentences += left_in[place]
    if left_out:
        write_whole(new, as_it_came)
        sentences.append(f"You and the course changed the same places. Compare them with {new}:")
        sentences += left_out
    return "\n".join(sentences) + alone


def is_worked_in(place: Path) -> bool:
    """Whether a new version is known as it came, and is no longer the same."""
    course = as_delivered(place)
    return course is not None and fingerprint(course) != fingerprint(place)


def left_alone(mine: Path) -> str:
    """A sentence that names what else looks like a copy of the chapter; none for none."""
    kept = re.compile(rf"{re.escape(mine.stem)}\.before\d*\.ipynb")
    ours = {mine, *filter(as_delivered, offered(mine))}
    others = sorted(set(mine.parent.glob(f"{mine.name[:3]}*.ipynb")) - ours)
    names = ", ".join(str(path) for path in others if not kept.fullmatch(path.name))
    return f"\nNot looked at, and left as it is: {names}." if names else ""


def check_format(whole: NotebookNode, mine: Path) -> None:
    try:
        nbformat.validate(whole)
    except nbformat.ValidationError as error:
        raise ValueError(
            f"{mine} has something that no notebook may have, so nothing was merged and all files "
            f"are as they were: {str(error).splitlines()[0]}"
        ) from error


def keep(mine: Path, place: Path) -> Path:
    """Copy a file of the student's to the first free name.before.ipynb, name.before2.ipynb, ..."""
    for number in itertools.count(1):
        kept = mine.with_suffix(f".before{number if number > 1 else ''}.ipynb")
        if not kept.exists():
            write_whole(kept, place.read_bytes())
            return kept


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m notebooks changes", description=__doc__)
    parser.add_argument("number", metavar="NN", help="the chapter, as in 03")
    parser.add_argument("--merge", action="store_true", help="put your work into it")
    options = parser.parse_args()
    try:
        base, mine, new = find(options.number, Path("work"))
        if options.merge:
            print(take_over(base, mine, new))
        else:
            lines = told(read(base), read(as_delivered(new)))
            print(f"New in {new}:", *lines or ["nothing that is read: outputs only"], sep="\n")
            print(f"\nPut your work into it: python -m notebooks changes {options.number} --merge")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
