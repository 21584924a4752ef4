"""9.7: a test of order for every form, those that are causal to rounding too."""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_09 import suspects, weak_tests
from d2l_attention.exercises.chapter_09.suspects import LEAKS, RIGHT
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.helpers import alike, calls_it, outcome
from d2l_attention.exercises.steps import fails_on, passes_on


def test_keeps_the_order(layer): ...


def test_keeps_the_order_solution(layer):
    generator = torch.Generator().manual_seed(0)
    X, other = torch.randn(2, 3, 12, 8, generator=generator)
    before = layer(X)
    for t in range(1, 12):
        # Another future, of ordinary numbers: a transform rounds by the largest of all.
        changed = torch.cat((X[:, :t], other[:, t:]), dim=1)
        torch.testing.assert_close(layer(changed)[:, :t], before[:, :t])


class Spy:
    """A right layer that notes what it read."""

    __name__ = "layer"

    def __init__(self) -> None:
        self.calls: list[Tensor] = []

    def __call__(self, X: Tensor) -> Tensor:
        self.calls.append(X.detach().clone())
        return suspects.causal_window(X)


def fails_where_it_should_pass(attempt: Attempt) -> str | None:
    failed = [layer for layer in RIGHT if isinstance(outcome(attempt, layer), AssertionError)]
    if not failed:
        return None
    spy = Spy()
    outcome(attempt, spy)
    if any(not X.isfinite().all() for X in spy.calls):
        return (
            "Your test fails on causal layers, because there is NaN or infinity in what it puts "
            "in. A hidden key has the weight 0, and 0 times NaN is NaN; a Fourier transform "
            "spreads it over everything. Change the future to numbers of ordinary size."
        )
    if failed == [suspects.hyena] and outcome(attempt, suspects.exact_hyena) is None:
        return ROUNDING + (
            "by 1e-7 of the largest number that you put in. Change the future to numbers of "
            "ordinary size, such as `torch.randn`."
            if any(X.abs().max() > 100 for X in spy.calls)
            else "by about 1e-7. Do not ask for equal digits, or for a gradient of exactly 0: "
            "`torch.testing.assert_close` allows for rounding."
        )
    if len(failed) < len(RIGHT):
        names = ", ".join(f"`{layer.__name__}`" for layer in failed)
        return (
            f"Your test fails on some causal layers and not on others: on {names}. Do not ask for "
            "particular numbers: ask whether the future changes them."
        )
    if outcome(attempt, suspects.everything) is None:
        return (
            "Your test fails on causal layers and passes on one without a mask: the comparison is "
            "the wrong way round. What should stay as it was?"
        )
    return (
        "Your test fails on causal layers. A token may see itself and what stands before it: "
        "outputs at place t may change where one of the tokens up to t does. And what the numbers "
        "are is none of the test's business."
    )


ROUNDING = (
    "Your test fails on a causal layer that convolves by a Fourier transform: Hyena. The "
    "transform touches all tokens at once, so that the future changes the past by rounding, "
)


def clue(leak: Callable, attempt: Attempt) -> str:
    """Why the student's test does not see this leak."""
    if outcome(attempt, suspects.dice) is None:
        return (
            "It even passes where outputs are drawn by lot. Is there an `assert` that nothing "
            "catches, and does it compare the outputs of two calls closely?"
        )
    spy = Spy()
    attempt(spy)
    if all(torch.equal(X, spy.calls[0]) for X in spy.calls):
        return (
            "Your test always gives the same tokens. Let two calls differ in the future, and in "
            "nothing else. (After `b = a` both are one tensor: change a `clone()`.)"
        )
    longest = max(X.shape[1] for X in spy.calls)
    if leak is suspects.gaps_ahead and longest <= 3 or leak is suspects.one_link and longest <= 4:
        return f"Your sequences have at most {longest} tokens: the leak has no room in them."
    if all(alike(leak(X), leak(X[:, :1]).expand_as(X)) for X in spy.calls):
        return "All tokens of your sequences are alike, and a mean of equal values tells nothing."
    if leak is suspects.one_link:
        return (
            "Only the second token sees too much, and only one token of its future. Try every "
            "place t: change all that stands after it, compare all up to it."
        )
    if leak is suspects.gaps_ahead:
        return "Change all that stands after a place, not the next token or two alone."
    if leak in (suspects.one_ahead, suspects.leaking_convolution):
        return (
            "It sees one token ahead, no more. Change the future from place t on, and compare up "
            "to place t - 1, that last one included."
        )
    if leak is suspects.coming_round:
        return (
            "Its last tokens reach its first ones. Change the future up to the very end, and "
            "compare from the very beginning, closely."
        )
    return (
        "In your calls its past changes with its future, and your test does not notice. Change all "
        "that stands after a place to other random numbers, and compare closely."
    )


