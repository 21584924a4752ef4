"""What a class got wrong: read from the notebooks that nbgrader has graded.

It reads `autograded/` and `submitted/` of a course folder and nothing else, and changes nothing
there but its own folder, `report/`.
"""

import ast
import csv
import html
import io
import re
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from d2l_attention.classroom.assignment import POINTS, STAMP, import_free, solution_source
from d2l_attention.exercises.engine.display import TOLD, worth
from d2l_attention.exercises.engine.edits import source_of
from d2l_attention.exercises.engine.registry import PRIVATE, chapter_numbers, load_chapter
from d2l_attention.exercises.engine.stubs import function_bodies, is_blank
from d2l_attention.exercises.exercise import Exercise
from d2l_attention.system.files import write_whole
from d2l_attention.views import palette

SOLVED, PARTLY, WRONG = "solved", "partly", "wrong"
UNTOUCHED, FAILED, MISSING = "untouched", "failed", "missing"
STATES = (SOLVED, PARTLY, WRONG, UNTOUCHED, FAILED, MISSING)
SAID = {"Solved": SOLVED, "Not yet": WRONG, "Not attempted": UNTOUCHED}
ANSWER, TEST = re.compile(r"answer-(\d+)-(\d+)"), re.compile(r"test-(\d+)-(\d+)")


@dataclass
class Answer:
    """One student's answer to one exercise: how it ended, what was said, the code as a tree.

    ``mistake`` is the short name of the mistake, where the check knows one; ``share`` is how much
    of the points a test that catches some of the bugs is worth. ``most`` are the points of the
    assignment, where an instructor has changed them.
    """

    state: str
    said: str = ""
    tree: str = ""
    mistake: str = ""
    share: float = 0.0
    most: float | None = None

    def points(self, most: float) -> float:
        """As the grade book has them: ``most`` where the assignment says nothing else."""
        return worth(self.share, most if self.most is None else self.most)


@dataclass
class Student:
    """One student; ``trouble`` says why there is no graded notebook, or what was put right."""

    name: str
    answers: dict[str, Answer] = field(default_factory=dict)
    version: str = ""
    trouble: str = ""


