"""Wrong answers to 7.5, as students give them: bugs left, and good code mended."""

import torch
from torch import Tensor


def right_slopes(num_heads: int) -> Tensor:
    return 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)


def from_0(num_heads: int) -> Tensor:
    return 2.0 ** (-8 * torch.arange(num_heads) / num_heads)


def of_8_heads(num_heads: int) -> Tensor:
    return 2.0 ** -torch.arange(1.0, num_heads + 1)


def not_divided(num_heads: int) -> Tensor:
    return 2.0 ** (-8 * torch.arange(1, num_heads + 1))


def reversed_order(num_heads: int) -> Tensor:
    return right_slopes(num_heads).flip(0)


def growing(num_heads: int) -> Tensor:
    return 1 / right_slopes(num_heads)


def same_for_all(num_heads: int) -> Tensor:
    return torch.full((num_heads,), 2.0 ** (-8 / num_heads))


SLOPES = {
    from_0: (
        "Your heads are counted from 0, so the first has the slope 1: the formula counts them "
        "from 1."
    ),
    of_8_heads: "Those are the slopes of 8 heads. The exponent is -8h/H.",
    not_divided: "The exponent is -8h/H: divide by the number of heads.",
    reversed_order: "The right slopes, the other way round: the first head is the steep one.",
    growing: "Slopes above 1: the exponent has a minus.",
    same_for_all: "All heads have one slope. They differ: one looks near, another far.",
}


def alibi_with(
    *,
    slopes=right_slopes,
    first_query=lambda num_queries, num_keys: num_keys - num_queries,
    sign=-1,
    hidden=lambda queries, keys: keys > queries,
):
    """Right but for the parts that are given."""

    def mended_in_part(num_heads, num_queries, num_keys):
        first = first_query(num_queries, num_keys)
        queries, keys = torch.arange(first, first + num_queries)[:, None], torch.arange(num_keys)
        bias = sign * slopes(num_heads)[:, None, None] * (queries - keys)
        return bias.masked_fill(hidden(queries, keys), -torch.inf)

    return mended_in_part


right = alibi_with()


def distances(num_queries, num_keys):
    return torch.arange(num_keys - num_queries, num_keys)[:, None] - torch.arange(num_keys)


def offset_in_the_mask_alone(num_heads, num_queries, num_keys):
    distance = (torch.arange(num_queries)[:, None] - torch.arange(num_keys)).abs()
    bias = -right_slopes(num_heads)[:, None, None] * distance
    return bias.masked_fill(distances(num_queries, num_keys) < 0, -torch.inf)


def without_distance(num_heads, num_queries, num_keys):
    return (0 * right(num_heads, num_queries, num_keys)).nan_to_num(nan=-torch.inf)


def squared_distance(num_heads, num_queries, num_keys):
    distance = distances(num_queries, num_keys)
    bias = -right_slopes(num_heads)[:, None, None] * distance**2
    return bias.masked_fill(distance < 0, -torch.inf)


def a_billion(num_heads, num_queries, num_keys):
    return right(num_heads, num_queries, num_keys).clamp(min=-1e9)


def infinity_times_0(num_heads, num_queries, num_keys):
    distance = distances(num_queries, num_keys)
    bias = -right_slopes(num_heads)[:, None, None] * distance
    return bias + -torch.inf * (distance < 0)


def one_head_only(num_heads, num_queries, num_keys):
    return right(num_heads, num_queries, num_keys)[0]


def without_return(num_heads, num_queries, num_keys):
    right(num_heads, num_queries, num_keys)
