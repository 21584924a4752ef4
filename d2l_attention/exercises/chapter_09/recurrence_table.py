"""Steps of linear attention put together from parts, for 9.5, and what to say about wrong ones."""

from collections.abc import Callable
from functools import cache as once
from itertools import combinations

from torch import Tensor

from d2l_attention.variants import elu_plus_one


def step_with(
    *,
    query: str = "mapped",
    key: str = "mapped",
    value: str = "plain",
    S: str = "summed",
    z: str = "summed",
    order: str = "state first",
    divide: str = "query times z",
    kept: str = "new",
    scaled: bool = False,
) -> Callable:
    """A step as 9.5 wants it, right but for the parts that are given."""
    parts = dict(query=query, key=key, value=value)

    def linear_step(query, key, value, state, f):
        ways = {"plain": lambda X: X, "mapped": f, "twice": lambda X: f(f(X)), "elu": elu_plus_one}
        size = query.shape[-1] ** 0.5 if scaled else 1
        q, v = ways[parts["query"]](query / size), ways[parts["value"]](value)
        k = ways[parts["key"]](key)
        new = {
            "summed": lambda: state[0] + outer(k, v),
            "new": lambda: outer(k, v),
            "turned": lambda: state[0] + outer(v, k),
            "plain": lambda: state[0] + outer(key, v),
            "entry by entry": lambda: state[0] + (k * v)[..., None, :],
        }[S]()
        sums = {
            "summed": lambda: state[1] + k,
            "new": lambda: k,
            "plain": lambda: state[1] + key,
        }[z]()
        asked, total = (new, sums) if order == "state first" else state
        weighted = (q[..., :, None] * asked).sum(dim=-2)
        output = divided(divide, weighted, q, k, total, asked)
        if kept == "mean":
            new = new / (q * sums).sum(dim=-1, keepdim=True)[..., None]
        return output, state if kept == "old" else (new, sums)

    return linear_step


def outer(left: Tensor, right: Tensor) -> Tensor:
    return left[..., :, None] * right[..., None, :]


def divided(how: str, weighted: Tensor, q: Tensor, k: Tensor, z: Tensor, S: Tensor) -> Tensor:
    if how == "not":
        return weighted
    if how == "softmax":
        return (q.softmax(dim=-1)[..., :, None] * S).sum(dim=-2)
    totals = {
        "query times z": q * z,
        "sum of z": z,
        "sum of the query": q,
        "new key": q * k,
    }
    return weighted / totals[how].sum(dim=-1, keepdim=True)


TABLE = [
    (
        {"order": "query first"},
        "The token asks before it is in the state, so it does not see itself; the first one finds "
        "zeros, and 0 / 0. First the state, then the question.",
    ),
    (
        {"divide": "not"},
        "Nothing is divided. f(q) times S is a weighted sum; f(q) times z is the sum of the "
        "weights, and a mean needs both.",
    ),
    (
        {"query": "plain", "key": "plain"},
        "f is missing on both, query and key. Weights are f(q) times f(k); without f they may be "
        "negative.",
    ),
    ({"query": "plain"}, "f is missing on the query. Weights are f(q) times f(k)."),
    ({"key": "plain"}, "f is missing on the key. Weights are f(q) times f(k)."),
    (
        {"query": "elu", "key": "elu"},
        "You take a feature map of your own, elu(x) + 1. Here it is the argument `f`.",
    ),
    (
        {"S": "new", "z": "new"},
        "Each token sees itself alone, and its output is its value. Either nothing is added to the "
        "S and z that came in, or the state that you return never changes.",
    ),
    ({"S": "new"}, "S holds the newest token alone. Add to the S that came in."),
    ({"z": "new"}, "z holds the newest key alone. Add to the z that came in."),
    (
        {"divide": "sum of z"},
        "You divide by the sum of z. The sum of the weights depends on who asks: f(q) times z.",
    ),
    (
        {"divide": "sum of the query"},
        "You divide by the sum of the features of the query alone. The sum of the weights is f(q) "
        "times z.",
    ),
    (
        {"divide": "new key"},
        "You divide by the weight of the newest key alone. The sum of all weights is f(q) times z.",
    ),
    (
        {"divide": "softmax"},
        "There is a softmax over the features of the query. Linear attention has none: f takes "
        "its place.",
    ),
    ({"value": "mapped"}, "f acts on the value. It is read as it is: f makes weights positive."),
    (
        {"S": "turned"},
        "S is turned round: its rows should be features of the key, its columns numbers of the "
        "value. (Only where D = V does no error tell.)",
    ),
    ({"S": "plain"}, "S sums the keys without f, z with it."),
    ({"z": "plain"}, "z sums the keys without f, S with it."),
    (
        {"S": "entry by entry"},
        "Key and value are multiplied one by one. In S every feature of the key meets every number "
        "of the value: (D, 1) times (1, V).",
    ),
    ({"key": "twice"}, "f acts twice on the key."),
    ({"query": "twice"}, "f acts twice on the query."),
    (
        {"scaled": True},
        "You divide the query by the root of D. That keeps a softmax moderate, and here is none.",
    ),
    (
        {"kept": "mean"},
        "S is divided before it is kept. The mean is this query's own, and the next query needs "
        "the sum: keep that.",
    ),
]


@once
def candidates() -> list[tuple[Callable, str]]:
    """Every mistake alone, then two that can be made together."""
    found = [(step_with(**parts), why) for parts, why in TABLE]
    for one, other in combinations(TABLE, 2):
        if one[0].keys().isdisjoint(other[0]):
            found.append((step_with(**one[0], **other[0]), f"{one[1]} And that is not all."))
    return found
