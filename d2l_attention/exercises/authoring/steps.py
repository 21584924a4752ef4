"""The vocabulary of steps: what an exercise asks beside 'the same as the solution'.

By hand: ``number``, ``choice``, ``parts`` of ``Part``. Functions: ``gradients_flow``, ``holds``.
A test that the student writes: ``catches`` of ``Suspect``. Rules for ``rules=`` and ``holds``:
``rows_sum_to_one``, ``no_nan``, ``hidden_weights_are_zero``. Anything else is a function of one
``Attempt``: ``attempt(*inputs)`` runs the student's function, ``attempt.answer`` is the answer.
"""

import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from d2l_attention.exercises.engine.attempt import Attempt, Raised
from d2l_attention.exercises.engine.compare import alike, as_numbers
from d2l_attention.exercises.engine.edits import wrong_function
from d2l_attention.exercises.engine.ladder import right_result
from d2l_attention.exercises.engine.show import show, show_error
from d2l_attention.exercises.exercise import Case, Mistake, Rule, Step

# By hand ----------------------------------------------------------------------------------


def number(
    expected: Any,
    *,
    tolerance: float = 0.005,
    mistakes: Mapping[Any, str] | None = None,
    counts: Mapping[int, str] | None = None,
) -> Step:
    """A number worked out by hand, or a list of them, within ``tolerance``.

    ``mistakes`` maps typical wrong numbers (lists as tuples) to what went wrong, ``counts``
    wrong numbers of numbers.
    """
    right = torch.as_tensor(expected, dtype=torch.float64)

    def step(attempt: Attempt) -> str | None:
        got = as_numbers(attempt.answer)
        if got is None:
            wanted = "a number, such as `0.5`" if right.ndim == 0 else "a list of numbers"
            return f"Give {wanted}; your answer is {show(attempt.answer)}."
        if got.numel() != right.numel():
            told = f"Your answer holds {counted(got)}; it should hold {counted(right)}."
            return (counts or {}).get(got.numel(), told)
        got = got.reshape(right.shape)
        if close(got, right, tolerance):
            return None
        for typical, why in (mistakes or {}).items():
            if close(got, torch.as_tensor(typical, dtype=torch.float64), tolerance):
                return f"{show(attempt.answer)}: {why}"
        if close(got, 100 * right, 100 * tolerance):
            return "Your answer looks like a percentage: divide it by 100."
        return off_by(got, right, tolerance)

    return step


def off_by(got: Tensor, right: Tensor, tolerance: float) -> str:
    """Says where and in which direction, without giving the number away."""
    if close(got, right, 5 * tolerance):
        return f"{show(got.tolist())} is very close. Round at the very end, not on the way."
    far = ~torch.isclose(got, right, rtol=0, atol=tolerance)
    place = tuple(far.nonzero()[0].tolist())
    direction = "large" if got[place] > right[place] else "small"
    entry = f"Entry {list(place)}, " if place else ""
    return f"{entry}{show(got[place].item())} is too {direction}."


def counted(numbers: Tensor) -> str:
    return "one number" if numbers.numel() == 1 else f"{numbers.numel()} numbers"


def close(got: Tensor, right: Tensor, tolerance: float) -> bool:
    return got.shape == right.shape and torch.allclose(got, right, rtol=0, atol=tolerance)


def choice(right: Any, reasons: Mapping[Any, str]) -> Step:
    """One of several given answers; ``reasons`` says of each wrong one why it is wrong."""
    options = sorted([right, *reasons], key=str)

    def step(attempt: Attempt) -> str | None:
        answer = attempt.answer
        answer = answer.strip().lower() if isinstance(answer, str) else answer
        if isinstance(answer, Tensor) or answer not in options:
            return f"Choose one of {', '.join(map(repr, options))}; you gave {show(answer)}."
        return None if answer == right else f"{answer}: {reasons[answer]}"

    return step


