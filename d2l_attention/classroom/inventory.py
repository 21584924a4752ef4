"""What did they learn? Two parallel forms of twelve questions, one before the course, one after it.

The questions, their misconceptions and the proofs of their keys are data: ``inventory.toml``. Each
form is written as an assignment for nbgrader and as a page to print.
"""

import csv
import html
import io
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from torch import Tensor

from d2l_attention import __version__
from d2l_attention.classroom.assignment import CONFIG, KERNEL, STAMP, graded, put
from d2l_attention.system.files import write_whole

FORMS, LETTERS = ("before", "after"), "ABCD"
NAME = "inventory_{form}"  # of an assignment
RIGHT = "right"
DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

ANSWER = """\
q{number} = None  # A, B, C or D
### BEGIN SOLUTION
q{number} = "{key}"
{proof}
### END SOLUTION"""
PROOF = """\
import math
import torch
from d2l_attention.classroom.inventory import says

answers = {answers!r}
{proof}
print("True:", *[letter for letter, true in zip("ABCD", holds) if true])"""
COMPARED = "holds = [says(answer, value) for answer in answers]"
TEST = """\
# Points: 1. The answer is read when the notebook has been handed in.
### BEGIN HIDDEN TESTS
from d2l_attention.classroom.inventory import mark as d2l_mark

d2l_mark("{form}", {number}, globals().get("q{number}"))
### END HIDDEN TESTS"""


@dataclass(frozen=True)
class Question:
    """One question of a form; ``answers`` are four, each with its misconception's name."""

    form: str
    number: int
    concept: str
    misconceptions: dict[str, list[str]]  # by name: a sentence, the section that cures it
    asks: str
    proof: str
    answers: dict[str, str]
    given: str = ""  # code for the proofs of both forms

    @property
    def key(self) -> str:
        return next(letter for letter in LETTERS if self.meant(letter) == RIGHT)

    def meant(self, letter: str) -> str:
        """The misconception behind an answer, or ``RIGHT``; '' for no letter."""
        return list(self.answers)[LETTERS.index(letter)] if letter else ""

    def lettered(self) -> list[tuple[str, str]]:
        return list(zip(LETTERS, self.answers.values(), strict=True))

    def proving(self) -> str:
        """Python that prints the letters of the answers that are true: one, the key."""
        lines = [self.given] * bool(self.given) + [self.proof]
        lines += [COMPARED] * ("holds =" not in self.proof)
        return PROOF.format(answers=[*self.answers.values()], proof="\n".join(lines))


@cache
def questions(form: str) -> list[Question]:
    return [
        Question(form, number, **{k: each[k] for k in each if k not in FORMS}, **each[form])
        for number, each in enumerate(DATA["concept"], start=1)
    ]


def says(answer: str, value: Tensor) -> bool:
    """Whether the numbers in an answer are those of ``value``, to the digits that it gives.

    A number without digits may be off by 0.05, because some values are measured.
    """
    said, wanted = re.findall(r"\d+(?:\.\d+)?", answer), value.flatten().tolist()
    return len(said) == len(wanted) and all(
        abs(float(one) - other) <= 0.5 / 10 ** (len(one.partition(".")[2]) or 1)
        for one, other in zip(said, wanted, strict=True)
    )


def letter_of(chosen: Any) -> str:
    """The letter that was meant, as in ``b``, ``"B"`` or ``"B)"``; '' where there is none."""
    found = re.fullmatch(r"\W*([A-D])\W*", str(chosen).upper())
    return found[1] if found else ""


