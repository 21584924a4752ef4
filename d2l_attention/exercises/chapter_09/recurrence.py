"""9.5: causal linear attention as a recurrent network: one step, one state."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal, show
from d2l_attention.variants import elu_plus_one


def linear_step(query, key, value, state, f):
    """One token: query, key (B, H, D), value (B, H, V) -> output (B, H, V), next state (S, z).

    A first token with f(q) = [[[1, 2]]], f(k) = [[[3, 1]]] and the value [[[5, 7]]] gives the
    output [[[5, 7]]] and S = [[[[15, 21], [5, 7]]]], z = [[[3, 1]]].
    """
    ...


def linear_step_solution(query, key, value, state, f):
    query, key = f(query), f(key)
    S, z = state
    S = S + key[..., :, None] * value[..., None, :]  # (B, H, D, V)
    z = z + key  # (B, H, D): what the weights sum to, once the query comes
    total = (query * z).sum(dim=-1, keepdim=True)
    return (query[..., None, :] @ S)[..., 0, :] / total, (S, z)


MAPPED, OUTER = "f(query), f(key)", "key[..., :, None] * value[..., None, :]"
ONLY_ITSELF = (
    "Each token sees only itself. Either nothing is added to the S and z that came in, or the "
    "state that you return never changes."
)


def is_pair(result):
    return isinstance(result, tuple | list) and len(result) == 2


def all_steps(linear_step, query, key, value, state, f):
    """The output of each token of a sentence, and the last state's S and z."""
    outputs = []
    for t in range(query.shape[2]):
        result = linear_step(query[:, :, t], key[:, :, t], value[:, :, t], state, f)
        if not is_pair(result) or not is_pair(result[1]):
            return result
        output, state = result
        outputs.append(output)
    return *outputs, *state


def shapes(result, query, *_):
    if is_pair(result):
        return "The second result is the state for the next step, a pair (S, z)."
    if result is None or (isinstance(result, tuple) and len(result) == query.shape[2] + 2):
        return None  # of each token, then S and z
    return "Return two results: the output, and the pair (S, z) for the next step."


def first_wrong_token(result, *inputs):
    right = all_steps(linear_step_solution, *inputs)
    t = [authoring.alike(*both) for both in zip(result, right, strict=True)].index(False)
    if t >= len(right) - 2:
        return "The outputs are right, but not the state that you return."
    why = "Work out S and z of this step by hand: which keys and values are in them?"
    if t == 0 and not inputs[3][1].any():
        why = "The first token sees only itself: its output has to be its value, as it is."
    return f"Token {t} goes wrong: {show(result[t])} should be {show(right[t])}. {why}"


def one_plus_square(X):
    return 1 + X * X


def sentence(queries, keys, values, f):
    """With an empty state; the names are those of the step's arguments."""
    B, H, _, D = keys.shape
    state = keys.new_zeros(B, H, D, values.shape[-1]), keys.new_zeros(B, H, D)
    return queries, keys, values, state, f


def at_random(B, H, T, D, V, f):
    return sentence(*normal(B + H, (B, H, T, D), (B, H, T, D), (B, H, T, V)), f)


# D = V: a state that is turned round fits, and can be named.
QUERIES, KEYS = [[1.0, 0], [2, 1], [0, 3]], [[1, 1], [0, 2], [2, -1]]
SHORT = torch.tensor([[[QUERIES]], [[KEYS]], [[[[2, 4], [6, 8], [-2, 0]]]]])
SIZES = [(2, 3, 5, 4, 7), (3, 1, 4, 6, 1), (1, 2, 1, 1, 3), (2, 2, 6, 2, 2), (1, 6, 3, 3, 5)]
LONGER = [
    at_random(*sizes, f) for sizes, f in zip(SIZES, [elu_plus_one, torch.exp] * 3, strict=False)
]
STATE = tuple(X.exp() for X in normal(10, (2, 3, 4, 7), (2, 3, 4)))
GOES_ON = (*LONGER[0][:3], STATE, elu_plus_one)
MANY = "For one sentence and one head your step is right. For others it is not."

