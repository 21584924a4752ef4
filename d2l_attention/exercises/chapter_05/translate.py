"""5.6: teacher forcing at test time."""

from typing import Any

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_05 import translate_mistakes as mistakes
from d2l_attention.exercises.chapter_05.toys import Reciter
from d2l_attention.exercises.compare import form_differs, returned
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show


def translate_greedily(decoder, state, reference, bos, eos, max_len):
    words = []
    for token in [bos, *reference]:
        logits, state = decoder(token, state)
        words.append(logits.argmax().item())
    return words


def translate_greedily_solution(decoder, state, reference, bos, eos, max_len):
    words, token = [], bos
    for _ in range(max_len):
        logits, state = decoder(token, state)
        token = logits.argmax().item()  # what it has just said is what it hears next
        if token == eos:
            break
        words.append(token)
    return words


BOS, EOS = 1, 2
OTHER_BOS, OTHER_EOS = 7, 0
# What the decoder says, the reference, bos, eos, max_len.
CASES = [
    ([5, 7, 6, EOS], [5, 3, 6], BOS, EOS, 9),
    ([5, 7, EOS], None, BOS, EOS, 9),
    ([5, 7, 6, 4, EOS], [5, 7], BOS, EOS, 9),
    ([5, 7, EOS], [5, 7, 6, 4], BOS, EOS, 9),
    ([EOS], [5], BOS, EOS, 9),
    ([5, 5, 4, 5, EOS], [5, 5, 4, 5], BOS, EOS, 9),
    ([5, 7, 6, 4, 3, 5], None, BOS, EOS, 4),
    ([5, 7, EOS], None, BOS, EOS, 2),
    ([5, 7, EOS], None, BOS, EOS, 1),
    ([4, 2, 1, OTHER_EOS], [4, 1], OTHER_BOS, OTHER_EOS, 6),
]


def each_sentence(attempt: Attempt) -> str | None:
    for said, reference, bos, eos, max_len in CASES:
        decoder = Reciter(bos, said)
        inputs = (decoder, 0, reference, bos, eos, max_len)
        try:
            result = attempt(*inputs)
        except Raised as failure:
            found = wrong_word(decoder, reference, eos)
            if not found:
                return f"{reason(failure, inputs)}{failure}"
        else:
            found = wrong_sentence(result, inputs)
        if found:
            return (
                f"{found} Smallest case that shows it: {attempt.case(inputs)}, with a decoder "
                f"that says {show(said)}."
            )
    return None


def wrong_sentence(result: Any, inputs: tuple) -> str | None:
    decoder, _, reference, bos, eos, _ = inputs
    right = translate_greedily_solution(Reciter(bos, decoder.sentence), *inputs[1:])
    if as_words(result) == right:
        return None
    return wrong_word(decoder, reference, eos) or wrong_result(result, right, inputs)


def as_words(result: Any) -> list[int] | None:
    """A list, a tuple or a tensor of whole numbers; None for anything else."""
    try:
        return [int(word) for word in result]
    except (TypeError, ValueError, RuntimeError):
        return None


def wrong_word(decoder: Reciter, reference: list[int] | None, eos: int) -> str | None:
    """The first step, up to <eos>, in which the decoder hears or remembers something wrong."""
    last = decoder.bos
    for step, heard in enumerate(decoder.heard):
        if decoder.states[step] != step:
            return (
                f"In step {step + 1} the decoder gets its old state {decoder.states[step]}, not "
                f"the new state {step}: it forgets what it has said. Each call returns the state "
                "for the next."
            )
        if heard != last:
            return wrongly_heard(step, heard, last, decoder.bos, reference)
        last = decoder.said[step]
        if last == eos:
            return None
    return None


def wrongly_heard(step: int, heard: int, last: int, bos: int, reference: list[int] | None) -> str:
    if step == 0:
        return f"The first token that the decoder hears is {heard}; it begins with `bos`, {bos}."
    so_far = f"In step {step + 1} the decoder hears {heard}, and it had said {last}."
    if reference and step <= len(reference) and heard == reference[step - 1]:
        return (
            f"{so_far} {heard} is a word of the reference: that is teacher forcing at test time. "
            "In use nobody has a reference, and a BLEU measured in this way is not that of your "
            "translations. The decoder has to go on from its own words."
        )
    if heard == bos:
        return f"{so_far} {bos} is `bos`, which starts a sentence and never comes again."
    return f"{so_far} Greedy means: say the word with the largest logit, and go on from it."


def reason(failure: Raised, inputs: tuple) -> str:
    """Why the student's code raised, where that is known; in front of the error itself."""
    decoder, _, reference, _, eos, max_len = inputs
    if Reciter.TOO_MUCH in str(failure.error):
        if eos in decoder.said:
            return f"The decoder has said <eos>, {eos}, and your loop goes on. "
        return (
            f"Your loop waits for <eos>. A decoder may never say it; `max_len` = {max_len} words "
            "are enough. "
        )
    if reference is None:
        return "In use there is no reference: here it is None, and your function needs it. "
    return ""


