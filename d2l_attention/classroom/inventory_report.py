"""What a class learned: both forms of the inventory, compared.

It reads what nbgrader has graded, and what was answered on paper: `inventory/before.csv` and
`after.csv` in the course folder, with the columns student, 1, 2, ... 12 and a letter in each.

Sources: the normalised gain is Hake's (Am. J. Phys. 66, 64-74, 1998). Discrimination is the
point-biserial correlation of a question with the number of right answers to the other eleven
(Henrysson, Psychometrika 28, 211-218, 1963). Ding and Beichner (Phys. Rev. ST Phys. Educ. Res. 5,
020103, 2009) want at least 0.2, and a difficulty, the share right, of 0.3 to 0.9.
"""

import csv
import html
import io
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import StatisticsError, correlation

import nbformat

from d2l_attention.classroom.inventory import FORMS, NAME, RIGHT, letter_of, questions
from d2l_attention.classroom.report import COLOURS, SOLVED, STYLE, WRONG, NoReport
from d2l_attention.system.files import write_whole

NUMBERS = [each.number for each in questions("before")]
HEADS = ["concept", *FORMS, "gain", *(f"most often {form}" for form in FORMS)]
ITEMS = [
    "question",
    *(f"{what} {form}" for form in FORMS for what in ("difficulty", "discrimination")),
]


def gain(before: float, after: float) -> float | None:
    """What was learned, of what was left to learn. None: nothing was left, all were right."""
    return None if before == 1 else (after - before) / (1 - before)


@dataclass
class Learned:
    """What each student's answers mean, by form and student, in the order of the questions.

    An answer is ``RIGHT``, a misconception, or '' where there is none. ``trouble`` is what could
    not be read.
    """

    meant: dict[str, dict[str, list[str]]]
    trouble: dict[str, str] = field(default_factory=dict)

    @property
    def both(self) -> list[str]:
        """The students who took both forms: only they are compared."""
        return sorted(self.meant["before"].keys() & self.meant["after"].keys())

    def compared(self, form: str, number: int) -> list[str]:
        """Their answers to a question; where nobody took both forms, those of all."""
        return [self.meant[form][who][number - 1] for who in self.both or self.meant[form]]

    def share(self, form: str, numbers: list[int]) -> float:
        """How many of these answers are right; NaN where there is none."""
        found = [each == RIGHT for number in numbers for each in self.compared(form, number)]
        return sum(found) / len(found) if found else math.nan

    def commonest(self, form: str, number: int) -> tuple[str, int]:
        """The misconception chosen most, and how often; of equals, the first by its name."""
        found = Counter(self.compared(form, number))
        wrong = [(-n, name) for name, n in found.items() if name not in (RIGHT, "")]
        count, name = min(wrong, default=(0, ""))
        return name, -count

    def item(self, form: str, number: int) -> tuple[float | None, float | None]:
        """Difficulty and discrimination, of all who took the form; None: cannot be computed."""
        answers = list(self.meant[form].values())
        right = [each[number - 1] == RIGHT for each in answers]
        others = [each.count(RIGHT) - one for each, one in zip(answers, right, strict=True)]
        try:
            discrimination = correlation(right, others)
        except StatisticsError:  # fewer than two students, or all of them alike
            discrimination = None
        return sum(right) / len(right) if right else None, discrimination


def read(course: Path) -> Learned:
    """Errors: ``NoReport``."""
    learned = Learned({form: {} for form in FORMS})
    for form in FORMS:
        name, paper = NAME.format(form=form), course / "inventory" / f"{form}.csv"
        if paper.exists():
            with paper.open(newline="", encoding="utf-8-sig") as file:
                for row in csv.DictReader(file):
                    letters = {number: row.get(str(number)) for number in NUMBERS}
                    learned.meant[form][row.get("student") or "?"] = meaning(form, letters)
        steps = ("submitted", "autograded")
        for student in sorted({p.parent.name for s in steps for p in course.glob(f"{s}/*/{name}")}):
            path = course / "autograded" / student / name / f"{name}.ipynb"
            try:
                letters = printed(nbformat.read(path, as_version=4), form)
                learned.meant[form][student] = meaning(form, letters)
            except FileNotFoundError:
                learned.trouble[f"{student}, {form}"] = "not graded: see what autograde says"
            except Exception as error:  # nbformat has no common ancestor for what it raises
                learned.trouble[f"{student}, {form}"] = f"cannot be read: {error}"
    if not any(learned.meant.values()) and not learned.trouble:
        raise NoReport(f"Nobody has taken the inventory in {course}: nothing was handed in.")
    return learned


def meaning(form: str, letters: dict[int, str | None]) -> list[str]:
    """The misconceptions behind letters, by the number of the question."""
    return [each.meant(letter_of(letters.get(each.number))) for each in questions(form)]