write_linear_step = Exercise(
    **authoring.heading("9.5", "Attention with a fixed memory", "medium", minutes=12),
    section="Linear attention as a recurrent network",
    hints=[
        "What should come out for the first token, which sees only itself? And what comes out, if "
        "the output is worked out before the token is in the state?",
        "The output is a weighted mean: f(q) times S has the weighted sum, f(q) times z the sum of "
        "the weights. Both sums run over D.",
        "`key[..., :, None] * value[..., None, :]` is (B, H, D, V). `query[..., None, :] @ S` is "
        "(B, H, 1, V).",
    ],
    stub=linear_step,
    solution=linear_step_solution,
    explanation="f(q) stands in front of a sum of keys and values that does not wait for any "
    "query. First the token goes into the state, then it asks, so that it sees itself. S and z "
    "are as large after a million tokens as after one, where a cache holds a million rows. The "
    "price: what no longer fits into the D V numbers of S is mixed up.",
    run=all_steps,
    cases=[
        Case(sentence(*SHORT, one_plus_square)),
        *(Case(inputs, MANY) for inputs in LONGER),
        Case(GOES_ON, "From zeros your step is right. From a state in the middle it is not."),
        Case(sentence(*SHORT.double(), one_plus_square)),
    ],
    mistakes=[
        Mistake(
            {"query * z": "query * state[1]", "@ S": "@ state[0]"},
            "The token asks before it is in the state, so it does not see itself; the first one "
            "finds zeros, and 0 / 0. First the state, then the question.",
        ),
        *instead_of(
            MAPPED,
            {
                "query, key": "f is missing on both, query and key. Weights are f(q) times f(k); "
                "without f they may be negative.",
                "query, f(key)": "f is missing on the query. Weights are f(q) times f(k).",
                "f(query), key": "f is missing on the key. Weights are f(q) times f(k).",
                "elu_plus_one(query), elu_plus_one(key)": "You take a feature map of your own, "
                "elu(x) + 1. Here it is the argument `f`.",
                "f(query), f(f(key))": "f acts twice on the key.",
                "f(query / query.shape[-1] ** 0.5), f(key)": "You divide the query by the root of "
                "D. That keeps a softmax moderate, and there is none here.",
            },
        ),
        Mistake({f"S + {OUTER}": OUTER, "z + key": "key"}, ONLY_ITSELF),
        Mistake(
            {f"S + {OUTER}": OUTER}, "S holds only the newest token. Add to the S that came in."
        ),
        Mistake({"z + key": "key"}, "z holds only the newest key. Add to the z that came in."),
        *instead_of(
            "query * z",
            {
                "z": "You divide by the sum of z. The sum of the weights depends on who asks: f(q) "
                "times z.",
                "query": "You divide by the sum of the features of the query. The sum of the "
                "weights is f(q) times z.",
                "query * key": "You divide by the weight of the newest key. The sum of all weights "
                "is f(q) times z.",
            },
        ),
        Mistake(
            {" / total": ""},
            "Nothing is divided. f(q) times S is a weighted sum; f(q) times z is the sum of the "
            "weights, and a mean needs both.",
        ),
        Mistake(
            {"query[..., None": "query.softmax(dim=-1)[..., None", " / total": ""},
            "There is a softmax over the features of the query. Linear attention has none.",
        ),
        *instead_of(
            OUTER,
            {
                "key[..., :, None] * f(value)[..., None, :]": "f acts on the value. It is read as "
                "it is: f makes weights positive.",
                "value[..., :, None] * key[..., None, :]": "S is transposed: its rows should be "
                "features of the key, its columns numbers of the value. (Where D = V no error "
                "tells.)",
                "(key * value)[..., None, :]": "Key and value are multiplied one by one. In S "
                "every feature of the key meets every number of the value: (D, 1) times (1, V).",
            },
        ),
        Mistake({MAPPED: "f(query), key", "z + key": "z + f(key)"}, "S sums the keys without f."),
        Mistake({MAPPED: "f(query), key", "key[": "f(key)["}, "z sums the keys without f."),
        *instead_of(
            "(S, z)",
            {
                "state": ONLY_ITSELF,
                "(z, S)": "S and z have changed places in the state that you return.",
                "(S / total[..., None], z)": "S is divided before it is kept. The mean is this "
                "query's own, and the next query needs the sum: keep that.",
            },
        ),
    ],
    shapes=shapes,
    rules=[first_wrong_token],
    steps=[authoring.gradients_flow("query", "key", "value")],
)
