"""8.6: the test that catches a leak. Its suspects are in ``suspects.py``."""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_08 import suspects, weak_tests
from d2l_attention.exercises.chapter_08.suspects import LEAKS, Decoder
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.helpers import alike, calls_it, outcome
from d2l_attention.exercises.steps import fails_on, passes_on


def test_no_leak(decoder): ...


def test_no_leak_solution(decoder):
    tokens = torch.randint(10, (3, 7), generator=torch.Generator().manual_seed(0))
    for training in (True, False):
        decoder.train(training)
        together = decoder(tokens)
        for sentence in range(3):
            for t in range(1, 8):
                # No other sentence, and no future: there is none yet.
                alone = decoder(tokens[sentence : sentence + 1, :t])
                torch.testing.assert_close(alone[0], together[sentence, :t])


class Spy(Decoder):
    """A right decoder that notes what it read, and in which mode."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Tensor, bool]] = []

    def forward(self, tokens: Tensor) -> Tensor:
        self.calls.append((tokens.clone(), self.training))
        return super().forward(tokens)


def fails_where_it_should_pass(attempt: Attempt) -> str | None:
    failures = [outcome(attempt, make()) for make in (suspects.right, suspects.OtherLastDigits)]
    if any(isinstance(error, AssertionError) for error in failures):
        if outcome(attempt, suspects.EveryDigit()) is None:
            return (
                "Your test wants every digit to agree: it fails on a right decoder that rounds "
                "differently where sentences are longer. `torch.testing.assert_close` allows for "
                "that."
            )
        return (
            "Your test fails on a right decoder. A token may see itself and what stands before "
            "it: logits at place t may change where one of the tokens up to t does."
        )
    if failures == [None, None] and outcome(attempt, suspects.without_positions()) is not None:
        return (
            "Your test fails on another right decoder, without positions. Look at what comes out "
            "of a decoder, not at how it is made."
        )
    return None


def clue(leak: Callable, attempt: Attempt) -> str:
    """Why the student's test does not see this leak."""
    if outcome(attempt, suspects.Dice()) is None:
        return (
            "It even passes where logits are drawn by lot. Is there an `assert` that nothing "
            "catches, and does it compare the logits of two calls closely?"
        )
    spy = Spy()
    attempt(spy)
    shapes = [tokens.shape for tokens, _ in spy.calls]
    if len({tuple(tokens.flatten().tolist()) for tokens, _ in spy.calls}) == 1:
        return (
            "Your test always gives the same tokens. Let two calls differ in the future, and in "
            "nothing else. (After `b = a` both are one tensor: change a `clone()`.)"
        )
    if leak is suspects.in_eval_only and all(training for _, training in spy.calls):
        return (
            "Your test never calls `decoder.eval()`, and a new module is in training mode: check "
            "both modes, `decoder.train(training)` for True and False."
        )
    if leak is suspects.norm_over_sentences and not any(training for _, training in spy.calls):
        return (
            "Your test looks at evaluation mode alone: check both modes, `decoder.train(training)` "
            "for True and False."
        )
    if leak is suspects.norm_over_sentences and len({batch for batch, _ in shapes}) == 1:
        return (
            "All your batches have as many sentences. May a sentence's logits depend on its "
            "neighbours in the batch? Give it alone as well."
        )
    if leak is suspects.positions_from_the_end and len({length for _, length in shapes}) == 1:
        return (
            "All your sentences are equally long, and there its positions stay the same. While "
            "decoding, the end is not known yet: give a beginning alone, `tokens[:, :t]`."
        )
    if leak is suspects.far_ahead and max(length for _, length in shapes) <= 3:
        return "Your sentences have at most three tokens: none stands that far ahead."
    if alike_everywhere(leak, spy):
        return "In all your calls it gives what a right one gives: vary the tokens more."
    return (
        "In your calls its logits differ from the right ones, and your test does not notice. "
        "Compare all logits up to the place from which on the future differs, that last one "
        "included, and compare closely."
    )


def alike_everywhere(leak: Callable, spy: Spy) -> bool:
    decoder, right_one = leak(), suspects.right()
    for tokens, training in spy.calls:
        decoder.train(training)
        if not alike(decoder(tokens), right_one(tokens)):
            return False
    return True


