"""Three versions become one: no line of the student's and no change of the course's gets lost.

Some hundred notebooks are edited at random by a student and by the course. Each line is written
once in the world, so that what became of it can be told without knowing how the merge works.
"""

import copy
import itertools
import json
import random
import re
import shutil
import zlib

import nbformat
import pytest
from nbformat import NotebookNode

from notebooks.publish.changes import find, take_over
from notebooks.publish.merging import merged, read
from notebooks.publish.student_copies import as_delivered, deliver, offered
from notebooks.publish.text import METADATA

FORMATS = [0, 1, 2, 3, 4, 5]
COMMON = ["", "    return X", "import torch", "..."]  # lines that many cells have


# ---- A notebook and what is done to it -------------------------------------------------------


class Writer:
    """Somebody who edits notebooks at random, and never writes the same line twice."""

    def __init__(self, name: str, chance: random.Random):
        self.name, self.chance, self.number = name, chance, itertools.count()
        self.carried: set[str] = set()  # lines that were moved to another place

    def line(self) -> str:
        words = " ".join(self.chance.sample("queries keys values mask heads depth".split(), 3))
        return f"{self.name}{next(self.number)} = {words}"

    def cell(self) -> NotebookNode:
        lines = [self.line() for _ in range(self.chance.randint(1, 4))]
        lines.insert(self.chance.randint(0, len(lines)), self.chance.choice(COMMON))
        kind = self.chance.choice(["code", "markdown"])
        if kind == "markdown" and self.chance.random() < 0.5:
            lines.insert(0, f"## {self.line()}")
        return cell(kind, "\n".join(lines))

    def edit(self, cells: list[NotebookNode], times: int) -> None:
        for _ in range(times):
            steps = [self.put_in, self.take_out, self.move, self.split, self.run, self.turn]
            step = self.chance.choice(steps)
            at = self.chance.randrange(len(cells)) if cells else 0
            if cells and self.chance.random() < 0.6:
                step = self.change
            if cells or step == self.put_in:
                step(cells, at)

    def put_in(self, cells, at):
        cells.insert(at, self.cell())

    def take_out(self, cells, at):
        del cells[at]

    def move(self, cells, at):
        moved = cells.pop(at)
        self.carried |= set(lines_of([moved]))
        cells.insert(self.chance.randint(0, len(cells)), moved)

    def split(self, cells, at):
        lines = cells[at].source.split("\n")
        half = len(lines) // 2
        cells[at].source = "\n".join(lines[:half])
        cells.insert(at + 1, cell(cells[at].cell_type, "\n".join(lines[half:])))
        self.carried |= set(lines)

    def run(self, cells, at):
        if cells[at].cell_type == "code":
            output = {"output_type": "stream", "name": "stdout", "text": self.line()}
            cells[at].update(outputs=[NotebookNode(output)], execution_count=3)

    def turn(self, cells, at):
        """Code becomes Markdown, or the other way; JupyterLab keeps the id."""
        kind = {"code": "markdown", "markdown": "code"}[cells[at].cell_type]
        turned = cell(kind, cells[at].source)
        if "id" in cells[at]:
            turned.id = cells[at].id
        cells[at] = turned

    def change(self, cells, at):
        lines = cells[at].source.split("\n")
        for _ in range(self.chance.randint(1, 3)):
            place = self.chance.randint(0, len(lines))
            how = self.chance.choice(["line in", "line out", "line changed", "all"])
            if how == "line in":
                lines.insert(place, self.line())
            elif how == "all":
                lines = [self.line()]
            else:
                lines[place : place + 1] = [self.line()] * (how == "line changed")
        cells[at].source = "\n".join(lines)


def cell(kind: str, source: str) -> NotebookNode:
    made = NotebookNode(cell_type=kind, metadata=NotebookNode(), source=source)
    if kind == "code":
        made.update(outputs=[], execution_count=None)
    return made


def notebook(cells: list[NotebookNode], minor: int = 5) -> NotebookNode:
    """A notebook as a program of this format's time writes it; ids stay what they are."""
    made = NotebookNode(nbformat=4, nbformat_minor=minor, cells=copy.deepcopy(cells))
    made.metadata = nbformat.from_dict(METADATA)
    for number, each in enumerate(made.cells):
        if minor < 5:
            each.pop("id", None)
        elif "id" not in each:  # the course's are made of a cell's text, and change with it
            each.id = f"{zlib.crc32(each.source.encode()):x}-{number}"
    return made


def lines_of(cells: list[NotebookNode]) -> list[str]:
    """The lines that are written once in the world."""
    return [line for each in cells for line in each.source.split("\n") if " = " in line]


def sources(notebook: NotebookNode) -> list[str]:
    return [each.source for each in notebook.cells]


def case(seed: int) -> tuple[NotebookNode, NotebookNode, NotebookNode, Writer]:
    """A version, a student's copy of it in some format, and the course's next version."""
    chance = random.Random(seed)
    writer = Writer("base", chance)
    base = notebook([writer.cell() for _ in range(chance.randint(0, 9))])
    student, course = Writer("student", chance), Writer("course", chance)
    mine, new = copy.deepcopy(base.cells), copy.deepcopy(base.cells)
    student.edit(mine, chance.randint(0, 5))
    course.edit(new, chance.randint(0, 5))
    for each in new:
        each.pop("id", None)
    return base, notebook(mine, chance.choice(FORMATS)), notebook(new), student


