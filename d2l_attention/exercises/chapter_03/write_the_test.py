"""3.6: a test that catches four wrong scores."""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention import dot_score, scaled_dot_score
from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_03 import weak_tests
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.steps import fails_on, passes_on


def test_score(implementation): ...


def test_score_solution(implementation):
    generator = torch.Generator().manual_seed(0)
    # Three queries, five keys, seven numbers each: whatever is mixed up shows.
    queries = torch.randn(2, 3, 7, generator=generator)
    keys = torch.randn(2, 5, 7, generator=generator)
    expected = queries @ keys.transpose(-2, -1) / 7**0.5
    torch.testing.assert_close(implementation(queries, keys), expected)


def undivided(queries: Tensor, keys: Tensor) -> Tensor:
    return dot_score(queries, keys)


def divided_by_d(queries: Tensor, keys: Tensor) -> Tensor:
    return dot_score(queries, keys) / keys.shape[-1]


def divided_by_the_root_of_k(queries: Tensor, keys: Tensor) -> Tensor:
    return dot_score(queries, keys) / keys.shape[-2] ** 0.5


def divided_by_the_root_of_q(queries: Tensor, keys: Tensor) -> Tensor:
    return dot_score(queries, keys) / queries.shape[-2] ** 0.5


def transposed(queries: Tensor, keys: Tensor) -> Tensor:
    return scaled_dot_score(keys, queries)


def rounded_otherwise(queries: Tensor, keys: Tensor) -> Tensor:
    """Right as well, but for the last digits."""
    return dot_score(queries, keys) / keys.shape[-1] ** 0.5


def zeros(queries: Tensor, keys: Tensor) -> Tensor:
    return torch.zeros_like(dot_score(queries, keys))


def nothing_like_it(queries: Tensor, keys: Tensor) -> Tensor:
    return torch.zeros(1)


def far_too_large(queries: Tensor, keys: Tensor) -> Tensor:
    return 1000 * dot_score(queries, keys)


BROKEN = {
    undivided: "does not divide at all",
    divided_by_d: "divides by D instead of its root",
    divided_by_the_root_of_k: "divides by the root of the number of keys",
    transposed: "returns scores of shape (*, K, Q)",
}


