"""What is wrong with an answer: error, named mistake, form, rule, value, on one case after another.

The wrong functions that name a mistake are made only when an answer is wrong.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.engine.attempt import SEED, Attempt, Raised, copied
from d2l_attention.exercises.engine.compare import alike, form_differs, tolerance_for, value_differs
from d2l_attention.exercises.engine.edits import made, pairs
from d2l_attention.exercises.engine.show import in_full
from d2l_attention.exercises.exercise import Case, Exercise


def first_finding(exercise: Exercise, attempt: Attempt) -> str | None:
    found = next(filter(None, findings(exercise, attempt)), None)
    # Memory first: where a function remembers, what the steps saw misleads.
    if remembers := attempt.memory():
        attempt.shown = attempt.mistake = None
        attempt.share = 0.0
        return remembers
    if attempt.changed and not found and exercise.cases:
        attempt.shown = exercise.cases[0].inputs
    return found or attempt.changed


def findings(exercise: Exercise, attempt: Attempt) -> Iterable[str | None]:
    for step in exercise.before:
        yield step(attempt)
    for number in range(len(exercise.cases)):
        yield CaseRun(exercise, attempt, number).finding()
    for step in exercise.steps:
        yield step(attempt)


@dataclass(frozen=True)
class Outcome:
    """What a function did on a case: it gave ``result`` or raised ``error``."""

    result: Any = None
    error: BaseException | None = None

    def same(self, other: "Outcome", tolerance: float) -> bool:
        if self.error is None and other.error is None:
            return alike(self.result, other.result, tolerance)
        return type(self.error) is type(other.error) and str(self.error) == str(other.error)


def outcome(exercise: Exercise, function: Callable, inputs: Sequence[Any]) -> Outcome:
    """Of a function of ours, as the student's would be run."""
    given = copied(tuple(inputs))
    torch.default_generator.manual_seed(SEED)
    try:
        return Outcome(exercise.run(function, *given) if exercise.run else function(*given))
    except Exception as error:
        return Outcome(error=error)


def right_result(exercise: Exercise, inputs: Sequence[Any]) -> Any:
    found = outcome(exercise, exercise.solution, inputs)
    if found.error is not None:
        raise found.error
    return found.result


