"""11.2: a mask as a rule: the latest tokens, and the first ones."""

import torch
from torch import Tensor

from d2l_attention.exercises.authoring import Case, Exercise, heading, instead_of


def near_or_first(query, key, window, num_first):
    """True where a query may see a key: positions, tensors of shapes that broadcast -> bool.

    A query at position 5 with a window of 2 and 1 first token sees the keys 0, 4 and 5.
    """
    ...


def near_or_first_solution(query, key, window, num_first):
    near = query - key < window
    return (key <= query) & (near | (key < num_first))


def as_mask(rule, n, window, num_first):
    """The mask (n, n) that the rule makes of the positions 0 to n - 1."""
    positions = torch.arange(n)
    return rule(positions[:, None], positions, window, num_first)


def shapes(mask, *_):
    if isinstance(mask, Tensor) and mask.dtype != torch.bool:
        return f"Your rule gives {mask.dtype}. A comparison gives bool, True = may see."
    return {None: "Compare the tensors `query` and `key`: one entry for each pair."}


CASES = [(8, 3, 0), (8, 2, 1), (8, 3, 2), (4, 9, 0), (5, 1, 5), (1, 1, 1), (40, 7, 4)]

write_rule = Exercise(
    **heading("11.2", "The latest and the first", "easy", minutes=8),
    section="The same model with a window",
    hints=[
        "Three comparisons: the key is not later than the query; it is near; it is one of the "
        "first.",
        "Put comparisons of tensors together with `&` (and) and `|` (or), each in brackets.",
        "The first condition holds for all keys. The key is near *or* one of the first.",
    ],
    stub=near_or_first,
    solution=near_or_first_solution,
    explanation="The rule sees one query and one key, so it works for any shapes that broadcast. A "
    "cache of `window + num_first` tokens is enough for it. With one first token it is the "
    "cache of *Attention sinks: weights must sum to one*.",
    run=as_mask,
    cases=[Case(inputs) for inputs in CASES],
    mistakes=[
        *instead_of(
            "query - key < window",
            {
                "query - key <= window": "There is one key too many: `window` counts the query's "
                "own token.",
                "query - key < window - 1": "There is one key too few: `window` keys, the query's "
                "own token included.",
                "key - query < window": "Your window looks ahead: the distance is the query's "
                "position minus the key's.",
            },
        ),
        *instead_of(
            "(key <= query) & ",
            {
                "": "Your rule sees the future: a key must not be later than the query.",
                "(key < query) & ": "A token does not see itself. It does: key <= query.",
                "(key >= query) & ": "Your rule hides the past and shows the future.",
            },
        ),
        *instead_of(
            "& (near | (key < num_first))",
            {
                "& near | (key < num_first)": "Without brackets `&` binds before `|`: the first "
                "keys are then seen by queries before them.",
                "& near & (key < num_first)": "You ask for near *and* first. One of the two is "
                "enough: `|`.",
                "& near": "The first tokens are missing once they are far away.",
                "& (near | (key <= num_first))": "There is one first token too many: positions "
                "count from 0, so the first `num_first` are those below it.",
                "& (near | (query < num_first))": "The first *keys* are visible to all. You let "
                "the first queries see more.",
            },
        ),
    ],
    shapes=shapes,
    errors={
        "ambiguous": "`and`, `or` and `if` want one truth, and here is one for each pair. Use `&` "
        "and `|`, each comparison in brackets."
    },
)
