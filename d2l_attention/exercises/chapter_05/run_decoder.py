"""5.5: a decoder's loop with three bugs, the query one step late among them."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_05 import loop_mistakes as mistakes
from d2l_attention.exercises.chapter_05.loop_notes import Notes, add_up, ten_times
from d2l_attention.exercises.compare import form_differs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because
from d2l_attention.exercises.steps import agrees, explains, holds


def run_decoder(attend, step, embedded, state):
    context = attend(state)
    outputs = []
    for token in embedded.unbind(dim=1):
        new_state = step(torch.cat((token, context), dim=-1), state)
        context = attend(state)
        state = new_state
        outputs.append(state)
    return torch.stack(outputs)


def run_decoder_solution(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        context = attend(state)  # the state before the step asks
        state = step(torch.cat((context, token), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


EMBEDDED, STATE = torch.tensor([[[2.0], [3.0], [5.0]]]), torch.tensor([[1.0]])
BY_HAND = (ten_times, add_up, EMBEDDED, STATE)


def random_case(seed: int, B: int, T: int) -> tuple[Any, ...]:
    """Contexts of size 5, tokens of size 3, states of size 7."""
    generator = torch.Generator().manual_seed(seed)
    W_c, W_x, W_s, embedded, state = (
        torch.randn(shape, generator=generator)
        for shape in ((7, 5), (8, 7), (7, 7), (B, T, 3), (B, 7))
    )

    def attend(query: Tensor) -> Tensor:
        return torch.tanh(query @ W_c)

    def step(inputs: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(inputs @ W_x + state @ W_s)

    return attend, step, embedded, state


BATCHES = [random_case(0, 2, 5), random_case(1, 3, 3), random_case(2, 5, 1)]


ERRORS = {
    "must match the size": (
        "Two tensors do not line up. The inputs of a step are one row a sentence, (B, C + E), "
        "context and token side by side: `cat` along the last axis."
    )
}


def each_step(attempt: Attempt) -> str | None:
    """What went into each step, where the numbers are followed by hand."""
    notes = Notes(EMBEDDED, STATE)
    attempt(notes.attend, notes.step, EMBEDDED, STATE)
    found = notes.wrong_input() or notes.wrong_order()
    if not found:
        return None
    return (
        f"{found} Smallest case that shows it: {attempt.case(BY_HAND)}, where `ten_times(query)` "
        "is 10 times the query and `add_up(inputs, state)` the sum of all its numbers."
    )


def which_outputs(result: Any, *inputs: Any) -> str | None:
    """For the case by hand, once all steps are right."""
    right = run_decoder_solution(*inputs)
    if not isinstance(result, Tensor):
        return form_differs(result, right)
    numbers, wanted = result.flatten().tolist(), right.flatten().tolist()
    if numbers == [1.0, *wanted[:-1]]:
        return "You return the state before each step. Step t makes s_t: return s_1 to s_T."
    if numbers == [10.0, *(10 * state for state in wanted[:-1])]:
        return "You return the contexts. The states are asked for: logits are made of them."
    if numbers == wanted[-1:]:
        return "You return the last state alone. Every step has a word to say: return all T."
    if numbers != wanted or result.shape == right.shape:
        return None
    shape, axes = tuple(result.shape), "(B, T, H)"
    if shape == (3, 1, 1):
        return (
            f"The numbers are right. Their shape is {shape}, time first. Where T = B no "
            f"error tells, and sentences are mixed with steps. For {axes} stack along axis 1."
        )
    return f"The numbers are right, their shape is {shape}; it should be {axes} = (1, 3, 1)."


repair_run_decoder = Exercise(
    id="5.5",
    title="It runs, and translates badly",
    task=(
        "`run_decoder(attend, step, embedded, state)` has three bugs. Mend it. `attend(query)` "
        "gives the context (B, C) for a query (B, H); `step(inputs, state)` is the recurrent "
        "cell, whose inputs are context and token, (B, C + E) in this order; it gives the new "
        "state (B, H). Read the tokens of `embedded` (B, T, E) one after the other, from `state` "
        "on, and return all new states, (B, T, H)."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "Play computer with numbers: `attend = lambda query: 10 * query`, one sentence with the "
        "tokens 2, 3, 5, the state 1. Write down who asks before each step.",
        "In step 2 the query should be the state that came out of step 1. Follow `state` and "
        "`new_state` through the loop: what is `state` when `attend` is called at its end?",
        "The other two raise no error either. Compare the order in `cat` with that in the task, "
        "and the axes of `torch.stack(outputs)` with (B, T, H).",
    ],
    stub=run_decoder,
    solution=run_decoder_solution,
    explanation=(
        "The query of step t is s_{t-1}, the newest state before the step. The loop asked before "
        "it had brought `state` up to date, so from step 2 on the decoder looked for the word "
        "before. `cat` had the token first, which fits in size but not in meaning. And `stack` "
        "put time first, which B = T hides. None of the three raises an error."
    ),
    steps=[
        explains(ERRORS, [BY_HAND]),
        each_step,
        holds(which_outputs, [BY_HAND]),
        agrees(run_decoder_solution, [BY_HAND]),
        because(
            "For one sentence your function is right, for a batch it is not.",
            agrees(run_decoder_solution, BATCHES),
        ),
    ],
    wrong=[
        Wrong(mistakes.only_the_axis_mended, "the query is one step late"),
        Wrong(mistakes.only_the_order_mended, "the query is one step late"),
        Wrong(mistakes.still_late, "Step 2 gets the context that s_0 asked for"),
        Wrong(mistakes.still_token_first, "token first"),
        Wrong(mistakes.still_time_first, "time first"),
        Wrong(mistakes.one_look_for_all, "the decoder looks once"),
        Wrong(mistakes.query_never_moves_on, "the decoder looks once"),
        Wrong(mistakes.token_asks, "which is no state of the decoder"),
        Wrong(mistakes.state_lost, "is lost"),
        Wrong(mistakes.tries_the_step_first, "`step` is called 6 times for 3 tokens"),
        Wrong(mistakes.one_below_the_other, "context and token side by side"),
        Wrong(mistakes.without_context, "one context and one token"),
        Wrong(mistakes.one_token_late, "Step 1 reads token 3"),
        Wrong(mistakes.keeps_the_states_before, "the state before each step"),
        Wrong(mistakes.keeps_the_contexts, "You return the contexts"),
        Wrong(mistakes.last_state_only, "the last state alone"),
        Wrong(mistakes.joined_not_stacked, "their shape is (1, 3)"),
        Wrong(mistakes.one_sentence_only, "for a batch it is not"),
        Wrong(mistakes.time_first_by_reshape, "for a batch it is not"),
        Wrong(mistakes.outputs_as_a_list, "returned a list"),
        Wrong(mistakes.state_as_well, "returned a tuple"),
    ],
)