class CaseRun:
    """One case, and what the student's function does there."""

    def __init__(self, exercise: Exercise, attempt: Attempt, number: int):
        self.exercise, self.attempt, self.number = exercise, attempt, number
        self.case: Case = exercise.cases[number]
        with attempt.clock.paused():
            self.right = Outcome(right_result(exercise, self.case.inputs))
        self.tolerance = self.case.tolerance or exercise.tolerance
        self.tolerance = self.tolerance or tolerance_for(self.right.result, self.case.inputs)

    def finding(self) -> str | None:
        try:
            got = Outcome(self.attempt.play(self.case.inputs))
        except Raised as failure:
            self.attempt.shown = self.case.inputs
            why = self.named(Outcome(error=failure.error)) or self.reason(failure.error)
            return " ".join(filter(None, (self.case.because, why, str(failure))))
        if got.same(self.right, self.tolerance):
            return None
        found = self.named(got) or self.form(got.result) or self.value(got.result)
        return f"{self.case.because} {found}".strip()

    def reason(self, error: BaseException) -> str | None:
        reasons = [*self.case.errors.items(), *self.exercise.errors.items()]
        return next((why for words, why in reasons if words in str(error)), None)

    def form(self, result: Any) -> str | None:
        wrong = form_differs(result, self.right.result)
        if wrong is None:
            return None
        why = shape_story(self.exercise.shapes, result, self.right.result, self.case.inputs)
        return f"{why or wrong} {self.shown()}"

    def value(self, result: Any) -> str:
        rules = (*self.case.rules, *self.exercise.rules)
        found = filter(None, (rule(result, *copied(self.case.inputs)) for rule in rules))
        why = next(found, None) or value_differs(result, self.right.result, self.tolerance)
        return f"{why} {self.shown()}"

    def shown(self, inputs: Sequence[Any] | None = None) -> str:
        self.attempt.shown = self.case.inputs if inputs is None else inputs
        shown = self.case.shown if inputs is None else None
        shown = shown or self.attempt.as_code(self.case.inputs if inputs is None else inputs)
        return f"Smallest case that shows it: {shown}."

    def named(self, got: Outcome) -> str | None:
        """The mistake, or on the first case the two, of which this is the outcome."""
        # Hundreds of functions of ours are made and run: a slow machine is not the student's fault.
        with self.attempt.clock.paused():
            if (found := self.mistake(got)) is None:
                return None
            wrong, why, self.attempt.mistake = found
            return why if got.error else f"{why} {self.shown(self.smallest(wrong))}"

    def mistake(self, got: Outcome) -> tuple[Callable, str, str] | None:
        """The wrong function, what to say, and the mistake's short name."""
        solution, mistakes = self.exercise.solution, self.exercise.mistakes
        singles = ((made(solution, each), each.why, each.short_name) for each in mistakes)
        # Mistakes that fail a case which the student passed are dropped first: they may loop for
        # ever on this one.
        possible = (each for each in singles if each[0] and self.right_before(each[0]))
        found = [each for each in possible if self.is_it(each[0], got)]
        if len(found) > 1:
            found = [each for each in found if self.same_elsewhere(each[0])] or found
        comparable = type(got.result) is type(self.right.result)
        if not found and not self.number and self.exercise.pairs and comparable:
            both = pairs(solution, mistakes)
            return next((pair for pair in both if self.is_it(pair[0], got)), None)
        return found[0] if found else None

    def is_it(self, wrong: Callable, got: Outcome) -> bool:
        theirs = outcome(self.exercise, wrong, self.case.inputs)
        return got.same(theirs, self.tolerance) and not self.right.same(theirs, self.tolerance)

    def right_before(self, wrong: Callable) -> bool:
        earlier = (case.inputs for case in self.exercise.cases[: self.number])
        return not any(matters(self.exercise, wrong, inputs) for inputs in earlier)

    def same_elsewhere(self, wrong: Callable) -> bool:
        for case in self.exercise.cases:
            try:
                with self.attempt.clock:
                    got = Outcome(self.attempt.play(case.inputs))
            except Raised as failure:
                got = Outcome(error=failure.error)
            if not got.same(outcome(self.exercise, wrong, case.inputs), self.tolerance):
                return False
        return True

    def smallest(self, wrong: Callable) -> Sequence[Any] | None:
        """Inputs that can be worked out by hand and on which the mistake matters."""
        if in_full(self.case.inputs):
            return None
        cases = [*self.exercise.show, *(case.inputs for case in self.exercise.cases)]
        shown = filter(in_full, cases)
        return next((one for one in shown if matters(self.exercise, wrong, one)), None)


def matters(exercise: Exercise, wrong: Callable, inputs: Sequence[Any]) -> bool:
    """Whether ``wrong`` does anything else here than the solution."""
    right = outcome(exercise, exercise.solution, inputs)
    tolerance = exercise.tolerance or tolerance_for(right.result, inputs)
    return not right.same(outcome(exercise, wrong, inputs), tolerance)


def shape_story(shapes: Any, result: Any, right: Any, inputs: Sequence[Any]) -> str | None:
    """What the author says of a result of this form."""
    if callable(shapes):
        shapes = shapes(result, *copied(tuple(inputs)))
    if not isinstance(shapes, Mapping):
        return shapes
    if not isinstance(result, Tensor) or not isinstance(right, Tensor):
        return None
    got, wanted = tuple(result.shape), tuple(right.shape)
    if got == wanted:
        return None
    letters = f"{shapes[wanted]} = " if wanted in shapes else ""
    why = shapes.get(got) or shapes.get(None, "")
    return f"Your result has shape {got}; it should be {letters}{wanted}. {why}".strip()