# ---- What holds of every merge ---------------------------------------------------------------


@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 400, 100)])
def test_no_line_is_lost_and_what_is_left_out_is_named(seeds):
    for seed in seeds:
        base, mine, new, student = case(seed)
        whole, left_out = merged(base, mine, new)
        nbformat.validate(whole)
        began, my, its = (set(lines_of(each.cells)) for each in (base, mine, new))
        there = set(lines_of(whole.cells))
        told = "\n".join(left_out)
        named = {int(number) - 1 for number in re.findall(r"cell (\d+), which you", told)}
        stays = {int(number) - 1 for number in re.findall(r"it is cell (\d+) of yours", told)}

        assert not my - began - there, f"{seed}: the student's lines are lost"
        in_named = set(lines_of([new.cells[at] for at in named]))
        assert not my & its - there - in_named, f"{seed}: lines that nobody took out are lost"
        assert not its - began - there - in_named, f"{seed}: new lines are lost in silence"
        left = (began - its) & there - student.carried
        left -= set(lines_of([whole.cells[at] for at in stays]))
        places = {at for at, each in enumerate(whole.cells) if left & set(lines_of([each]))}
        assert len(places) <= len(named), f"{seed}: taken out, and there without a word"


def test_where_one_side_did_nothing_the_other_one_stays_as_it_is():
    for seed in range(100):
        base, mine, new, _ = case(seed)
        for result, wanted in [
            (merged(base, mine, base), mine),
            (merged(base, base, new), new),
            (merged(base, mine, mine), mine),
        ]:
            assert sources(result[0]) == sources(wanted) and not result[1], seed


def test_a_merge_that_is_done_again_changes_nothing():
    for seed in range(100):
        base, mine, new, _ = case(seed)
        whole, _ = merged(base, mine, new)
        assert sources(merged(new, whole, new)[0]) == sources(whole), seed


def test_an_answer_in_a_copy_without_ids_is_still_that_cell_s():
    """A program that keeps no ids leaves the text alone to tell which cell an answer is."""
    stub = 'def heads(X):\n    """Old."""\n    # Shapes stay as they are.\n    ...'
    base = notebook([cell("code", stub)])
    answer = "\n".join(f"    step_{number} = X.flip({number})" for number in range(20))
    mine = notebook([cell("code", stub.replace("    ...", answer))], minor=4)
    new = notebook([cell("code", stub.replace("Old", "New"))])
    whole, left_out = merged(base, mine, new)
    assert sources(whole) == [new.cells[0].source.replace("    ...", answer)]
    assert not left_out
    assert whole.cells[0].id == new.cells[0].id  # of which the next update begins


# ---- What holds of a folder of work, over three updates ---------------------------------------

NAME = "06_heads.ipynb"


def save(path, cells, minor, bom=False):
    text = json.dumps(notebook(cells, minor), ensure_ascii=False)
    path.write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))


def every_line(paths):
    return {line for path in paths for line in lines_of(read(path).cells)}


@pytest.mark.parametrize("seed", range(24))
def test_three_updates_with_work_in_all_files_lose_nothing(tmp_path, seed):
    chance = random.Random(seed)
    student, course = Writer("student", chance), Writer("course", chance)
    notebooks, work = tmp_path / "notebooks", tmp_path / "work"
    notebooks.mkdir()
    version = [course.cell() for _ in range(6)]
    save(notebooks / NAME, version, 5)
    deliver(notebooks, work)
    for _ in range(3):
        before = every_line([notebooks / NAME])
        course.edit(version, 3)
        for path in sorted(work.glob("06_*.ipynb")):
            if chance.random() < 0.7 and ".before" not in path.name and "Copy" not in path.name:
                cells = read(path).cells
                student.edit(cells, 2)
                save(path, cells, chance.choice(FORMATS), bom=chance.random() < 0.3)
        if chance.random() < 0.3:
            some = chance.choice(sorted(work.glob("06_*.ipynb")))
            shutil.copy(some, work / f"{some.stem}-Copy1.ipynb")
        mine = {line for line in every_line(work.glob("06_*.ipynb")) if line.startswith("student")}

        save(notebooks / NAME, version, 5)
        deliver(notebooks, work)
        assert mine <= every_line(work.glob("06_*.ipynb"))
        if chance.random() < 0.7:
            check_take_over(work, before, every_line([notebooks / NAME]), mine)


def check_take_over(work, before, after, mine):
    try:
        base, copy_of_mine, new = find("06", work)
    except FileNotFoundError as error:  # the student had changed nothing: it came by itself
        assert "nothing new" in str(error)
        assert after <= every_line([work / NAME])
        return
    worked_in = [copy_of_mine, *offered(copy_of_mine)]
    taken_out = set()  # of the course's lines, by the student, in a new version
    for path in worked_in[1:]:
        taken_out |= every_line([as_delivered(path)]) - every_line([path])
    was = {path: path.read_bytes() for path in work.glob("06_*.ipynb")}
    my_work = mine & every_line(worked_in)

    said = take_over(base, copy_of_mine, new)

    files = sorted(work.glob("06_*.ipynb"))
    named = [path for path in files if str(path) in said]
    nbformat.validate(read(copy_of_mine))
    assert my_work <= every_line(named)
    assert after - before - taken_out <= every_line(named)
    assert mine <= every_line(files)
    assert all(path.read_bytes() == was[path] for path in set(files) & set(was) - set(worked_in))
