"""Wrong answers to 9.3, as students give them, and what to say about most of them."""

import torch


def distances(n):
    return torch.arange(n)[:, None] - torch.arange(n)


def cut(visible, is_causal):
    return visible.tril() if is_causal else visible


def right(n, window, dilation, is_causal):
    distance = distances(n)
    visible = (distance.abs() <= window * dilation) & (distance % dilation == 0)
    return cut(visible, is_causal)


def both_sides_together(n, window, dilation, is_causal):
    return right(n, window // 2, dilation, is_causal)


def last_neighbour_missing(n, window, dilation, is_causal):
    distance = distances(n)
    visible = (distance.abs() < window * dilation) & (distance % dilation == 0)
    return cut(visible, is_causal)


def one_neighbour_more(n, window, dilation, is_causal):
    return right(n, window + 1, dilation, is_causal)


def not_itself(n, window, dilation, is_causal):
    return right(n, window, dilation, is_causal) & (distances(n) != 0)


def turned_over(n, window, dilation, is_causal):
    return ~right(n, window, dilation, is_causal)


def round_the_end(n, window, dilation, is_causal):
    distance = distances(n) % max(n, 1)
    distance = torch.minimum(distance, n - distance)
    return cut((distance <= window * dilation) & (distance % dilation == 0), is_causal)


def band_above_alone(n, window, dilation, is_causal):
    return right(n, window, dilation, False).triu()


def half_open(n, window, dilation, is_causal):
    distance = distances(n)
    reach = window * dilation
    visible = (-reach < distance) & (distance <= reach) & (distance % dilation == 0)
    return cut(visible, is_causal)


def negative_start(n, window, dilation, is_causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, i - window * dilation : i + window * dilation + 1 : dilation] = True
    return cut(mask, is_causal)


def always_causal(n, window, dilation, is_causal):
    return right(n, window, dilation, True)


def flag_turned_over(n, window, dilation, is_causal):
    return right(n, window, dilation, not is_causal)


def never_causal(n, window, dilation, is_causal):
    return right(n, window, dilation, False)


def causal_the_wrong_way(n, window, dilation, is_causal):
    return right(n, window, dilation, False).triu() if is_causal else right(n, window, dilation, 0)


def strictly_causal(n, window, dilation, is_causal):
    visible = right(n, window, dilation, False)
    return visible.tril(-1) if is_causal else visible


def causal_of_window_keys(n, window, dilation, is_causal):
    return right(n, window - is_causal, dilation, is_causal)


def causal_of_both_sides(n, window, dilation, is_causal):
    return right(n, window * (1 + is_causal), dilation, is_causal)


def dilation_ignored(n, window, dilation, is_causal):
    return right(n, window, 1, is_causal)


def reach_without_gaps(n, window, dilation, is_causal):
    return right(n, window * dilation, 1, is_causal)


def gaps_without_reach(n, window, dilation, is_causal):
    distance = distances(n)
    return cut((distance.abs() <= window) & (distance % dilation == 0), is_causal)


def gaps_from_the_beginning(n, window, dilation, is_causal):
    near = distances(n).abs() <= window * dilation
    return cut(near & (torch.arange(n) % dilation == 0), is_causal)


def queries_with_gaps(n, window, dilation, is_causal):
    near = distances(n).abs() <= window * dilation
    return cut(near & (torch.arange(n) % dilation == 0)[:, None], is_causal)


def sliced_from_the_edge(n, window, dilation, is_causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, max(0, i - window * dilation) : i + window * dilation + 1 : dilation] = True
    return cut(mask, is_causal)


def causal_loses_the_gaps(n, window, dilation, is_causal):
    return right(n, window * dilation, 1, True) if is_causal else right(n, window, dilation, False)


def no_window_is_everything(n, window, dilation, is_causal):
    return right(n, window or n, dilation, is_causal)


def past_the_end(n, window, dilation, is_causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for step in range(-window, window + 1):
            mask[i, i + step * dilation] = True
    return cut(mask, is_causal)


def as_numbers(n, window, dilation, is_causal):
    return right(n, window, dilation, is_causal).float()


def additive(n, window, dilation, is_causal):
    return torch.zeros(n, n).masked_fill(~right(n, window, dilation, is_causal), -torch.inf)


def as_lists(n, window, dilation, is_causal):
    return right(n, window, dilation, is_causal).tolist()


def with_a_batch(n, window, dilation, is_causal):
    return right(n, window, dilation, is_causal)[None]


def one_row(n, window, dilation, is_causal):
    return right(n, window, dilation, is_causal)[n // 2 : n // 2 + 1]


def without_return(n, window, dilation, is_causal):
    right(n, window, dilation, is_causal)


ONE_SIDE = "Your window has one side only. Without `is_causal` a token sees neighbours on both."
GAPS = (
    "Your gaps count from the beginning of the sequence, `... % dilation == 0` of a position. They "
    "count from the query: the distance is a multiple of `dilation`."
)
# For cases that are causal, where the same case without went well.
WITHOUT_FUTURE = [
    (
        causal_the_wrong_way,
        "With `is_causal` your mask hides the past and shows the future. Rows are queries: key <= "
        "query.",
    ),
    (
        strictly_causal,
        "With `is_causal` a token does not see its own key. It is no future: key <= query.",
    ),
    (
        causal_of_window_keys,
        "With `is_causal` one key is missing: `window` neighbours in front and the token itself "
        "are window + 1 keys.",
    ),
    (
        causal_of_both_sides,
        "With `is_causal` your window is twice as long. What it loses on one side does not grow "
        "on the other.",
    ),
    (never_causal, "`is_causal` is True, and your mask sees the future."),
]
# In this order: several may give one mask in a small case.
NAMED = [
    (
        both_sides_together,
        "Your window is half as long as it should be: `window` counts the neighbours on each side, "
        "not on both together. (The Longformer paper's w counts both.)",
    ),
    (
        last_neighbour_missing,
        "`<` where `<=` belongs: the last neighbour is missing, which stands `window * dilation` "
        "places away.",
    ),
    (
        one_neighbour_more,
        "There is one neighbour too many on each side: the last one stands `window * dilation` "
        "places away.",
    ),
    (half_open, "Your window is one shorter on one side. It has `window` neighbours on each."),
    (not_itself, "A token does not see itself. It does: its distance is 0, within every window."),
    (
        turned_over,
        "Your mask is turned over: what is near is hidden, what is far is visible. True = may "
        "attend.",
    ),
    (
        round_the_end,
        "Your window comes round: the first tokens see the last ones. A sequence has two ends. "
        "(`%` of a distance by n, or `roll`, does that.)",
    ),
    (
        negative_start,
        "A start below 0 counts from the end, so the first rows of your mask are empty, or see "
        "what is not theirs. Compare distances instead of slicing, or cut the slice off at 0.",
    ),
    (band_above_alone, ONE_SIDE),
    (
        always_causal,
        "Your window has one side only, as if `is_causal` were True. Without it a token sees "
        "neighbours on both.",
    ),
    (
        dilation_ignored,
        "The dilation has no effect: neighbours stand `dilation` places apart.",
    ),
    (
        reach_without_gaps,
        "Your window is as long as it should be and has no gaps: a token sees every `dilation`-th "
        "place of it alone.",
    ),
    (
        gaps_without_reach,
        "There are gaps, but your window reaches only as far as `window` places. There are "
        "`window` neighbours on each side, the last of them `window * dilation` places away.",
    ),
    (
        sliced_from_the_edge,
        "In the first rows a slice that is cut off at 0 begins at the wrong place: its steps of "
        "`dilation` then miss the query itself. Compare distances instead.",
    ),
    (gaps_from_the_beginning, GAPS),
    (queries_with_gaps, GAPS),
    (
        no_window_is_everything,
        "A window of 0 is a window: the token sees itself. (`window or n` and `if window:` take "
        "0 for no window.)",
    ),
]