@dataclass(frozen=True)
class Part:
    """One of several numbers: what it is called, its value, and why typical wrong ones are wrong.

    ``tolerance`` is absolute; without it, half a thousandth of the number. ``otherwise`` is said
    of a wrong number that has no reason of its own.
    """

    name: str
    right: float
    mistakes: Mapping[float, str]
    tolerance: float | None = None
    otherwise: str | None = None

    def fault(self, value: float, otherwise: str) -> str | None:
        if self.near(value, self.right):
            return None
        found = (why for wrong, why in self.mistakes.items() if self.near(value, wrong))
        return f"{self.name}, {value:.7g}: {next(found, self.otherwise or otherwise)}"

    def near(self, value: float, wanted: float) -> bool:
        most = 0.0005 * abs(wanted) if self.tolerance is None else self.tolerance
        return abs(value - wanted) <= most


def parts(*several: Part, give: str, otherwise: str) -> Step:
    """Several numbers, as a list, a tuple or nested pairs; the first wrong one is told.

    ``give`` asks for the form, such as 'three numbers, such as `(1, 1, 0.5)`'; ``otherwise`` is
    said of a wrong number without a reason.
    """

    def step(attempt: Attempt) -> str | None:
        got = as_numbers(attempt.answer)
        if got is None or got.numel() != len(several):
            return f"Give {give}. Your answer is {show(attempt.answer)}."
        pairs = zip(several, got.flatten().tolist(), strict=True)
        return next(filter(None, (part.fault(value, otherwise) for part, value in pairs)), None)

    return step


# Functions --------------------------------------------------------------------------------


def holds(rule: Rule, *cases: Case) -> Step:
    """``rule(result, *inputs)`` finds nothing on ``cases``, the exercise's own or others.

    For what must hold whatever the solution gives; a rule may count on the form of a result
    only where a case of the exercise has the same inputs.
    """

    def step(attempt: Attempt) -> str | None:
        for case in cases:
            if found := rule(attempt.play(case.inputs), *case.inputs):
                shown = case.shown or attempt.case(case.inputs)
                found = f"{case.because} {found}".strip()
                return f"{found} Smallest case that shows it: {shown}."
        return None

    return step


def gradients_flow(*names: str, why: str = "They could not learn.") -> Step:
    """The gradients with respect to these inputs, or all, are the solution's, on every case.

    ``why`` says in a sentence what goes wrong where none arrives.
    """

    def step(attempt: Attempt) -> str | None:
        for case in attempt.exercise.cases:
            if found := wrong_gradient(attempt, case.inputs, names, why):
                return f"{found} Smallest case that shows it: {attempt.case(case.inputs)}."
        return None

    return step


def wrong_gradient(attempt: Attempt, inputs: tuple, names: Sequence[str], why: str) -> str | None:
    chosen = [
        index
        for index, X in enumerate(inputs)
        if isinstance(X, Tensor) and X.is_floating_point()
        if not names or attempt.names[index] in names
    ]
    right, theirs = gradients(lambda *X: right_result(attempt.exercise, X), inputs, chosen)
    if not right:
        return None
    try:
        with warnings.catch_warnings():
            # That the inputs want gradients is the check's doing, not the student's.
            warnings.filterwarnings("ignore", ".*requires_grad", UserWarning)
            got, mine = gradients(lambda *X: attempt.play(X), inputs, chosen)
    except RuntimeError:
        return (
            "The numbers are right, but the backward pass breaks off: a tensor that it still needs "
            "was overwritten in place (`x[...] = ...`, `x *= ...`, `masked_fill_`)."
        )
    if not got:
        return (
            "The numbers are right, but no gradient comes through: your result is made of new "
            f"numbers (`torch.tensor(...)`, `tolist`, `item`, `detach`, `no_grad`). {why}"
        )
    for index, wanted, found in zip(chosen, theirs, mine, strict=True):
        name = f"`{attempt.names[index]}`"
        if wanted is None or not wanted.any():
            if found is not None and not found.isfinite().all():
                return f"The numbers are right, but the gradient of {name} is {worst(found)}."
            continue
        if found is None or not found.any():
            return f"The numbers are right, but no gradient reaches {name}. {why}"
        if not found.isfinite().all() and wanted.isfinite().all():
            return f"The numbers are right, but the gradient of {name} is {worst(found)}."
        if not alike(found, wanted, 1e-3):
            return (
                f"The numbers are right, but the gradient of {name} is not: a part of the "
                "computation does not pass it on (`detach`, `.data`, `no_grad`, `tolist`)."
            )
    return None