def catches(leak: Callable, what: str) -> Step:
    return fails_on(leak, what, clue)


write_the_test = Exercise(
    id="9.7",
    title="Does it keep the order?",
    task=(
        "Write `test_keeps_the_order(layer)` for functions that take X (B, n, 8), n up to 16, and "
        "give (B, n, 8). They have no dropout, and act alike in training and evaluation. Your test "
        "must pass on causal ones, of four forms: a window, multi-token attention, linear "
        "attention and Hyena. Hyena's transform moves the past by rounding: let differences below "
        "1e-4 pass. It must fail, by an `AssertionError`, on each of seven others: a window off by "
        "one, so that each token sees the next; multi-token attention that masks after its "
        "convolution alone; a Linformer with a causal mask over its mixtures; a dilated window "
        "that sees the third token after each, and not the two nearer; a causal mask with one "
        "random link too many: token 1 also sees token 4 (counted from 0); linear attention that "
        "divides by a sum over all keys; a long convolution by a Fourier transform without zeros "
        "after the end."
    ),
    difficulty="hard",
    minutes=30,
    hints=[
        "Two calls that agree up to place t, and differ after it, have to give the same outputs "
        "up to t. Which t, and how much of the future has to differ?",
        "One leak shows only in the token right before the change, one only in token 1, one most "
        "of all in the first tokens. So try all places, and compare all that stands before.",
        "Hyena is causal to rounding: the transform spreads 1e-7 of the largest number over the "
        "whole column, and NaN over everything. What may the new future look like, and how should "
        "you compare?",
    ],
    stub=test_keeps_the_order,
    solution=test_keeps_the_order_solution,
    explanation=(
        "The test asks one question of every form, and knows none of them: does another future "
        "change the past? All places are tried, since a single link leaks at one of them. The "
        "new future has ordinary numbers. NaN is a dye for what nobody may see; here every token "
        "is seen by somebody, and 0 times NaN is NaN. A Linformer cannot pass at all: its mixtures "
        "hold the future before anybody masks."
    ),
    steps=[
        calls_it("layer", Spy),
        fails_where_it_should_pass,
        *(passes_on(layer) for layer in RIGHT),
        *(catches(leak, what) for leak, what in LEAKS.items()),
    ],
    wrong=[
        Wrong(weak_tests.never_calls, "without ever calling `layer`"),
        Wrong(weak_tests.returns_true_or_false, "A test speaks by failing"),
        Wrong(weak_tests.shape_only, "drawn by lot"),
        Wrong(weak_tests.same_twice, "the same tokens"),
        Wrong(weak_tests.changes_nothing, "change a `clone()`"),
        Wrong(weak_tests.swallows_the_failure, "drawn by lot"),
        Wrong(weak_tests.far_too_tolerant, "drawn by lot"),
        Wrong(weak_tests.raises_another_error, "let an `assert` say what is wrong"),
        Wrong(weak_tests.pours_nan, "NaN or infinity"),
        Wrong(weak_tests.a_billion, "the largest number that you put in"),
        Wrong(weak_tests.every_digit, "Do not ask for equal digits"),
        Wrong(weak_tests.gradient_of_exactly_0, "a gradient of exactly 0"),
        Wrong(weak_tests.one_place, "Try every place t"),
        Wrong(weak_tests.next_token_alone, "not the next token or two alone"),
        Wrong(weak_tests.last_place_left_out, "that last one included"),
        Wrong(weak_tests.far_future_alone, "It sees one token ahead"),
        Wrong(weak_tests.last_token_alone, "Try every place t"),
        Wrong(weak_tests.four_tokens, "at most 4 tokens"),
        Wrong(weak_tests.neighbours_alone, "from the very beginning"),
        Wrong(weak_tests.compares_its_own_place, "A token may see itself"),
        Wrong(weak_tests.changes_the_past, "A token may see itself"),
        Wrong(weak_tests.the_wrong_way_round, "the wrong way round"),
        Wrong(weak_tests.expects_a_mean, "not on others"),
        Wrong(weak_tests.expects_plain_attention, "none of the test's business"),
        Wrong(weak_tests.one_word_for_all, "are alike"),
        Wrong(weak_tests.wrong_size, "It happened for"),
    ],
    # The first `assert_close` of a process imports sympy, which takes a slow machine seconds.
    seconds=20.0,
)
