"""Wrong answers to 10.5, as students give them."""

import torch


def merge_with(
    *,
    maximum=torch.maximum,
    factor=lambda part, m: (part[0] - m).masked_fill(part[0] == -torch.inf, -torch.inf).exp(),
    total=lambda s1, s2, f1, f2: s1 * f1 + s2 * f2,
    weights=lambda s1, s2, f1, f2: (s1 * f1, s2 * f2),
    whole=lambda s1, s2, w1, w2: w1 + w2,
    divide=True,
    column=True,
):
    """Right but for the parts that are given."""

    def merge(first, second):
        (m1, s1, o1), (m2, s2, o2) = first, second
        m = maximum(m1, m2)
        f1, f2 = factor(first, m), factor(second, m)
        s = total(s1, s2, f1, f2)
        w1, w2 = weights(s1, s2, f1, f2)
        below = whole(s1, s2, w1, w2) if divide else torch.ones_like(s)
        below = below.masked_fill(below == 0, 1.0)
        if column:
            w1, w2, below = w1[:, None], w2[:, None], below[:, None]
        return m, s, (o1 * w1 + o2 * w2) / below

    return merge


def bare(part, m):
    return (part[0] - m).exp()


def ones(s1, s2, f1, f2):
    return torch.ones_like(s1), torch.ones_like(s2)


right = merge_with()
mean_of_outputs = merge_with(weights=ones)
sum_of_outputs = merge_with(weights=ones, divide=False)
weights_by_totals_alone = merge_with(weights=lambda s1, s2, f1, f2: (s1, s2))
divided_by_added_totals = merge_with(whole=lambda s1, s2, w1, w2: s1 + s2)
weights_by_maxima_alone = merge_with(weights=lambda s1, s2, f1, f2: (f1, f2))
not_divided = merge_with(divide=False)
total_not_rescaled = merge_with(total=lambda s1, s2, f1, f2: s1 + s2)
factors_added = merge_with(total=lambda s1, s2, f1, f2: f1 + f2)
totals_alone_everywhere = merge_with(
    total=lambda s1, s2, f1, f2: s1 + s2, weights=lambda s1, s2, f1, f2: (s1, s2)
)
wrong_direction = merge_with(factor=lambda part, m: (m - part[0]).exp())
absolute_weights = merge_with(factor=lambda part, m: part[0].exp())
second_maximum = merge_with(maximum=lambda m1, m2: m2)
first_maximum = merge_with(maximum=lambda m1, m2: m1)
sum_of_maxima = merge_with(maximum=torch.add)
smaller_maximum = merge_with(maximum=torch.minimum)
one_maximum_for_all = merge_with(maximum=lambda m1, m2: torch.maximum(m1, m2).max().expand_as(m1))
output_without_an_axis = merge_with(column=False)


def log_of_the_sum(first, second):
    m, s, o = right(first, second)
    return m + s.log(), s, o


def nan_where_nothing_is_visible(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    m = torch.maximum(m1, m2)
    w1, w2 = s1 * (m1 - m).exp(), s2 * (m2 - m).exp()
    return m, w1 + w2, (w1[:, None] * o1 + w2[:, None] * o2) / (w1 + w2)[:, None]


def nothing_divided_by_nothing(first, second):
    (m1, s1, o1), (m2, s2, o2) = first, second
    m = torch.maximum(m1, m2)
    shift = m.masked_fill(m == -torch.inf, 0.0)
    w1, w2 = s1 * (m1 - shift).exp(), s2 * (m2 - shift).exp()
    return m, w1 + w2, (w1[:, None] * o1 + w2[:, None] * o2) / (w1 + w2)[:, None]


def through_large_exponentials(first, second):
    """Right on paper: every weight relative to 0, and the maximum taken off at the end."""
    (m1, s1, o1), (m2, s2, o2) = first, second
    m = torch.maximum(m1, m2)
    w1, w2 = s1 * m1.exp(), s2 * m2.exp()
    whole = w1 + w2
    output = (w1[:, None] * o1 + w2[:, None] * o2) / whole.masked_fill(whole == 0, 1.0)[:, None]
    return m, whole / m.masked_fill(m == -torch.inf, 0.0).exp(), output


def branches_on_a_tensor(first, second):
    """Branches on a whole tensor: only for one query is there one answer."""
    if first[0] > second[0]:
        first, second = second, first
    return right(first, second)


def one_branch_for_all(first, second):
    if (first[0] > second[0]).all():
        first, second = second, first
    (m1, s1, o1), (m2, s2, o2) = first, second
    factor = (m1 - m2).exp()
    whole = s1 * factor + s2
    return m2, whole, (o1 * (s1 * factor)[:, None] + o2 * s2[:, None]) / whole[:, None]


def output_alone(first, second):
    return right(first, second)[2]


def output_first(first, second):
    m, s, o = right(first, second)
    return o, m, s


def normalised_total(first, second):
    """A total of 1, because the output is a mean by now."""
    m, s, o = right(first, second)
    return m, torch.ones_like(s), o


def in_place(first, second):
    m, s, o = right(first, second)
    first[2].copy_(o)
    return m, s, first[2]


def without_return(first, second):
    right(first, second)