class Spy:
    """A right implementation that notes what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Tensor, Tensor]] = []
        self.__name__ = "another_right_one"

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        self.calls.append((queries, keys))
        return scaled_dot_score(queries, keys)

    def always(self, rule: Callable[[Tensor, Tensor], bool]) -> bool:
        return all(rule(queries, keys) for queries, keys in self.calls)


def accepts(attempt: Attempt, implementation: Callable) -> bool:
    try:
        attempt(implementation)
    except Raised:
        return False
    return True


def fails(attempt: Attempt, implementation: Callable) -> bool:
    """By an ``assert``, not by another error."""
    try:
        attempt(implementation)
    except Raised as failure:
        return isinstance(failure.error, AssertionError)
    return False


def calls_the_implementation(attempt: Attempt) -> str | None:
    spy = Spy()
    try:
        returned = attempt(spy)
    except Raised:
        if accepts(attempt, scaled_dot_score):
            return (
                "Your test passes on the package's function and fails on another that gives the "
                "same scores. Look at what an implementation returns, not at which one it is."
            )
        if spy.always(lambda _, keys: isinstance(keys, Tensor) and keys.is_floating_point()):
            return None  # the next steps tell
        return (
            "Your test calls the implementation with whole numbers; scores are computed with "
            "decimals. Write 1.0 for 1, or `torch.randn`."
        )
    if isinstance(returned, bool):
        return (
            f"Your test returned {returned}, and nobody looks at that. A test speaks by failing: "
            "`assert` what must hold, and return nothing."
        )
    if spy.calls:
        return None
    return (
        "Your test passes without ever calling `implementation`, so it would accept anything. "
        "Call it with queries and keys of your choice and look at what comes back."
    )


def expects_what_a_wrong_one_gives(attempt: Attempt) -> str | None:
    if not fails(attempt, scaled_dot_score):
        return None
    if accepts(attempt, rounded_otherwise):
        return (
            "Your test wants every digit to agree: it fails on the package's function, which "
            "divides the queries before the product, and passes where the scores are divided "
            "after it. Both are right; the last digits differ. `torch.testing.assert_close` "
            "allows for that."
        )
    by_queries = {divided_by_the_root_of_q: "divides by the root of the number of queries"}
    for broken, what in (BROKEN | by_queries).items():
        if accepts(attempt, broken):
            return (
                f"Your test fails on the right implementation and passes on one that {what}: "
                "the mistake is in what you expect."
            )
    return None


def blind_spot(broken: Callable, spy: Spy) -> str | None:
    """Why no look at the scores that ``spy`` gave could have told the broken one from it."""
    if spy.always(lambda queries, keys: not scaled_dot_score(queries, keys).any()):
        return "All your scores are 0, and 0 divided by anything is 0. Use other numbers."
    if broken is transposed and spy.always(lambda queries, keys: queries.shape == keys.shape):
        return (
            "You always give as many queries as keys, so (Q, K) and (K, Q) are one shape. Use "
            "different sizes, and different tensors."
        )
    if broken is divided_by_the_root_of_k and spy.always(
        lambda queries, keys: keys.shape[-2] == keys.shape[-1]
    ):
        return "You always give as many keys as a key has numbers: K = D. Use different sizes."
    if broken in (undivided, divided_by_d) and spy.always(lambda _, keys: keys.shape[-1] == 1):
        return "Your vectors hold one number each, and 1, its root and no division are the same."
    return None


def catches(broken: Callable, what: str) -> Step:
    plain = fails_on(broken, what)

    def step(attempt: Attempt) -> str | None:
        if not accepts(attempt, broken):
            return plain(attempt)
        spy = Spy()
        attempt(spy)
        passes = f"Your test passes on an implementation that {what}."
        if why := blind_spot(broken, spy):
            return f"{passes} {why}"
        if accepts(attempt, nothing_like_it):
            return (
                f"{passes} It passes whatever comes back. Is there an `assert` that nothing "
                "catches, and does it compare with something other than the implementation itself?"
            )
        if accepts(attempt, zeros):
            seen = "the shape alone" if accepts(attempt, far_too_large) else "too little"
            return (
                f"{passes} It even passes where all scores are 0: it looks at {seen}. Work out "
                "what the scores should be, and compare."
            )
        return plain(attempt)

    return step


write_the_test = Exercise(
    id="3.6",
    title="The test that catches four wrong scores",
    task=(
        "Write `test_score(implementation)` for functions that are called like "
        "`scaled_dot_score(queries, keys)`. It must pass on the package's function and fail, by an "
        "`AssertionError`, on each of four broken ones: no division; division by D; division by "
        "the root of the number of keys; scores of shape (*, K, Q)."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "Make queries and keys, work out the expected scores yourself, and compare: "
        "`torch.testing.assert_close(implementation(queries, keys), expected)`.",
        "A mistake hides where two sizes are equal. Which ones must differ for each of the four?",
    ],
    stub=test_score,
    solution=test_score_solution,
    explanation=(
        "It takes expected scores worked out in another way, a comparison that forgives "
        "rounding, and sizes that all differ, such as 3 queries, 5 keys and 7 numbers. Two equal "
        "sizes may hide one of the four. `assert_close` compares the shapes as well."
    ),
    steps=[
        calls_the_implementation,
        expects_what_a_wrong_one_gives,
        passes_on(scaled_dot_score),
        *(catches(broken, what) for broken, what in BROKEN.items()),
    ],
    wrong=[
        Wrong(weak_tests.without_a_call, "without ever calling `implementation`"),
        Wrong(weak_tests.shape_only, "it looks at the shape alone"),
        Wrong(weak_tests.returns_instead_of_asserting, "A test speaks by failing"),
        Wrong(weak_tests.every_digit, "wants every digit to agree"),
        Wrong(
            weak_tests.forgets_to_divide,
            "on one that does not divide at all: the mistake is in what",
        ),
        Wrong(weak_tests.expects_d, "the mistake is in what you expect"),
        Wrong(weak_tests.one_size_for_all, "K = D"),
        Wrong(weak_tests.one_tensor_for_both, "are one shape"),
        Wrong(weak_tests.as_many_keys_as_numbers, "K = D"),
        Wrong(weak_tests.vectors_of_one_number, "hold one number each"),
        Wrong(weak_tests.zeros_only, "All your scores are 0"),
        Wrong(weak_tests.variance_not_too_large, "it looks at too little"),
        Wrong(weak_tests.compares_with_itself, "It passes whatever comes back"),
        Wrong(weak_tests.prints, "It passes whatever comes back"),
        Wrong(weak_tests.asks_for_the_name, "not at which one it is"),
        Wrong(
            weak_tests.expects_the_root_of_q,
            "the root of the number of queries: the mistake is in what",
        ),
        Wrong(weak_tests.subtracts, "breaks off with"),
        Wrong(weak_tests.whole_numbers, "with whole numbers"),
    ],
)