def catches(leak: Callable, what: str) -> Step:
    def step(attempt: Attempt) -> str | None:
        error = outcome(attempt, leak())  # a fresh one, in training mode as every new module
        if isinstance(error, AssertionError):
            return None
        if error is not None:
            return fails_on(leak(), what)(attempt)
        return f"Your test passes on a decoder that {what}. {clue(leak, attempt)}"

    return step


write_the_test = Exercise(
    id="8.6",
    title="The test that catches a leak",
    task=(
        "Write `test_no_leak(decoder)` for modules that take tokens (B, T), numbers 0 to 9, T up "
        "to 16, and give logits (B, T, 10); they have no dropout. It must pass on right ones, in "
        "which the logits at place t depend on that sentence's tokens up to t and on nothing else, "
        "in training and in evaluation mode. It must fail, by an `AssertionError`, on each of "
        "seven broken ones, of which the chapter's `sees_the_future` would catch five: no causal "
        "mask; a mask off by one; a mask that hides the next two tokens alone; a mask while "
        "training only; a layer norm over the tokens; a norm over all sentences of the batch while "
        "training; positions that are counted from the end."
    ),
    difficulty="hard",
    minutes=25,
    hints=[
        "Two calls that agree up to place t, and differ behind it, have to give the same logits up "
        "to t. What may differ behind it? All that a right decoder must not know.",
        "Which of the seven hide where all calls have one length? Which, where all batches have "
        "one size? Which, if nobody calls `decoder.eval()`?",
        "What does a decoder know for certain about the future if there is none? Compare a "
        "beginning given alone, `tokens[b : b + 1, :t]`, with its place in the whole batch.",
    ],
    stub=test_no_leak,
    solution=test_no_leak_solution,
    explanation=(
        "While decoding, a beginning stands alone: no future, no final length, no neighbours. "
        "If it gives the same logits there as in a training batch, in both modes, nothing leaks, "
        "by whatever way. Changing the future in place is a good test, too, but it keeps length "
        "and batch, and two of the seven hide there."
    ),
    steps=[
        calls_it("decoder", Spy),
        fails_where_it_should_pass,
        passes_on(suspects.right()),
        *(catches(leak, what) for leak, what in LEAKS.items()),
    ],
    wrong=[
        Wrong(weak_tests.never_calls, "without ever calling `decoder`"),
        Wrong(weak_tests.shape_only, "drawn by lot"),
        Wrong(weak_tests.same_twice, "the same tokens"),
        Wrong(weak_tests.changes_nothing, "change a `clone()`"),
        Wrong(weak_tests.swallows_the_failure, "drawn by lot"),
        Wrong(weak_tests.returns_true_or_false, "A test speaks by failing"),
        Wrong(weak_tests.raises_another_error, "let an `assert` say what is wrong"),
        Wrong(weak_tests.in_training_only, "never calls `decoder.eval()`"),
        Wrong(weak_tests.one_length, "a beginning alone"),
        Wrong(weak_tests.whole_batches, "Give it alone as well"),
        Wrong(weak_tests.one_sentence, "Give it alone as well"),
        Wrong(weak_tests.three_tokens, "at most three tokens"),
        Wrong(weak_tests.last_place_left_out, "sees one token too far"),
        Wrong(weak_tests.next_token_alone, "hides the next two tokens"),
        Wrong(weak_tests.compares_its_own_place, "A token may see itself"),
        Wrong(weak_tests.changes_the_past, "A token may see itself"),
        Wrong(weak_tests.far_too_tolerant, "drawn by lot"),
        Wrong(weak_tests.looks_at_the_best_word, "compare closely"),
        Wrong(weak_tests.every_digit, "every digit to agree"),
        Wrong(weak_tests.always_fails, "fails on a right decoder"),
        Wrong(weak_tests.looks_inside, "not at how it is made"),
        Wrong(weak_tests.unknown_words, "index 10 is out of bounds"),
        Wrong(weak_tests.in_eval_alone, "evaluation mode alone"),
    ],
    # The first `assert_close` of a process imports sympy, which takes a slow machine seconds.
    seconds=20.0,
)
