"""5.5: a decoder's loop with three bugs, the query one step late among them."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def run_decoder_solution(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        context = attend(state)  # the state before the step asks
        state = step(torch.cat((context, token), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


ASK = "        context = attend(state)  # the state before the step asks\n"
STEP = "        state = step("
KEEP = "        outputs.append(state)\n"

LATE = Mistake(
    {
        "    outputs = []\n": "    context = attend(state)\n    outputs = []\n",
        f"{ASK}{STEP}": "        new_state = step(",
        KEEP: f"        context = attend(state)\n        state = new_state\n{KEEP}",
    },
    "Step 2 gets the context that s_0 asked for: the query is one step late. Before step 2 the "
    "decoder's state is s_1.",
)
TOKEN_FIRST = Mistake(
    {"(context, token)": "(token, context)"},
    "The inputs of your steps are token first. The cell's weights are made for (context, token). "
    "Either way the two are equally long together, so no error tells.",
)
TIME_FIRST = Mistake(
    {"outputs, dim=1": "outputs"},
    "Your result is (T, B, H), time first. Where T = B no error tells, and sentences are mixed "
    "with steps. For (B, T, H) stack along axis 1.",
)


def ten_times(query):
    return 10 * query


def state_plus_first_minus_second(inputs, state):
    return state + inputs @ torch.tensor([[1.0], [-1]])


EMBEDDED, STATE = torch.tensor([[[2.0], [3], [5]]]), torch.tensor([[1.0]])
BY_HAND = (ten_times, state_plus_first_minus_second, EMBEDDED, STATE)


def random_case(seed, B, T):
    """Contexts of size 5, tokens of size 3, states of size 7."""
    W_c, W_x, W_s, embedded, state = normal(seed, (7, 5), (8, 7), (7, 7), (B, T, 3), (B, 7))

    def attend(query):
        return torch.tanh(query @ W_c / 3)

    def step(inputs, state):
        return torch.tanh(inputs @ W_x / 3 + state @ W_s / 3)

    return attend, step, embedded, state


BATCHES = [random_case(0, 2, 5), random_case(1, 3, 3), random_case(2, 5, 1)]
A_BATCH = "For one sentence your function is right, for a batch it is not."

repair_run_decoder = Exercise(
    **heading("5.5", "It runs, and translates badly", "medium", minutes=12),
    section="The decoder, line by line",
    stub=authoring.with_mistakes(
        run_decoder_solution, LATE, TOKEN_FIRST, TIME_FIRST, name="run_decoder"
    ),
    solution=run_decoder_solution,
    explanation="The query of step t is s_{t-1}, the newest state before the step. The loop asked "
    "before it had brought `state` up to date, so from step 2 on the decoder looked for the "
    "word before. `cat` had the token first, which fits in size but not in meaning. And "
    "`stack` put time first, which B = T hides. None of the three raises an error.",
    hints=[
        "Play computer with numbers: `attend = lambda query: 10 * query`, one sentence with the "
        "tokens 2, 3, 5, the state 1. Write down who asks before each step.",
        "In step 2 the query should be the state that came out of step 1. Follow `state` and "
        "`new_state` through the loop: what is `state` when `attend` is called at its end?",
        "The other two raise no error either. Compare the order in `cat` with that in the task, "
        "and the axes of `torch.stack(outputs)` with (B, T, H).",
    ],
    cases=[Case(BY_HAND), *(Case(each, A_BATCH) for each in BATCHES)],
    mistakes=[
        LATE,
        TOKEN_FIRST,
        TIME_FIRST,
        Mistake(
            {"    outputs = []\n": f"{ASK[4:]}    outputs = []\n", f"\n{ASK}": "\n"},
            "Every step gets the context that s_0 asked for: the decoder looks once. It has to "
            "look anew in each step, with its state of then.",
        ),
        Mistake(
            {STEP: "        new_state = step(", KEEP: KEEP.replace("state", "new_state")},
            "Every step begins at s_0. The state that came out of the step before is lost.",
        ),
        *instead_of(
            "torch.cat((context, token), dim=-1)",
            {
                "torch.cat((context, token))": "Your `cat` puts the token below the context. "
                "A row holds context and token side by side: the last axis."
            },
        ),
        Mistake(
            {ASK: f"{KEEP}{ASK}", f"state)\n{KEEP}": "state)\n"},
            "You return the state before each step. Step t makes s_t: return s_1 to s_T.",
        ),
        *instead_of(
            "torch.stack(outputs, dim=1)",
            {
                "outputs[-1]": "You return the last state only. Every step has a word to say: "
                "return all T.",
                "torch.stack(outputs).reshape(*embedded.shape[:2], -1)": "Your states were "
                "stacked as (T, B, H), and a `reshape` moves no number: it mixes sentences with "
                "steps. Stack along axis 1.",
            },
        ),
    ],
    shapes={None: "One state for each step of each sentence.", (1, 3, 1): "(B, T, H)"},
    errors={
        "multiplied": "A step's inputs are one row a sentence, context and token side by side."
    },
    steps=[
        authoring.gradients_flow("embedded", "state", why="Embedding and encoder could not learn.")
    ],
)