class NotRight(AssertionError):
    """Worth no point. A page shows its sentence, not the way through this file."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        return [str(self)]


def mark(form: str, number: int, chosen: Any) -> float:
    """Print what was chosen, for the report; a point, or ``NotRight``."""
    question, letter = questions(form)[number - 1], letter_of(chosen)
    print(f"Chosen: {letter or 'nothing'}")
    name = question.meant(letter)
    sentence, section = question.misconceptions.get(name, ("No answer.", "-"))
    if name != RIGHT:
        raise NotRight(f"{sentence} ({name}) Read: {section}" if name else sentence)
    return 1.0


# ---- As a notebook, as a page, as a table -----------------------------------------------------


def notebook(form: str) -> NotebookNode:
    """The instructor's version: each answer cell has the key and its proof, which nbgrader cuts."""
    start = f"# {DATA['title']}: {form}\n{DATA['preface']}\n\nWrite a letter into the cell "
    start += "below each question, as in `q1 = B`, and save the notebook at the end."
    letters = new_code_cell(
        'A, B, C, D = "ABCD"', id="imports", metadata=graded("imports", locked=True)
    )
    cells = [new_markdown_cell(start, id="start"), letters]
    for each in questions(form):
        lines = [f"**{each.number}.** {each.asks}", ""]
        lines += [f"- **{letter}** {text}" for letter, text in each.lettered()]
        key = f"{form}-{each.number}"
        answer = ANSWER.format(number=each.number, key=each.key, proof=each.proving())
        made = {f"answer-{key}": answer, f"test-{key}": TEST.format(form=form, number=each.number)}
        cells.append(new_markdown_cell("\n".join(lines), id=f"question-{key}"))
        for name, source in made.items():
            test = name.startswith("test")
            what = {"grade": test, "locked": test, "solution": not test}
            what |= {"points": 1} if test else {}
            cells.append(new_code_cell(source, id=name, metadata=graded(name, **what)))
    return new_notebook(
        cells=cells, metadata={"kernelspec": KERNEL, STAMP: {"version": __version__}}
    )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
@page {{ size: A4; margin: 12mm 16mm; }}
body {{ font: 10pt/1.3 system-ui, sans-serif; max-width: 178mm; margin: 1em auto; color: black; }}
section {{ break-inside: avoid; margin-top: 4mm; }} p {{ margin: 0 0 1.5mm; }}
section:nth-of-type(7) {{ break-before: page; }} ol {{ margin: 0; padding-left: 8mm; }}
ol {{ list-style: upper-alpha; }} h1 {{ font-size: 15pt; margin: 0 0 2mm; }}
.name {{ border-bottom: 1px solid; padding-bottom: 3mm; }}
</style></head><body><h1>{title}</h1><p class="name">Name</p>
{preface}{questions}</body></html>
"""


def page(form: str) -> str:
    """One HTML file, with nothing to load, that a browser prints on two sheets."""
    paragraphs = DATA["preface"].replace("**", "").split("\n\n")
    preface = "".join(f"<p>{html.escape(each)}</p>" for each in paragraphs)
    asked = ""
    for each in questions(form):
        items = "".join(f"<li>{html.escape(text)}</li>" for _, text in each.lettered())
        asks = html.escape(each.asks)
        asked += f"<section><p><b>{each.number}.</b> {asks}</p><ol>{items}</ol></section>\n"
    return PAGE.format(title=f"{DATA['title']}: {form}", preface=preface, questions=asked)


def table() -> str:
    """All questions as CSV, with their keys and what each answer means, for other platforms."""
    text = io.StringIO()
    rows = csv.writer(text)
    meanings = [f"{letter} {what}" for letter in LETTERS for what in ("means", "is cured by")]
    rows.writerow(["form", "question", "concept", "asks", *LETTERS, "key", *meanings])
    for each in sum(map(questions, FORMS), []):
        meant = [each.meant(letter) for letter in LETTERS]
        read = [(name, each.misconceptions.get(name, ["", ""])[1]) for name in meant]
        asks, answers = " ".join(each.asks.split()), each.answers.values()
        rows.writerow(
            [each.form, each.number, each.concept, asks, *answers, each.key, *sum(read, ())]
        )
    return text.getvalue()


def write_inventory(course: Path) -> list[Path]:
    """Write both forms: assignments into ``source/``, pages and table into ``inventory/``."""
    folder = course / "inventory"
    folder.mkdir(parents=True, exist_ok=True)
    targets = [course / "source" / NAME.format(form=form) for form in FORMS]
    for form, target in zip(FORMS, targets, strict=True):
        put(notebook(form), target, course / "nbgrader_config.py", CONFIG)
        write_whole(folder / f"{form}.html", page(form))
    write_whole(folder / "questions.csv", table())
    return [*targets, folder]