@dataclass
class ClassReport:
    """An assignment's exercises, by id, and its students."""

    assignment: str
    exercises: dict[str, Exercise]
    students: list[Student]

    def states(self, exercise_id: str) -> Counter:
        return Counter(self.answer(student, exercise_id).state for student in self.students)

    def answer(self, student: Student, exercise_id: str) -> Answer:
        return student.answers.get(exercise_id, Answer(MISSING))

    def mistakes(self, exercise_id: str) -> list[tuple[str, list[str]]]:
        """The commonest mistakes, by what was said and by name, with the students who made them."""
        said: dict[str, str] = {}  # one sentence for each
        who: dict[str, list[str]] = {}
        for student in self.students:
            answer = self.answer(student, exercise_id)
            if answer.state in (PARTLY, WRONG):
                key = answer.mistake or answer.said
                said[key] = f"{answer.said} ({key})" if answer.mistake else key
                who.setdefault(key, []).append(student.name)
        return [(said[key], who[key]) for key in sorted(who, key=lambda key: -len(who[key]))[:3]]

    @property
    def most(self) -> float:
        """The points that there are: of the exercises that the graded notebooks have."""
        found = {
            exercise_id: POINTS[exercise.difficulty] if answer.most is None else answer.most
            for exercise_id, exercise in self.exercises.items()
            for student in self.students
            if (answer := student.answers.get(exercise_id))
        }
        everything = {i: POINTS[each.difficulty] for i, each in self.exercises.items()}
        return sum((found or everything).values())

    def points(self, student: Student) -> float:
        """As the grade book has them, if nobody changed them there by hand."""
        answers = ((each, self.answer(student, i)) for i, each in self.exercises.items())
        return sum(answer.points(POINTS[each.difficulty]) for each, answer in answers)

    def reference(self, exercise_id: str) -> str:
        """The solution's code as a tree; '' for a number, of which there is one that is right."""
        exercise = self.exercises[exercise_id]
        if not callable(exercise.solution):
            return ""
        return tree_of(solution_source(exercise, exercise.stub.__name__, set()))

    def like_the_reference(self, exercise_id: str) -> list[str]:
        wanted = self.reference(exercise_id)
        if not wanted or has_bugs(self.exercises[exercise_id]):
            return []
        return [s.name for s in self.students if self.answer(s, exercise_id).tree == wanted]

    def alike(self, exercise_id: str) -> list[list[str]]:
        """Students with the same code, which is neither the stub's nor the reference's."""
        wanted = self.reference(exercise_id)
        if not wanted:
            return []
        groups: dict[str, list[str]] = {}
        for student in self.students:
            answer = self.answer(student, exercise_id)
            if answer.state in (SOLVED, PARTLY, WRONG):
                groups.setdefault(answer.tree, []).append(student.name)
        known = ("", wanted, tree_of(source_of(self.exercises[exercise_id].stub)))
        return [names for tree, names in groups.items() if len(names) > 1 and tree not in known]

    def told(self, exercise_id: str) -> list[tuple[str, list[str]]]:
        """What there is to say of an exercise beside its numbers; of a mistake, who made it."""
        lines = [
            (f"{'once' if len(names) == 1 else f'{len(names)} times'}: {said}", names)
            for said, names in self.mistakes(exercise_id)
        ]
        section = self.exercises[exercise_id].section
        if lines and section:
            lines.append((f"teach again: '{section}'", []))
        if names := self.like_the_reference(exercise_id):
            lines.append((f"equal to the reference: {', '.join(names)}", []))
        alike = self.alike(exercise_id)
        return lines + [(f"equal to each other: {', '.join(names)}", []) for names in alike]


def has_bugs(exercise: Exercise) -> bool:
    """Whether code with bugs is handed out: all who find them end at the reference."""
    return not any(map(is_blank, function_bodies(exercise.stub)))


def tree_of(source: str) -> str:
    """The code without layout, comments, docstrings and imports; '' where it is no Python."""
    try:
        tree = ast.parse(import_free(source))
    except SyntaxError:
        return ""
    # Of several definitions of one name, as a stub and the answer below it, the last counts.
    named = {getattr(node, "name", node): node for node in tree.body}
    tree.body = list(named.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree) if tree.body else ""


class NoReport(Exception):
    """Why there is no report, and what to do, in sentences."""


def named(course: Path, wanted: str) -> str:
    """The assignment that is meant by ``wanted``: a name, or a path that ends in one.

    Errors: ``NoReport``.
    """
    steps = ("source/*", "release/*", "submitted/*/*", "autograded/*/*")
    there = {path.name for step in steps for path in course.glob(step) if path.is_dir()}
    name = re.split(r"[\\/]", wanted.rstrip("\\/"))[-1].removesuffix(".ipynb")
    meant = [each for each in sorted(there) if each.casefold() == name.casefold()]
    if name in there or meant:
        return name if name in there else meant[0]
    known = f"The folder has {', '.join(sorted(there))}." if there else "The folder has none."
    raise NoReport(f"There is no assignment {name!r} in {course}: nothing was handed in. {known}")


def exercises_of(assignment: str) -> dict[str, Exercise]:
    """By their ids. Errors: ``NoReport``."""
    numbered = re.match(r"hw(\d\d)_", assignment, re.IGNORECASE)
    if not numbered:
        raise NoReport(
            f"{assignment} is not one of this course's assignments, whose names begin like hw06_: "
            "a report needs their checks."
        )
    number = int(numbered[1])
    if number not in chapter_numbers():
        raise NoReport(
            f"There is no chapter {number:02d} for {assignment}. If its exercises are your own, "
            f"give their folder with --with, or set {PRIVATE} to it."
        )
    return {exercise.id: exercise for exercise in load_chapter(number).exercises}


