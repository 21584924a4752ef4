"""11.5: one step of the gated delta rule."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, in_dtype, instead_of, normal


def delta_step(query, key, value, beta, decay, state):
    """One token: query, key (H, D), value (H, V), beta, decay (H,) -> output (H, V), new state.

    The state is (H, D, V). One head, key [[1, 0]], value [[7]], beta [0.5], decay [1], state
    [[[3], [4]]]: the new state is [[[5], [4]]]; the query [[1, 1]] gets [[9]].
    """
    ...


def delta_step_solution(query, key, value, beta, decay, state):
    faded = decay[:, None, None] * state  # (H, D, V)
    known = (key[:, :, None] * faded).sum(dim=1)  # (H, V): what the state answers to this key
    new = faded + key[:, :, None] * (beta[:, None] * (value - known))[:, None, :]
    return (query[:, :, None] * new).sum(dim=1), new


def random_case(seed, H, D, V):
    query, key, value, state = normal(seed, (H, D), (H, D), (H, V), (H, D, V))
    beta, decay = (X.sigmoid() for X in normal(seed + 1, (H,), (H,)))
    return query, key / key.norm(dim=-1, keepdim=True), value, beta, decay, state


def small(decay):
    """One head, D = V = 2: a state that is turned over fits, and can be named."""
    query, key = torch.tensor([[1.0, 1.0]]), torch.tensor([[0.6, 0.8]])
    value, state = torch.tensor([[7.0, 2.0]]), torch.tensor([[[3.0, 1.0], [4.0, -2.0]]])
    return query, key, value, torch.tensor([0.5]), torch.tensor([decay]), state


MANY = "For one head your step is right. For several, or other sizes, it is not."
OUTER = "key[:, :, None] * (beta[:, None] * (value - known))[:, None, :]"

write_delta_step = Exercise(
    **authoring.heading("11.5", "Erase, then write", "medium", minutes=12),
    section="The delta rule, token by token",
    hints=[
        "Four lines: fade the state, query it with the key, write the difference, answer.",
        "What the state answers to a key is a sum over D: its rows, weighted by the key.",
        "`key[:, :, None] * x[:, None, :]` is (H, D, V), for x (H, V). The query asks the *new* "
        "state.",
    ],
    stub=delta_step,
    solution=delta_step_solution,
    explanation="Fade first, so that the state is asked as it now is. Then write beta times the "
    "difference between the new value and what the state says: with beta = 1 and a key of "
    "length 1 the state answers exactly the value, with beta = 0 nothing is written. The query "
    "comes last, so a token sees itself.",
    cases=[
        Case(small(1.0)),
        Case(small(0.5), because="Without fading it was right, with a decay of 0.5 it is not."),
        Case(random_case(0, 3, 5, 4), because=MANY),
        Case(random_case(2, 2, 1, 6), because=MANY),
        Case(in_dtype(random_case(4, 2, 3, 3), torch.float64)),
    ],
    mistakes=[
        *instead_of(
            OUTER,
            {
                "key[:, :, None] * (beta[:, None] * value)[:, None, :]": "Nothing is erased: you "
                "add the value to what the state said before. That is linear attention.",
                "key[:, :, None] * (value - known)[:, None, :]": "beta is missing: it says how "
                "much of the difference is written.",
                "key[:, :, None] * (beta[:, None] * value - known)[:, None, :]": "beta acts on the "
                "value only. It acts on the whole difference, so that beta = 0 changes nothing.",
                "key[:, :, None] * (beta[:, None] * (known - value))[:, None, :]": "The difference "
                "has the wrong sign: the new value minus what is known.",
                "query[:, :, None] * (beta[:, None] * (value - known))[:, None, :]": "You write "
                "under the query. A value is written under its key.",
                "(value - known)[:, :, None] * (beta[:, None] * key)[:, None, :]": "The state is "
                "turned over: its rows belong to numbers of the key, its columns to the value.",
            },
        ),
        *instead_of(
            "(key[:, :, None] * faded)",
            {
                "(query[:, :, None] * faded)": "You erase what the state says of the query. It has "
                "to be asked for the *key*.",
                "(key[:, :, None] * state)": "You ask the state before it has faded: too much is "
                "erased.",
                "(key[:, None, :] * faded)": "You sum over the wrong axis: what the state says of "
                "a key is a sum of its *rows*.",
            },
        ),
        *instead_of(
            "(query[:, :, None] * new)",
            {
                "(query[:, :, None] * faded)": "The query asks before the value is written: a "
                "token would not see itself.",
                "(key[:, :, None] * new)": "The answer is for the key. It should be for the query.",
            },
        ),
        Mistake({"decay[:, None, None] * state": "state"}, "The state does not fade: decay."),
        Mistake({"dim=1), new": "dim=1), faded"}, "You return the state before the write."),
    ],
    shapes={None: "Return two results: the output (H, V) and the new state (H, D, V)."},
    errors={"must match the size": "The shapes do not line up: (H, D, 1) times (H, 1, V)."},
    steps=[authoring.gradients_flow("query", "key", "value", "beta", "decay", "state")],
)
