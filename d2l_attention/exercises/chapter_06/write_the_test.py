"""6.6: a test that catches broken heads. Its suspects are in ``suspects.py``."""

import re
from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_06 import suspects, weak_tests
from d2l_attention.exercises.chapter_06.parts import right
from d2l_attention.exercises.chapter_06.suspects import BROKEN
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import alike, outcome
from d2l_attention.exercises.steps import fails_on, passes_on


def test_multi_head(multi_head): ...


def test_multi_head_solution(multi_head):
    generator = torch.Generator().manual_seed(0)
    # B = H, where a mask may land on the heads; all other sizes differ.
    B, H, Q, K, D = 2, 2, 3, 5, 14
    shapes = (B, Q, 7), (B, K, 11), (B, K, 13), (7, D), (11, D), (13, D), (D, D)
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    *inputs, W_o = tensors[:3] + [W / W.shape[0] ** 0.5 for W in tensors[3:]]
    valid_lens = torch.tensor([2, 5])
    heads = []
    for head in range(H):
        own = slice(head * D // H, (head + 1) * D // H)
        q, k, v = (X @ W[:, own] for X, W in zip(inputs[:3], inputs[3:], strict=True))
        scores = q @ k.transpose(1, 2) / (D / H) ** 0.5
        hidden = torch.arange(K) >= valid_lens[:, None, None]
        heads.append(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v)
    expected = torch.cat(heads, dim=-1) @ W_o
    torch.testing.assert_close(multi_head(*inputs, W_o, H, valid_lens), expected)


class Spy:
    """A right implementation that notes what it was called with."""

    def __init__(self) -> None:
        self.calls: list[dict] = []
        self.__name__ = "another_right_one"

    def __call__(
        self, queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens=None
    ) -> Tensor:
        call = {name: value for name, value in locals().items() if name != "self"}
        self.calls.append(call)
        return right(**call)

    def always(self, rule: Callable[[dict], bool]) -> bool:
        return all(map(rule, self.calls))


def calls_the_implementation(attempt: Attempt) -> str | None:
    spy = Spy()
    try:
        returned = attempt(spy)
    except Raised:
        if outcome(attempt, right) is None:
            return (
                "Your test passes on one right implementation and fails on another. Look at what "
                "an implementation returns, not at which one it is."
            )
        return None  # the next steps tell
    if isinstance(returned, bool):
        return (
            f"Your test returned {returned}, and nobody looks at that. A test speaks by failing: "
            "`assert` what must hold, and return nothing."
        )
    if spy.calls:
        return None
    return (
        "Your test passes without ever calling `multi_head`, so it would accept anything. Call it "
        "with inputs of your choice and look at what comes back."
    )


def fails_where_it_should_pass(attempt: Attempt) -> str | None:
    error = outcome(attempt, right)
    if error is None and isinstance(outcome(attempt, suspects.other_last_digits), AssertionError):
        return (
            "Your test wants every digit to agree: it fails on a right implementation that sums in "
            "another order, so that the last digits differ. `torch.testing.assert_close` allows "
            "for that."
        )
    if not isinstance(error, AssertionError):
        return None
    for broken, what in BROKEN.items():
        if outcome(attempt, broken) is None:
            return (
                f"Your test fails on the right implementation and passes on one that {what}: the "
                "mistake is in what you expect."
            )
    found = re.search(r"Greatest absolute difference: (\S+)", str(error))
    if found and float(found[1]) < 1e-2:
        return (
            f"Your test fails on a right implementation by no more than {found[1]}: rounding. "
            "Large scores saturate the softmax, and every digit shows. Divide each matrix by the "
            "root of its number of rows, or compute in float64."
        )
    return None


def same_lengths(call: dict) -> bool:
    lens = call["valid_lens"]
    return lens is None or bool((lens == lens[0]).all())


# Of an implementation: a rule for calls in which it gives what a right one gives, and why.
BLIND = {
    suspects.cut_by_view: [
        (
            lambda call: call["queries"].shape[1] == call["keys"].shape[1] == 1,
            "You always give one token, and with a single one `view` is right. Give several.",
        ),
    ],
    suspects.merged_by_reshape: [
        (
            lambda call: call["queries"].shape[1] == 1,
            "You always give one query, so no token can be mixed up with another. Give several.",
        ),
    ],
    suspects.scaled_by_all: [
        (
            lambda call: call["keys"].shape[1] == 1,
            "You always give one key, and its weight is 1 whatever the scores. Give several.",
        ),
        (
            lambda call: not (call["queries"].any() and call["keys"].any()),
            "All your scores are 0, and 0 divided by anything is 0.",
        ),
    ],
    suspects.mask_on_heads: [
        (
            lambda call: len(call["queries"]) != call["num_heads"],
            "You never give as many sentences as heads, and elsewhere this one is right.",
        ),
        (
            lambda call: same_lengths(call) or len(call["queries"]) != call["num_heads"],
            "Your sentences have the same length, so it does not matter whose mask a head gets.",
        ),
    ],
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
    if spy.always(lambda call: call["num_heads"] == 1):
        return "You always give one head, and there is nothing to cut or merge. Give several."
    for rule, why in BLIND.get(broken, []):
        if spy.always(rule):
            return why
    if spy.always(lambda call: alike(broken(**call), right(**call))):
        return (
            "In all your calls it gives what a right one gives. Are your tokens, or your matrices' "
            "columns, all alike? Random numbers are not."
        )
    return (
        "In your calls its output differs from the right one, and your test does not notice. "
        "Work out the whole output in another way, one head at a time, and compare."
    )


write_the_test = Exercise(
    id="6.6",
    title="The test that catches broken heads",
    task=(
        "Write `test_multi_head(multi_head)` for functions that are called as in 6.4: "
        "`multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens)`. It must "
        "pass on right ones and fail, by an `AssertionError`, on each of six others: heads cut by "
        "`view` alone; heads merged by `reshape` alone; heads summed instead of concatenated; the "
        "first head's columns of W_q, W_k and W_v used for all heads; scores divided by the root "
        "of D instead of D / H; the mask of sentence h laid on head h where B = H."
    ),
    difficulty="hard",
    minutes=20,
    hints=[
        "A loop over the heads is slow and easy to get right. `W.chunk(H, dim=-1)` cuts "
        "W_q, W_k and W_v into the columns of each head; `torch.cat` puts outputs end to end.",
        "Compare with `torch.testing.assert_close`. Random numbers, each matrix divided by the "
        "root of its number of rows, and sizes that differ: which mistakes hide where Q = 1, H = 1 "
        "or all lengths are equal?",
        "One mistake shows only where two sizes are equal. Which two, and what must differ there?",
    ],
    stub=test_multi_head,
    solution=test_multi_head_solution,
    explanation=(
        "The loop cuts nothing but columns, so it cannot mix up axes, and it has no axis for a "
        "mask to land on. All sizes differ but B = H, with unequal lengths: different sizes turn "
        "most mix-ups into errors, and this one needs equal sizes to be silent."
    ),
    steps=[
        calls_the_implementation,
        fails_where_it_should_pass,
        passes_on(right),
        *(fails_on(broken, what, clue) for broken, what in BROKEN.items()),
    ],
    wrong=[
        Wrong(weak_tests.without_a_call, "without ever calling `multi_head`"),
        Wrong(weak_tests.shape_only, "it looks at the shape alone"),
        Wrong(weak_tests.not_nan, "It passes whatever comes back"),
        Wrong(weak_tests.compares_with_itself, "It passes whatever comes back"),
        Wrong(weak_tests.prints, "It passes whatever comes back"),
        Wrong(weak_tests.returns_instead_of_asserting, "A test speaks by failing"),
        Wrong(weak_tests.every_digit, "wants every digit to agree"),
        Wrong(weak_tests.large_numbers, "rounding. Large scores"),
        Wrong(weak_tests.expects_the_root_of_d, "the root of D instead of D / H: the mistake is"),
        Wrong(weak_tests.expects_a_sum, "sums the heads instead of concatenating them: the mist"),
        Wrong(weak_tests.one_head, "You always give one head"),
        Wrong(weak_tests.one_token, "`view` is right"),
        Wrong(weak_tests.one_query, "You always give one query"),
        Wrong(weak_tests.scores_of_zero, "All your scores are 0"),
        Wrong(weak_tests.columns_alike, "your matrices' columns, all alike"),
        Wrong(weak_tests.without_lengths, "Your sentences have the same length"),
        Wrong(weak_tests.three_sentences_two_heads, "You never give as many sentences as heads"),
        Wrong(weak_tests.order_of_keys, "does not notice"),
        Wrong(weak_tests.each_query_alone, "sums the heads instead of concatenating them. In your"),
        Wrong(weak_tests.always_fails, "fails on a right implementation"),
        Wrong(weak_tests.raises_another_error, "let an `assert` say what is wrong"),
        Wrong(weak_tests.asks_for_the_name, "not at which one it is"),
        Wrong(weak_tests.forgets_an_argument, "num_heads must be an int, got Tensor"),
    ],
)