def worst(gradient: Tensor) -> str:
    return "NaN" if gradient.isnan().any() else "infinite"


def gradients(function: Callable, inputs: tuple, chosen: Sequence[int]) -> tuple[bool, list]:
    """Whether a gradient comes through at all, and the gradients of the chosen inputs."""
    leaves = list(inputs)
    for index in chosen:
        leaves[index] = inputs[index].clone().requires_grad_()
    result = function(*leaves)
    outputs = [X for X in (result if isinstance(result, tuple | list) else [result])]
    outputs = [X for X in outputs if isinstance(X, Tensor) and X.requires_grad]
    if not outputs:
        return False, [None] * len(chosen)
    # Other weights for each number: a plain sum of a softmax has no gradient.
    total = sum(
        (X * torch.linspace(1, 2, X.numel(), dtype=X.dtype).reshape(X.shape)).sum() for X in outputs
    )
    wanted = [leaves[index] for index in chosen]
    return True, list(torch.autograd.grad(total, wanted, allow_unused=True))


# Rules about attention weights (*, Q, K) ----------------------------------------------------


def rows_sum_to_one(weights: Tensor, *_: Any) -> str | None:
    """For rows with something to attend to; leave out cases that have others."""
    sums = weights.sum(dim=-1)
    if near_one(sums):
        return None
    row = (sums - 1).abs().flatten().argmax() if near_one(sums.flatten()[:1]) else 0
    told = f"Row {int(row)} of your weights sums to {sums.flatten()[row]:.3g}"
    if weights.ndim > 1 and near_one(weights.sum(dim=-2)):
        return (
            f"{told}, while every column sums to 1: your softmax runs over the queries. Softmax "
            "over the keys (the last axis, `dim=-1`) makes every row sum to 1."
        )
    return f"{told}; softmax over the keys (the last axis) makes every row sum to 1."


def near_one(sums: Tensor) -> bool:
    return bool(((sums - 1).abs() < 1e-2).all())


def no_nan(weights: Tensor, *_: Any) -> str | None:
    if not weights.isnan().any():
        return None
    row = weights.isnan().reshape(-1, weights.shape[-1]).any(dim=-1).nonzero()[0].item()
    return f"Row {row} of your weights is NaN."


def hidden_weights_are_zero(weights: Tensor, _scores: Tensor, mask: Tensor) -> str | None:
    """For exercises whose inputs are scores (*, Q, K) and a mask, True = may attend."""
    hidden = weights.masked_fill(mask, 0.0)
    if not hidden.any():
        return None
    place = hidden.nonzero()[0].tolist()
    return (
        f"Entry {place} of your weights is {hidden[tuple(place)].item():.3g}, but the mask is "
        "False there: that key may get no weight at all."
    )


# A test that the student writes -------------------------------------------------------------


@dataclass(frozen=True)
class Suspect:
    """A broken implementation that the student's test must fail on.

    ``wrong`` is an edit of the right implementation, as in ``Mistake``, or an implementation
    itself. ``what`` goes on after 'on an implementation that'. ``blind`` maps what may be true of
    a call, in the names of the arguments (``"queries.shape[1] == 1"``; of a module also
    ``training``; ``first`` is the first call, ``first['queries']``), to the sentence for a test
    all of whose calls are like that: there the suspect gives what a right one gives.
    A suspect that ``crashes`` is caught by a test that meets its error.
    """

    wrong: Mapping[str, str] | Callable
    what: str
    blind: Mapping[str, str] = field(default_factory=dict)
    everywhere: bool = False
    crashes: bool = False