def printed(notebook: nbformat.NotebookNode, form: str) -> dict[int, str | None]:
    """What the tests printed when they were graded, by the number of the question."""
    letters: dict[int, str | None] = {}
    for cell in notebook.cells:
        kind, _, number = cell.metadata.get("nbgrader", {}).get("grade_id", "").rpartition("-")
        if kind == f"test-{form}":
            text = "".join(output.get("text", "") for output in cell.outputs)
            letters[int(number)] = text.partition("Chosen: ")[2][:1]
    return letters


# ---- As text, as a table, as a page -----------------------------------------------------------


def shown(value: float | None, how: str = ".2f") -> str:
    return "-" if value is None or math.isnan(value) else format(value, how)


def rows_of(learned: Learned) -> list[list[str]]:
    """For each concept what HEADS say, then, for its two questions, what ITEMS say."""
    rows = []
    for number, question in enumerate(questions("after"), start=1):
        before, after = (learned.share(form, [number]) for form in FORMS)
        chosen = [learned.commonest(form, number) for form in FORMS]
        rows.append(
            [f"{number} {question.concept}", shown(before, ".0%"), shown(after, ".0%")]
            + [shown(gain(before, after))]
            + [f"{name} ({count})" if name else "-" for name, count in chosen]
            + [shown(each) for form in FORMS for each in learned.item(form, number)]
        )
    return rows


def summary(learned: Learned) -> str:
    took = ", ".join(f"{len(learned.meant[form])} {form}" for form in FORMS)
    before, after = (learned.share(form, NUMBERS) for form in FORMS)
    right = f"right before {shown(before, '.0%')}, after {shown(after, '.0%')}, gain "
    return f"inventory: {took}, {len(learned.both)} both; {right}{shown(gain(before, after))}"


def to_teach(learned: Learned) -> list[str]:
    """What is still chosen after the course: the sentence, and the section that cures it."""
    found = [(learned.commonest("after", each.number), each) for each in questions("after")]
    found.sort(key=lambda each: -each[0][1])
    told = [(n, name, *each.misconceptions[name]) for (name, n), each in found if name]
    return [f"{n} x {name}: {says} Read: {section}" for n, name, says, section in told]


def as_text(learned: Learned) -> str:
    rows, lines = rows_of(learned), [summary(learned)]
    for table in [HEADS, *(row[:6] for row in rows)], [ITEMS, *([r[0], *r[6:]] for r in rows)]:
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines += ["", *("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)]
    lines += ["", "Teach again:", *to_teach(learned)]
    return "\n".join(lines + [f"{who}: {why}" for who, why in learned.trouble.items()])


def as_csv(learned: Learned) -> str:
    """A row for each student and form: how many are right, and what each answer means."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["student", "form", "right", *NUMBERS])
    for form in FORMS:
        for student, meant in learned.meant[form].items():
            table.writerow([student, form, meant.count(RIGHT), *meant])
    return text.getvalue()


def as_page(learned: Learned) -> str:
    """One HTML file, with nothing to load."""

    def made(heads: list[str], *rows: list[str]) -> str:
        lines = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows)
        return f"<table><tr><th>{'</th><th>'.join(heads)}</th></tr>{lines}</table>"

    def bar(share: str, colour: str) -> str:
        inside = f'<span style="background:{colour};width:calc(0.6 * {share})"></span>'
        return f'<div class="bar" style="width:8em">{inside}&nbsp;{share}</div>'

    def items(lines: list[str]) -> str:
        return "<ul>" + "".join(f"<li>{html.escape(each)}</li>" for each in lines) + "</ul>"

    rows = [[html.escape(each) for each in row] for row in rows_of(learned)]
    bars = [[r[0], bar(r[1], COLOURS[WRONG]), bar(r[2], COLOURS[SOLVED]), *r[3:6]] for r in rows]
    trouble = [f"{who}: {why}" for who, why in learned.trouble.items()]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>inventory</title><style>{STYLE}</style></head>
<body><h1>What did they learn?</h1><p>{summary(learned)}</p>{items(trouble)}
<h2>Concepts</h2>{made(HEADS, *bars)}<h2>Teach again</h2>{items(to_teach(learned))}
<h2>Questions</h2>{made(ITEMS, *([row[0], *row[6:]] for row in rows))}
<p>Concepts compare those who took both forms; questions count all who took the form. The gain is
(after - before) / (100% - before), '-' where everybody was right before. A question's difficulty,
the share of right answers, should be 0.3 to 0.9, and its discrimination, the correlation with the
other eleven, 0.2 or more; a class of thirty gives the latter to about 0.2.</p></body></html>
"""


def write(course: Path) -> tuple[Learned, list[Path]]:
    """Write ``report/inventory.html`` and ``.csv`` in the course folder; the report, the files."""
    learned = read(course)
    folder = course / "report"
    folder.mkdir(exist_ok=True)
    files = [folder / "inventory.html", folder / "inventory.csv"]
    write_whole(files[0], as_page(learned))
    write_whole(files[1], as_csv(learned))
    return learned, files
