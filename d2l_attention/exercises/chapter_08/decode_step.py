"""8.5: one step of decoding with a cache, right for the first token only."""

import torch
from torch import Tensor

from d2l_attention.attention.positional import RotaryEncoding
from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal, show


def decode_step_solution(query, key, value, cache, rotate):
    position = cache[0].shape[2]  # as many tokens stand before this one
    query, key = (rotate(X, offset=position) for X in (query, key))
    pairs = zip(cache, (key, value), strict=True)
    keys, values = (torch.cat((old, new), dim=2) for old, new in pairs)
    weights = (query @ keys.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values, (keys, values)


POSITION = "    position = cache[0].shape[2]  # as many tokens stand before this one\n"
TURN = "query, key = (rotate(X, offset=position) for X in (query, key))"
JOINED, KEPT = "for old, new in pairs)", ", (keys, values)"

SAME_POSITION = Mistake(
    {POSITION: "", "offset=position": "offset=0"},
    "Every token is given the same position, or none, so the order of the words is lost. A "
    "token's position is the number of tokens before it, and the cache knows that number.",
)
ONLY_THE_NEWEST = Mistake(
    {KEPT: ", (key, value)"},
    "The cache that you return holds only the newest token: the next step forgets all that came "
    "before. Return what has been joined.",
)
VALUES_TURNED = Mistake(
    {"query, key =": "query, key, value =", "in (query, key)": "in (query, key, value)"},
    "You rotate the values, too. (At position 0 that changed nothing.) Positions belong into the "
    "scores: a value is read as it is, wherever it stands.",
)


def all_steps(decode_step, query, key, value, cache, rotate):
    """The outputs (B, H, T, D) of a sentence that is written step by step."""
    outputs = []
    for new in zip(*(X.split(1, dim=2) for X in (query, key, value)), strict=True):
        result = decode_step(*new, cache, rotate)
        if not isinstance(result, tuple | list) or len(result) != 2:
            return result
        output, cache = result
        if not isinstance(output, Tensor) or output.shape != new[2].shape:
            return output
        outputs.append(output)
    return torch.cat(outputs, dim=2)


def shapes(result, query, *_):
    if result is None or (isinstance(result, Tensor) and result.shape == query.shape):
        return None
    return (
        "Return two results: the output, of the query's shape (B, H, 1, D), and the cache for the "
        "next step."
    )


def sentence(query, key, value):
    """With an empty cache; the names are those of the step's arguments."""
    positions = RotaryEncoding(query.shape[-1])
    return query, key, value, [key[:, :, :0], value[:, :, :0]], positions.transform


SHORT = sentence(
    torch.tensor([[[[1.0, 0], [1, 1], [2, 1]]]]),
    torch.tensor([[[[1.0, 1], [0, 2], [1, -1]]]]),
    torch.tensor([[[[2.0, 4], [6, 8], [1, 0]]]]),
)
SIZES = [(2, 3, 5, 4), (3, 1, 4, 6), (1, 2, 1, 2), (2, 2, 2, 4), (2, 5, 9, 4)]
LONGER = [sentence(*normal(seed, *[size] * 3)) for seed, size in enumerate(SIZES)]
IN_TURN = "`query = {}, key = {}, value = {}`, one token (axis 2) after another"
MANY = "For one sentence and one head your step is right. For others it is not."


def first_token(result, query, key, value, *_):
    if authoring.alike(result[:, :, 0], value[:, :, 0]):
        return None
    return "The first token sees only itself: its output has to be its value, as it is."


def cache_as_it_was(attempt):
    return attempt.changed and (
        "Your step changes the cache that it was given. A beam search goes on from one cache in "
        f"several ways: make a new one, as `torch.cat` does. {attempt.changed}"
    )


APART = "query, key = rotate(query, offset={}), rotate(key, offset={})"
BOTH = "Both belong to the same token: give both its position."

repair_decode_step = Exercise(
    **authoring.heading("8.5", "Right for one token", "medium", minutes=15),
    section="One step with the cache",
    stub=authoring.with_mistakes(
        decode_step_solution, SAME_POSITION, ONLY_THE_NEWEST, VALUES_TURNED, name="decode_step"
    ),
    solution=decode_step_solution,
    explanation="The cache's length is the new token's position. Old keys keep the turn that they "
    "were given, each at its own place, so the cache grows by one row and nothing in it is "
    "touched. Values are not turned: what is read says nothing of where it stood. For the first "
    "token all three bugs are invisible: position 0 turns nothing, and there is nothing to forget.",
    hints=[
        "Write down the shapes of `keys` in steps 1, 2 and 3, and the position that each token is "
        "given. What is special about the first step?",
        "How does a step know at which position its token stands? And what must the next step "
        "find in its cache?",
        "At position 0 `rotate` changes nothing. Look again at what it is applied to, once "
        "positions count: who asks where something stands, and who is only read?",
    ],
    cases=[
        Case(SHORT, shown=IN_TURN.format(*map(show, SHORT[:3]))),
        *(Case(each, because=MANY) for each in LONGER),
        Case(sentence(*authoring.in_dtype(LONGER[0][:3], torch.float64))),
    ],
    mistakes=[
        SAME_POSITION,
        ONLY_THE_NEWEST,
        VALUES_TURNED,
        *instead_of(
            KEPT,
            {
                ", cache": "Each token sees only itself. Either the cache that you return never "
                "grows, or the old keys are left out of the scores."
            },
        ),
        Mistake(
            {"keys.mT": "keys[:, :, :-1].mT", "weights @ values": "weights @ values[:, :, :-1]"},
            "The new token sees the old ones, and does not see itself.",
        ),
        *instead_of(
            TURN,
            {
                APART.format("0", "position"): "The query is at position 0 in every step, or not "
                f"rotated, and the key where it stands. {BOTH}",
                APART.format("position", "0"): "The key is at position 0 in every step, or not "
                f"rotated, and the query where it stands. {BOTH}",
            },
        ),
        Mistake(
            {
                TURN: "query = rotate(query, offset=position)",
                JOINED: f"{JOINED}\n    keys = rotate(keys, offset=0)",
            },
            "Each step rotates the old keys again, and they turn further and further. A key is "
            "turned once, when its token is new: rotate first, then join.",
        ),
        Mistake(
            {" / query.shape[-1] ** 0.5": ""},
            "The division by the root of D is missing; it was no bug.",
        ),
    ],
    shapes=shapes,
    rules=[first_token],
    run=all_steps,
    steps=[cache_as_it_was],
)
