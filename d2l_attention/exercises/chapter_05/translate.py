"""5.6: teacher forcing at test time."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, as_numbers, instead_of, show


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


LOST, CHATTER, MOST = 8, 9, 30


def translated(translate, decoder_says, reference, bos, eos, max_len):
    """With a decoder that says its sentence as long as it hears its own last word.

    After `bos` it begins, after another word it says ``LOST``, after its sentence ``CHATTER``.
    Its state is the number of steps.
    """
    script = [bos, *decoder_says, *[CHATTER] * MOST]

    def decoder(token, state):
        if state == MOST:
            raise RuntimeError("the decoder was asked for 30 words and more")
        word = script[state + 1] if int(token) == script[state] else LOST
        word = script[1] if int(token) == bos else word
        logits = torch.full((12,), -2.0)
        # The second best is near, and all are below 0: only the largest counts.
        logits[word], logits[(word + 3) % 12] = -0.5, -1.0
        return logits, state + 1

    return translate(decoder, 0, reference, bos, eos, max_len)


def not_the_words(result, *inputs):
    words = as_numbers(result)
    if not isinstance(result, list | tuple):
        return None
    if words is None or words.ndim != 1:
        return f"Return a list of whole numbers, the words; its entry 0 is {show(result[0])}."
    right = translated(translate_greedily_solution, *inputs)
    return f"Your translation is {show(result)}; it should be {show(right)}."


FORCED = (
    "The decoder hears a word of the reference, not the one that it had said: teacher forcing at "
    "test time. In use nobody has a reference. The decoder has to go on from its own words."
)
GREEDY = "Greedy means: say the word with the largest logit, and go on from it."
LENGTH = "You stop where the reference does: its length is a secret as well as its words."
REFERENCE = "[bos, *reference][:max_len]"
GOES_ON = {"30 words": "The decoder has said <eos>, and your loop goes on."}
NEVER = {"30 words": "Your loop waits for <eos>. It may never come; `max_len` words are enough."}

repair_translate = Exercise(
    **authoring.heading("5.6", "99 BLEU, and an error in use", "medium", minutes=12),
    section="Greedy decoding",
    stub=translate_greedily,
    solution=translate_greedily_solution,
    explanation="Teacher forcing belongs to training: there the right word is known, and all steps "
    "can be learned at once. At test time it hides every mistake, since the decoder is put "
    "back on its path after each word. Now it hears its own words, `eos` and `max_len` end the "
    "sentence, and nothing of the reference comes in, not even its length.",
    hints=[
        "Which token does the decoder hear in each step, and who knows that token in use?",
        "What it has just said is what it hears next. The loop can no longer run over the "
        "reference: two other things end it.",
        "Loop `max_len` times; `token` begins as `bos` and becomes the argmax of the logits. "
        "Where it is `eos`, stop before you keep it.",
    ],
    cases=[
        Case(([5, 7, 6, 2], [5, 3, 6], 1, 2, 9), errors=GOES_ON),
        Case(([5, 7, 2], None, 1, 2, 9)),
        Case(([5, 7, 6, 4, 2], [5, 7], 1, 2, 9), "Here the reference is shorter."),
        Case(([5, 7, 2], [5, 7, 6, 4], 1, 2, 9), "Here the reference is longer."),
        Case(([2], [5], 1, 2, 9), "Here the decoder has nothing to say."),
        Case(([5, 5, 4, 5, 2], [5, 5, 4, 5], 1, 2, 9), "Here the decoder repeats words."),
        Case(([5, 7, 6, 4, 3, 5], None, 1, 2, 4), errors=NEVER),
        Case(([5, 7, 2], None, 1, 2, 2)),
        Case(([4, 2, 1, 0], [4, 1], 7, 0, 6), "Here `bos` is 7 and `eos` is 0."),
    ],
    mistakes=[
        *instead_of(
            "_ in range(max_len)",
            {
                f"token in {REFERENCE}": FORCED,
                "_ in range(len(reference or [0] * max_len))": LENGTH,
                "_ in range(max_len + 1)": "You give a word too many: `max_len` is 4 here.",
            },
        ),
        Mistake(
            {"            break\n": "            continue\n"},
            "The decoder had said <eos>, and you go on: what it says behind it is chatter.",
        ),
        Mistake(
            {
                "        if": "        words.append(token)\n        if",
                "break\n        words.append(token)": "break",
            },
            "Your translation has a word too many. It ends with <eos>, which is no word.",
        ),
        *instead_of(
            "words, token = [], bos",
            {"words, token = [bos], bos": "It begins with `bos`, which is no word."},
        ),
        *instead_of(
            "logits, state = decoder(token, state)",
            {
                "logits, state = decoder(bos, state)": "The decoder hears `bos` in every step, "
                "which starts a sentence and never comes again.",
                "logits, _ = decoder(token, state)": "The decoder gets its old state in every "
                "step: it forgets what it has said. Each call returns the state for the next.",
            },
        ),
        *instead_of(
            "logits.argmax().item()",
            {"torch.multinomial(logits.softmax(dim=0), 1).item()": f"You sample. {GREEDY}"},
        ),
    ],
    shapes=not_the_words,
    errors={
        "NoneType": "In use there is no reference: here it is None, and your function needs it.",
        "30 words": "Your loop goes on without end: <eos> and `max_len` end a sentence.",
    },
    rules=[not_the_words],
    run=translated,
)