class Spy:
    """A right implementation that notes what it was called with."""

    def __init__(self, right: Callable):
        self.calls: list[dict] = []
        self.__name__ = "another_right_one"
        self._right = right
        self._signature = inspect.signature(right.forward if is_module(right) else right)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        with_names = self._signature.bind(*inputs, **named)
        with_names.apply_defaults()
        call = {name: held(value) for name, value in with_names.arguments.items()}
        if is_module(self._right):
            call["training"] = self._right.training
        self.calls.append(call)
        return self._right(*inputs, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._right, name)
        if not is_module(self._right) or not inspect.ismethod(found):
            return found

        def method(*inputs: Any, **named: Any) -> Any:
            given = found(*inputs, **named)
            return self if given is self._right else given  # as ``eval`` gives the module back

        return method

    def always(self, rule: str) -> bool:
        """Whether ``rule``, in the arguments' names and ``first``, is true of all calls."""
        names = {"torch": torch, "first": self.calls[0]}
        return all(eval(rule, {**names, **call}) for call in self.calls)


def is_module(right: Any) -> bool:
    return isinstance(right, nn.Module)


def held(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def catches(
    right: Callable,
    *suspects: Suspect,
    name: str,
    blind: Mapping[str, str] | None = None,
    also_right: Sequence[Callable] = (),
    beliefs: Sequence[Suspect] = (),
    nothing: Callable | None = None,
    little: Callable | None = None,
    little_why: str = "It even passes where all outputs are 0: it looks at the shape alone, or at "
    "too little. Work out what should come back, and compare.",
    notice: str = "Work out the whole output in another way, and compare.",
    rounding: str = "Compute in float64, or with smaller numbers.",
    fresh: bool = False,
) -> Step:
    """The student's test passes on ``right`` and fails on each suspect, by an ``assert``.

    ``name`` is what the test calls the implementation. ``blind`` holds for all suspects,
    ``beliefs`` are wrong ones that a test may expect and need not catch. ``nothing`` is an
    implementation that only a test that looks at nothing accepts, ``little`` one for a test that
    looks at too little; without them zeros are given back. ``fresh``: ``right``, suspects and
    others are makers of implementations, one for each run.
    """
    original, called = right, None if fresh else name  # as its callers know it
    if isinstance(right, FunctionType):
        right = wrong_function(right, Mistake({}, ""), name=called)
    make = (lambda given: given()) if fresh else (lambda given: given)
    nothing = nothing or ((lambda: only_one_zero) if fresh else only_one_zero)
    little = little or derived(zeros_like, right, fresh)
    nudged = derived(other_last_digits, right, fresh)
    broken = {
        wrong_function(original, Mistake(each.wrong, each.what, each.everywhere), name=called): each
        for each in (*suspects, *beliefs)
    }
    to_catch = [wrong for wrong, each in broken.items() if each in suspects]

    def outcome(attempt: Attempt, implementation: Callable) -> BaseException | None:
        return attempt.outcome(make(implementation))

    def step(attempt: Attempt) -> str | None:
        return calls(attempt) or wrong_belief(attempt) or accepts(attempt) or rejects(attempt)

    def calls(attempt: Attempt) -> str | None:
        spy = Spy(make(right))
        try:
            returned = attempt(spy)
        except Raised:
            if outcome(attempt, right) is None:
                return (
                    "Your test passes on one right implementation and fails on another. Look at "
                    "what an implementation returns, not at which one it is."
                )
            return None  # the next ones tell
        if returned is not None:
            return (
                f"Your test returned {show(returned)}, and nobody looks at that. A test speaks by "
                "failing: `assert` what must hold, and return nothing."
            )
        if spy.calls:
            return None
        return (
            f"Your test passes without ever calling `{name}`, so it would accept anything. Call it "
            "with inputs of your choice and look at what comes back."
        )

    def wrong_belief(attempt: Attempt) -> str | None:
        error = outcome(attempt, right)
        if error is None and isinstance(outcome(attempt, nudged), AssertionError):
            return (
                "Your test wants every digit to agree: it fails on a right implementation that "
                "sums in another order, so that the last digits differ. "
                "`torch.testing.assert_close` allows for that."
            )
        if not isinstance(error, AssertionError):
            return None
        for wrong, suspect in broken.items():
            if outcome(attempt, wrong) is None:
                return (
                    f"Your test fails on the right implementation and passes on one that "
                    f"{suspect.what}: the mistake is in what you expect."
                )
        found = re.search(r"Greatest absolute difference: (\S+)", str(error))
        if found and float(found[1]) < 1e-2:
            return (
                f"Your test fails on a right implementation by no more than {found[1]}: rounding. "
                f"{rounding}"
            )
        return None

    def accepts(attempt: Attempt) -> str | None:
        for implementation in (right, *also_right):
            try:
                attempt(make(implementation))
            except Raised as failure:
                if isinstance(failure.error, AssertionError):
                    return f"Your test fails on a right implementation. {failure}"
                reasons = attempt.exercise.errors.items()
                found = (why for words, why in reasons if words in str(failure.error))
                return f"{next(found, '')} {failure}".strip()
        return None

    def rejects(attempt: Attempt) -> str | None:
        for wrong in to_catch:
            suspect, error = broken[wrong], outcome(attempt, wrong)
            if isinstance(error, AssertionError) or (error is not None and suspect.crashes):
                continue
            if error is not None:
                return (
                    f"On an implementation that {suspect.what} your test breaks off with "
                    f"`{show_error(error)}`; let an `assert` say what is wrong."
                )
            passes = f"Your test passes on an implementation that {suspect.what}."
            return f"{passes} {clue(attempt, wrong, suspect)}"
        return None

    def clue(attempt: Attempt, wrong: Callable, suspect: Suspect) -> str:
        if outcome(attempt, nothing) is None:
            return (
                "It passes whatever comes back. Is there an `assert` that nothing catches, and "
                "does it compare with something other than the implementation itself?"
            )
        if outcome(attempt, little) is None:
            return little_why
        spy = Spy(make(right))
        attempt(spy)
        for rule, why in {**(blind or {}), **suspect.blind}.items():
            if spy.always(rule):
                return why
        if all(alike(replay(make(wrong), call), replay(make(right), call)) for call in spy.calls):
            return (
                "In all your calls it gives what a right one gives. Are your inputs, or parts of "
                "them (tokens, columns of a matrix), all alike? Random numbers are not."
            )
        return (
            "In your calls its output differs from the right one, and your test does not notice. "
            f"{notice}"
        )

    return step


def replay(implementation: Callable, call: dict) -> Any:
    named = dict(call)
    if "training" in named and is_module(implementation):
        implementation.train(named.pop("training"))
    return implementation(**named)


def derived(change: Callable, right: Callable, fresh: bool) -> Callable:
    """An implementation that gives the right results, changed."""

    def implementation(*inputs: Any, **named: Any) -> Any:
        return change(right(*inputs, **named))

    def maker() -> Callable:
        made = right()
        if is_module(made):
            made.register_forward_hook(lambda module, inputs, result: change(result))
            return made
        return lambda *inputs, **named: change(made(*inputs, **named))

    return maker if fresh else implementation


def only_one_zero(*_: Any, **__: Any) -> Tensor:
    return torch.zeros(1)


def zeros_like(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return type(result)(map(zeros_like, result))
    if isinstance(result, float):
        return 0.0
    return torch.zeros_like(result) if isinstance(result, Tensor) else result


def other_last_digits(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return type(result)(map(other_last_digits, result))
    if isinstance(result, float):
        return other_last_digits(torch.tensor(result, dtype=torch.float64)).item()
    if isinstance(result, Tensor) and result.is_floating_point():
        # Round numbers, such as a hidden key's weight 0, are exact in any order.
        is_round = (64 * result).frac() == 0
        # The same for the same sizes: sums of other lengths are what rounds in another way.
        chance = torch.rand(result.shape, generator=torch.Generator().manual_seed(result.numel()))
        other = torch.where(chance < 0.5, torch.inf, -torch.inf).to(result)
        return torch.nextafter(result, torch.where(is_round, result, other))
    return result


# Cases ------------------------------------------------------------------------------------


def normal(seed: int, *shapes: Sequence[int]) -> tuple[Tensor, ...]:
    """Tensors of these shapes, the same at each call."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def in_dtype(inputs: tuple, dtype: torch.dtype) -> tuple:
    """The inputs with all floating-point tensors as ``dtype``."""
    return tuple(
        X.to(dtype) if isinstance(X, Tensor) and X.is_floating_point() else X for X in inputs
    )