def read(course: Path, assignment: str) -> ClassReport:
    """The report of one assignment. Errors: ``NoReport``."""
    assignment = named(course, assignment)
    exercises = exercises_of(assignment)
    handed_in = {path.parent.name for path in course.glob(f"submitted/*/{assignment}")}
    graded = {path.parent.name for path in course.glob(f"autograded/*/{assignment}")}
    if not handed_in | graded:
        raise NoReport(f"Nothing was handed in for {assignment} in {course}.")
    students = []
    for name in sorted(handed_in | graded):
        path = course / "autograded" / name / assignment / f"{assignment}.ipynb"
        try:
            students.append(read_student(name, nbformat.read(path, as_version=4)))
        except FileNotFoundError:
            students.append(Student(name, trouble="not graded: see what nbgrader autograde says"))
        except Exception as error:  # nbformat has no common ancestor for what it raises
            students.append(Student(name, trouble=f"cannot be read: {error}"))
    return ClassReport(assignment, exercises, students)


def version_of(notebook: NotebookNode) -> str | None:
    """The version that a notebook was handed out with, whatever became of its metadata."""
    told = notebook.metadata.get(STAMP)
    version = told.get("version") if isinstance(told, dict) else None
    return None if version is None else str(version)


def read_student(name: str, notebook: NotebookNode) -> Student:
    student = Student(name, version=version_of(notebook) or "")
    first = notebook.cells[0].source if notebook.cells else ""
    if first.startswith("**Before grading.**"):
        student.trouble = " ".join(line[2:] for line in first.splitlines() if line[:2] == "- ")
    sources = {}
    for cell in notebook.cells:
        key = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if found := ANSWER.fullmatch(key):
            sources[f"{found[1]}.{found[2]}"] = cell.source
        if found := TEST.fullmatch(key):
            exercise_id = f"{found[1]}.{found[2]}"
            answer = student.answers[exercise_id] = ending_of(cell)
            answer.tree = tree_of(sources.get(exercise_id, ""))
            answer.most = cell.metadata["nbgrader"].get("points")
    return student


def ending_of(test: NotebookNode) -> Answer:
    """How a test ended, and the first sentence of what it said."""
    for output in test.outputs:
        data = output.get("data", {})
        _, _, message = data.get("text/plain", "").partition("\n")
        for words, state in SAID.items():
            if message.startswith(words):
                said = first_sentence(message.removeprefix(f"{words}.").strip())
                told = data.get(TOLD, {"share": float(state == SOLVED)})
                share = min(max(float(told["share"]), 0.0), 1.0)
                state = PARTLY if 0 < share < 1 else state
                return Answer(state, said, "", str(told.get("mistake") or ""), share)
    errors = [output for output in test.outputs if output.output_type == "error"]
    return Answer(FAILED, errors[0].evalue if errors else "the test was not run")


def first_sentence(message: str) -> str:
    first = re.split(r"(?<=[.!?])\s", message, maxsplit=1)[0]
    return textwrap.shorten(first, 200, placeholder=" ...")


# ---- As text, as a table, as a page -----------------------------------------------------------


def _students(report: ClassReport) -> str:
    number = len(report.students)
    return f"{number} student{'s' * (number != 1)}"


def as_text(report: ClassReport) -> str:
    lines = [f"{report.assignment}: {_students(report)}, points of {report.most:g}"]
    lines.append(f"{'':8}" + "".join(f"{state:>10}" for state in STATES))
    for exercise_id, exercise in report.exercises.items():
        counts = report.states(exercise_id)
        row = "".join(f"{counts[state] or '':>10}" for state in STATES)
        lines.append(f"{exercise_id:8}{row}  {exercise.title}")
        lines += [f"{'':10}{each}" for each, _ in report.told(exercise_id)]
    lines += [f"{s.name}: {s.trouble}" for s in report.students if s.trouble]
    return "\n".join(lines)


