"""7.6: a test that catches wrong relative positions. Its suspects are in ``suspects.py``."""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_07 import suspects, weak_tests
from d2l_attention.exercises.chapter_07.suspects import BROKEN, right
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import alike, calls_it, outcome
from d2l_attention.exercises.steps import fails_on, passes_on


def test_rotary(attend): ...


def test_rotary_solution(attend):
    generator = torch.Generator().manual_seed(0)
    B, H, Q, K, D, V = 2, 3, 5, 7, 6, 4
    shapes = (B, H, Q, D), (B, H, K, D), (B, H, K, V)
    queries, keys, values = (torch.randn(shape, generator=generator) for shape in shapes)

    def as_complex(X, first):  # a pair is a complex number, and its position turns it
        pairs = torch.view_as_complex(X.reshape(*X.shape[:-1], D // 2, 2))
        positions = torch.arange(first, first + X.shape[-2])[:, None]
        angles = positions / 10000 ** (torch.arange(0, D, 2) / D)
        return pairs * torch.polar(torch.ones_like(angles), angles)

    q, k = as_complex(queries, 11), as_complex(keys, 3)
    scores = (q @ k.mH).real / D**0.5
    expected = scores.softmax(dim=-1) @ values
    torch.testing.assert_close(attend(queries, keys, values, 11, 3), expected)
    # Both moved on by the same number of places: nothing changes.
    torch.testing.assert_close(attend(queries, keys, values, 16, 8), expected)


class Spy:
    """A right implementation that notes what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __call__(self, queries, keys, values, first_query, first_key) -> Tensor:
        self.calls.append((queries, keys, values, first_query, first_key))
        return right(*self.calls[-1])

    def always(self, rule: Callable[..., bool]) -> bool:
        return all(rule(*call) for call in self.calls)


def fails_where_it_should_pass(attempt: Attempt) -> str | None:
    implementations = (right, suspects.another_right_one)
    errors = [outcome(attempt, implementation) for implementation in implementations]
    if not any(isinstance(error, AssertionError) for error in errors):
        return None
    for broken, what in BROKEN.items():
        if outcome(attempt, broken) is None:
            return (
                f"Your test fails on a right implementation and passes on one that {what}: the "
                "mistake is in what you expect."
            )
    if None in errors:
        return (
            "Your test passes on one right implementation and fails on another, whose last digits "
            "differ. `torch.testing.assert_close` allows for that."
        )
    if outcome(attempt, suspects.all_in_halves) is None:
        return (
            "Your test expects column j to be paired with column j + D/2. Here a pair is two "
            "neighbours, as in 7.4: columns 2j and 2j + 1."
        )
    if outcome(attempt, suspects.turned_backwards) is None:
        return (
            "Your test expects a turn the other way. (1, 0) becomes (cos t, sin t), as in 7.4, for "
            "queries and keys."
        )
    return None


NO_CHOICE = (
    lambda q, k, v, i, j: k.shape[2] == 1,
    "You always give one key, and its weight is 1 whatever the scores. Give several.",
)
NO_SCORES = (
    lambda q, k, v, i, j: not (q.any() and k.any()),
    "All your scores are 0, wherever the tokens stand.",
)
# Of an implementation: rules for calls in which it gives what a right one gives, and why.
BLIND = {
    suspects.values_turned: [
        (
            lambda q, k, v, i, j: v.shape[-1] == 1,
            "Your values have one column, and a turn needs a pair. Give several.",
        ),
    ],
    suspects.queries_alone: [NO_CHOICE, NO_SCORES],
    suspects.opposite_ways: [NO_CHOICE, NO_SCORES],
    suspects.keys_in_halves: [
        NO_CHOICE,
        NO_SCORES,
        (
            lambda q, k, v, i, j: q.shape[-1] == 2,
            "With D = 2 there is a single pair, halves or neighbours. Give four columns or more.",
        ),
    ],
    suspects.always_from_0: [
        NO_CHOICE,
        NO_SCORES,
        (
            lambda q, k, v, i, j: i == j == 0,
            "Your queries and keys always begin at position 0. A decoder's newest query does not.",
        ),
        (
            lambda q, k, v, i, j: i == j,
            "Your queries and keys always begin at the same position, and the scores depend on "
            "the distance alone: it is as if they began at 0.",
        ),
    ],
    suspects.not_scaled: [NO_CHOICE, NO_SCORES],
}


def clue(broken: Callable, attempt: Attempt) -> str:
    """Why the student's test does not tell the broken implementation from a right one."""
    if outcome(attempt, suspects.nothing_like_it) is None:
        return (
            "It passes whatever comes back. Is there an `assert` that nothing catches, and does it "
            "compare with something other than the implementation itself?"
        )
    if outcome(attempt, suspects.zeros) is None:
        return (
            "It even passes where all outputs are 0: it looks at the shape alone, or at too "
            "little. Work out what should come back, and compare."
        )
    spy = Spy()
    attempt(spy)
    for rule, why in BLIND[broken]:
        if spy.always(rule):
            return why
    if spy.always(lambda *call: alike(broken(*call), right(*call))):
        return (
            "In all your calls it gives what a right one gives. Are your keys or your values all "
            "alike? Random numbers are not."
        )
    return (
        "In your calls its output differs from the right one, and your test does not notice. "
        "What holds for a right one may hold for a broken one, too. Work out the whole output in "
        "another way, and compare."
    )


write_the_test = Exercise(
    id="7.6",
    title="The test that knows where tokens stand",
    task=(
        "Write `test_rotary(attend)` for functions `attend(queries, keys, values, first_query, "
        "first_key)`: scaled dot-product attention with a rotary encoding as in 7.4. Queries and "
        "keys are (B, H, n, D), unturned, values (B, H, K, V); the first query and the first key "
        "stand at the positions given; nothing is masked. You may use `RotaryEncoding` or your "
        "`rotate` of 7.4. Pass on right ones, silently, and fail, by an `AssertionError`, on six "
        "others, which: turn the queries alone; turn the values, too; turn queries one way and "
        "keys the other; pair neighbours in queries but halves in keys; count both from 0; do not "
        "divide by the root of D."
    ),
    difficulty="hard",
    minutes=20,
    hints=[
        "Your `rotate` of 7.4 and three lines of attention give the output that should come back. "
        "Compare with `torch.testing.assert_close`.",
        "A right implementation does not notice when queries and keys both move on by 5. That "
        "catches some of the six. Which of them keep this property?",
        "Which mistakes hide where both begin at 0, where there is one key, where D = 2, or where "
        "the values have one column?",
    ],
    stub=test_rotary,
    solution=test_rotary_solution,
    explanation=(
        "The expected output is worked out in complex numbers, with other code than the pairs of "
        "7.4: a query times the conjugate of a key has the difference of their angles. Moving both "
        "on is the idea of the encoding, but no full test: who counts from 0, or forgets the root "
        "of D, passes it. Starts that differ and are not 0 make the rest visible."
    ),
    steps=[
        calls_it("attend", Spy),
        fails_where_it_should_pass,
        passes_on(right),
        passes_on(suspects.another_right_one),
        *(fails_on(broken, what, clue) for broken, what in BROKEN.items()),
    ],
    wrong=[
        Wrong(weak_tests.without_a_call, "without ever calling `attend`"),
        Wrong(weak_tests.shape_only, "it looks at the shape alone"),
        Wrong(weak_tests.not_nan, "It passes whatever comes back"),
        Wrong(weak_tests.compares_with_itself, "It passes whatever comes back"),
        Wrong(weak_tests.returns_instead_of_asserting, "A test speaks by failing"),
        Wrong(weak_tests.every_digit, "whose last digits differ"),
        Wrong(weak_tests.shift_alone, "counts both from 0. In your calls its output differs"),
        Wrong(weak_tests.shift_and_distance, "the root of D. In your calls its output differs"),
        Wrong(weak_tests.from_position_0, "always begin at position 0"),
        Wrong(weak_tests.same_start, "always begin at the same position"),
        Wrong(weak_tests.one_key, "You always give one key"),
        Wrong(weak_tests.single_pair, "With D = 2 there is a single pair"),
        Wrong(weak_tests.queries_of_zeros, "All your scores are 0"),
        Wrong(weak_tests.one_column_of_values, "Your values have one column"),
        Wrong(weak_tests.values_alike, "Are your keys or your values all alike?"),
        Wrong(weak_tests.expects_turned_values, "passes on one that turns the values"),
        Wrong(weak_tests.expects_no_scale, "the root of D: the mistake is"),
        Wrong(weak_tests.expects_halves, "expects column j to be paired"),
        Wrong(weak_tests.expects_backwards, "expects a turn the other way"),
        Wrong(weak_tests.expects_a_shift_to_matter, "turns the queries alone: the mistake is"),
        Wrong(weak_tests.raises_another_error, "let an `assert` say what is wrong"),
        Wrong(weak_tests.forgets_the_positions, "missing 2 required"),
    ],
)