def wrong_result(result: Any, right: list[int], inputs: tuple) -> str:
    """Where the decoder was treated well: which words were kept, and how many?"""
    decoder, _, reference, bos, eos, max_len = inputs
    words = as_words(result)
    if words is None:
        if result is None:
            return form_differs(result, right)
        if isinstance(result, list):
            return f"Return a list of whole numbers, the words; its entry 0 is {show(result[0])}."
        return returned(result, "a list of numbers")
    if words[:1] == [bos] != right[:1]:
        return f"Your translation is {show(words)}. It begins with `bos`, which is no word."
    if words == [*right, eos]:
        return f"Your translation is {show(words)}. It ends with <eos>, {eos}, which is no word."
    if len(words) > max_len:
        return f"Your translation has {len(words)} words, and `max_len` is {max_len}."
    if len(words) > len(right) and eos in decoder.said:
        return (
            f"Your translation is {show(words)}. The decoder had said <eos>, {eos}, after "
            f"{len(right)} words: what it says behind it is chatter."
        )
    if len(words) < len(right) and words == right[: len(words)]:
        return too_short(words, right, inputs)
    return f"Your function gives {show(words)}; it should be {show(right)}."


def too_short(words: list[int], right: list[int], inputs: tuple) -> str:
    decoder, _, reference, _, eos, max_len = inputs
    if reference is not None and len(words) - len(reference) in (0, 1):
        return (
            f"Your translation is {show(words)}, and the decoder had more to say. You stop where "
            "the reference does: its length is a secret as well as its words."
        )
    if len(right) == max_len and len(words) == max_len - 1:
        return f"Your translation is {show(words)}: `max_len` = {max_len} allows one word more."
    stopped_at = decoder.said[len(words) : len(words) + 1]
    return (
        f"Your translation is {show(words)}. You stop where the decoder says {show(stopped_at)}, "
        f"and `eos` is {eos}."
    )


repair_translate = Exercise(
    id="5.6",
    title="99 BLEU, and nonsense in use",
    task=(
        "`translate_greedily(decoder, state, reference, bos, eos, max_len)` gives 99 BLEU on the "
        "validation set and nonsense in use, where `reference` is None. Repair it. "
        "`decoder(token, state)` returns the logits (N,) of the next word and the new state; the "
        "first token is `bos`. Return the most likely words as a list of numbers, without `bos` "
        "and `eos`, at most `max_len` of them. `reference` must change nothing."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "Which token does the decoder hear in each step, and who knows that token in use?",
        "What it has just said is what it hears next. The loop can no longer run over the "
        "reference: two other things end it.",
        "Loop `max_len` times; `token` begins as `bos` and becomes the argmax of the logits. "
        "Where it is `eos`, stop before you keep it.",
    ],
    stub=translate_greedily,
    solution=translate_greedily_solution,
    explanation=(
        "Teacher forcing belongs to training: there the right word is known, and all steps can "
        "be learned at once. At test time it hides every mistake, since the decoder is put back "
        "on its way after each word. Now it hears its own words, `eos` and `max_len` end the "
        "sentence, and nothing of the reference comes in, not even its length."
    ),
    steps=[each_sentence],
    wrong=[
        Wrong(mistakes.still_forced, "teacher forcing at test time"),
        Wrong(mistakes.forced_where_there_is_one, "teacher forcing at test time"),
        Wrong(mistakes.forced_where_it_errs, "teacher forcing at test time"),
        Wrong(mistakes.as_long_as_the_reference, "your function needs it"),
        Wrong(mistakes.not_longer_than_the_reference, "its length is a secret"),
        Wrong(mistakes.goes_on_after_eos, "is chatter"),
        Wrong(mistakes.waits_for_eos, "Your loop waits for <eos>"),
        Wrong(mistakes.never_ends, "and your loop goes on"),
        Wrong(mistakes.keeps_eos, "It ends with <eos>"),
        Wrong(mistakes.keeps_bos, "It begins with `bos`"),
        Wrong(mistakes.hears_bos_always, "never comes again"),
        Wrong(mistakes.state_lost, "it forgets what it has said"),
        Wrong(mistakes.begins_with_eos, "it begins with `bos`"),
        Wrong(mistakes.one_word_short, "allows one word more"),
        Wrong(mistakes.one_word_too_many, "`max_len` is 4"),
        Wrong(mistakes.samples, "Greedy means"),
        Wrong(mistakes.least_likely, "Greedy means"),
        Wrong(mistakes.eos_is_2, "where the decoder says [2]"),
        Wrong(mistakes.last_word_only, "it should be [5, 7, 6]"),
        Wrong(mistakes.logits_kept, "Return a list of whole numbers"),
        Wrong(mistakes.words_in_a_string, "returned a str"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