def as_csv(report: ClassReport) -> str:
    text = io.StringIO()
    table = csv.writer(text)
    points = f"points of {report.most:g}"
    table.writerow(["student", points, *report.exercises, "version", "remarks"])
    for student in report.students:
        answers = [report.answer(student, each) for each in report.exercises]
        states = [f"{a.state}: {a.mistake}" if a.mistake else a.state for a in answers]
        points = f"{report.points(student):g}"
        table.writerow([student.name, points, *states, student.version, student.trouble])
    return text.getvalue()


# What each state is drawn in: none of them is a role, but their colours can be told apart.
COLOURS = {SOLVED: "var(--role-value)", PARTLY: "var(--role-position)", WRONG: "var(--role-cut)"}
COLOURS |= {UNTOUCHED: "var(--role-forbidden)", FAILED: "var(--role-weight)", MISSING: "var(--ink)"}
STYLE = (
    f"{palette.css()}:root {{ color-scheme: light dark; }}"
    + """
body { background: var(--ground); color: var(--ink); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; } td, th { padding: 2px 8px; text-align: left; }
tr { border-bottom: 1px solid var(--rule); } .bar { display: flex; height: 1.2em; width: 20em; }
.bar span { color: var(--ground); font-size: 12px; text-align: center; overflow: hidden; }
.key span { color: var(--ground); padding: 0 8px; margin-right: 4px; }
"""
)


def as_page(report: ClassReport) -> str:
    """One HTML file, with nothing to load."""
    rows = "".join(row_of(report, each) for each in report.exercises)
    key = "".join(f'<span style="background:{COLOURS[s]}">{s}</span>' for s in STATES)
    heads = "".join(f"<th>{each}</th>" for each in report.exercises)
    students = "".join(
        f"<tr><td>{html.escape(s.name)}</td><td>{report.points(s):g}</td>"
        + "".join(f"<td>{report.answer(s, each).state}</td>" for each in report.exercises)
        + f"<td>{html.escape(s.version)}</td><td>{html.escape(s.trouble)}</td></tr>"
        for s in report.students
    )
    heads = f"<th>student</th><th>points of {report.most:g}</th>{heads}"
    name = html.escape(report.assignment)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style></head>
<body><h1>{name}</h1><p>{_students(report)}</p><p class="key">{key}</p>
<h2>Exercises</h2><table>{rows}</table>
<h2>Students</h2>
<table><tr>{heads}<th>version</th><th>remarks</th></tr>{students}
</table>
<p>Equal answers are something to look at, not a verdict.</p></body></html>
"""


def row_of(report: ClassReport, exercise_id: str) -> str:
    counts, everybody = report.states(exercise_id), max(len(report.students), 1)
    bar = "".join(
        f'<span style="background:{COLOURS[state]};width:{100 * counts[state] / everybody:.1f}%" '
        f'title="{state}: {counts[state]}">{counts[state]}</span>'
        for state in STATES
        if counts[state]
    )
    notes = "".join(
        f"<li>{html.escape(each)}<br>{html.escape(', '.join(names))}</li>"
        for each, names in report.told(exercise_id)
    )
    below = f'<tr><td colspan="2"><ul>{notes}</ul></td></tr>' if notes else ""
    title = html.escape(report.exercises[exercise_id].title)
    return f'<tr><td>{exercise_id} {title}</td><td><div class="bar">{bar}</div></td></tr>{below}'


def write(course: Path, assignment: str) -> tuple[ClassReport, list[Path]]:
    """Write ``report/ASSIGNMENT.html`` and ``.csv`` in the course folder; the report, the files."""
    report = read(course, assignment)
    folder = course / "report"
    folder.mkdir(exist_ok=True)
    files = [folder / f"{report.assignment}.html", folder / f"{report.assignment}.csv"]
    write_whole(files[0], as_page(report))
    write_whole(files[1], as_csv(report))
    return report, files
