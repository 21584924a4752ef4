"""Answers to chapter 9 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from d2l_attention import causal_mask, sliding_window_mask
from d2l_attention.variants import linear_attention_step, partition_windows
from d2l_attention.variants.swin import window_mask as swin_mask

# 9.3 --------------------------------------------------------------------------------------


def link_by_link(n, window, dilation, is_causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for step in range(-window, 1 if is_causal else window + 1):
            if 0 <= i + step * dilation < n:
                mask[i, i + step * dilation] = True
    return mask


def mask_in_numpy(n, window, dilation, is_causal):
    steps, rest = np.divmod(np.subtract.outer(np.arange(n), np.arange(n)), dilation)
    return torch.from_numpy((rest == 0) & (steps <= window) & (steps >= -window * (not is_causal)))


def mask_by_the_package(n, window, dilation, is_causal):
    mask = sliding_window_mask(n, window=window, dilation=dilation)
    return mask & causal_mask(n) if is_causal else mask


def stacked_rows(n, window, dilation, is_causal):
    wanted = {step * dilation for step in range(-window, (0 if is_causal else window) + 1)}
    return torch.stack([torch.tensor([k - q in wanted for k in range(n)]) for q in range(n)])


def as_slices(n, window, dilation, is_causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        end = i + 1 if is_causal else i + window * dilation + 1
        mask[i, i - window * dilation : end : dilation] = True
    return mask


def past_the_end(n, window, dilation, is_causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, [i + step * dilation for step in range(window + 1)]] = True
    return mask


def numpy_array(n, window, dilation, is_causal):
    return mask_in_numpy(n, window, dilation, is_causal).numpy()


def ones_and_zeros(n, window, dilation, is_causal):
    return link_by_link(n, window, dilation, is_causal).int()


def up_to_fifty(n, window, dilation, is_causal):
    if n <= 50:
        return link_by_link(n, window, dilation, is_causal)
    return torch.ones(n, n, dtype=torch.bool)


def whole_future(n, window, dilation, is_causal):
    mask = link_by_link(n, window, dilation, True)
    return mask if is_causal else mask | ~causal_mask(n)


# 9.4 --------------------------------------------------------------------------------------


def groups_by_einsum(queries, keys, values):
    queries = queries.unflatten(1, (keys.shape[1], -1))
    scores = torch.einsum("bgsqd,bgkd->bgsqk", queries, keys) / math.sqrt(keys.shape[-1])
    return torch.einsum("bgsqk,bgkv->bgsqv", scores.softmax(dim=-1), values).flatten(1, 2)


def groups_in_a_loop(queries, keys, values):
    H, G = queries.shape[1], keys.shape[1]
    heads = []
    for h in range(H):
        k, v = keys[:, h * G // H], values[:, h * G // H]
        scores = queries[:, h].double() @ k.double().transpose(1, 2) / k.shape[-1] ** 0.5
        heads.append(scores.softmax(-1) @ v.double())
    return torch.stack(heads, dim=1).to(queries.dtype)


def groups_by_pytorch(queries, keys, values):
    group = torch.arange(queries.shape[1]) // (queries.shape[1] // keys.shape[1])
    return F.scaled_dot_product_attention(queries, keys[:, group], values[:, group])


def attend(queries, keys, values, group):
    return F.scaled_dot_product_attention(queries, keys[:, group], values[:, group])


def by_the_remainder(queries, keys, values):
    return attend(queries, keys, values, torch.arange(queries.shape[1]) % keys.shape[1])


def halves(queries, keys, values):
    H, G = queries.shape[1], keys.shape[1]
    return attend(queries, keys, values, (torch.arange(H) >= H // 2).long() * (G - 1))


def keys_of_the_remainder(queries, keys, values):
    group = torch.arange(queries.shape[1])
    right, wrong = group // (queries.shape[1] // keys.shape[1]), group % keys.shape[1]
    return F.scaled_dot_product_attention(queries, keys[:, wrong], values[:, right])


def two_copies(queries, keys, values):
    keys, values = (torch.stack((X, X), dim=2).flatten(1, 2) for X in (keys, values))
    return F.scaled_dot_product_attention(queries, keys, values)


def groups_in_numpy(queries, keys, values):
    return torch.from_numpy(groups_by_einsum(queries, keys, values).detach().numpy())


def groups_in_float32(queries, keys, values):
    return groups_by_einsum(queries.float(), keys.float(), values.float())


def keys_detached(queries, keys, values):
    return groups_by_einsum(queries, keys.detach(), values)


# 9.5 --------------------------------------------------------------------------------------


def step_by_einsum(query, key, value, state, f):
    S = state[0] + torch.einsum("bhd,bhv->bhdv", f(key), value)
    z = torch.add(state[1], f(key))
    output = torch.einsum("bhd,bhdv->bhv", f(query), S)
    return output / torch.einsum("bhd,bhd->bh", f(query), z).unsqueeze(-1), [S, z]


def step_by_the_package(query, key, value, state, f):
    whole = torch.cat((state[0], state[1][..., None]), dim=-1)
    output, whole = linear_attention_step(query, key, value, whole, feature_map=f)
    return output, (whole[..., :-1], whole[..., -1])


def head_by_head_in_double(query, key, value, state, f):
    outputs, S, z = [], [], []
    rows = [X.double().flatten(0, 1) for X in (f(query), f(key), value, *state)]
    for q, k, v, old_S, old_z in zip(*rows, strict=True):
        S.append(old_S + torch.outer(k, v))
        z.append(old_z + k)
        outputs.append(S[-1].T.mv(q) / q.dot(z[-1]))
    together = [torch.stack(each).to(query.dtype) for each in (outputs, S, z)]
    outputs, S, z = (X.unflatten(0, query.shape[:2]) for X in together)
    return outputs, (S, z)


def three_results(query, key, value, state, f):
    output, (S, z) = step_by_einsum(query, key, value, state, f)
    return output, S, z


def only_the_state(query, key, value, state, f):
    return tuple(step_by_einsum(query, key, value, state, f)[1])


def added_in_place(query, key, value, state, f):
    S, z = state
    S.add_(torch.einsum("bhd,bhv->bhdv", f(key), value))
    z.add_(f(key))
    return torch.einsum("bhd,bhdv->bhv", f(query), S) / (f(query) * z).sum(-1, keepdim=True), (S, z)


def kept_in_half_precision(query, key, value, state, f):
    output, (S, z) = step_by_einsum(query, key, value, state, f)
    return output, (S.half().to(S.dtype), z.half().to(z.dtype))


def heads_share_a_memory(query, key, value, state, f):
    output, (S, z) = step_by_einsum(query, key, value, state, f)
    S = S.mean(dim=1, keepdim=True).expand_as(S)
    return torch.einsum("bhd,bhdv->bhv", f(query), S) / (f(query) * z).sum(-1, keepdim=True), (S, z)


def query_first(query, key, value, state, f):
    S, z = state
    output = torch.einsum("bhd,bhdv->bhv", f(query), S) / (f(query) * z).sum(-1, keepdim=True)
    return output, (S + torch.einsum("bhd,bhv->bhdv", f(key), value), z + f(key))


def value_detached(query, key, value, state, f):
    return step_by_einsum(query, key, value.detach(), state, f)


def a_small_number_below(query, key, value, state, f):
    output, (S, z) = step_by_einsum(query, key, value, state, f)
    total = (f(query) * z).sum(-1, keepdim=True)
    return output * total / (total + 0.01), (S, z)


# 9.6 --------------------------------------------------------------------------------------


def pixel_by_pixel(X, window, shift):
    B, R, C, D = X.shape
    windows, masks = [], []
    for b in range(B):
        for row in range(0, R, window):
            for column in range(0, C, window):
                places = [(row + i, column + j) for i in range(window) for j in range(window)]
                windows.append(
                    torch.stack([X[b, (r + shift) % R, (c + shift) % C] for r, c in places])
                )
                side = [(r + shift >= R, c + shift >= C) for r, c in places]
                masks.append(torch.tensor([[mine == other for other in side] for mine in side]))
    return torch.stack(windows), torch.stack(masks[: len(masks) // B])


def by_unfold(X, window, shift):
    _, R, C, D = X.shape
    moved = torch.cat((X[:, shift:], X[:, :shift]), dim=1)
    moved = torch.cat((moved[:, :, shift:], moved[:, :, :shift]), dim=2)

    def cut(X):  # (B, R, C, D): unfold puts the axes of a window last
        pieces = X.unfold(1, window, window).unfold(2, window, window)
        return pieces.permute(0, 1, 2, 4, 5, 3).flatten(3, 4).flatten(0, 2)

    side = torch.zeros(1, R, C, 2)
    side[:, R - shift :, :, 0] = 1
    side[:, :, C - shift :, 1] = 1
    side = cut(side)
    return cut(moved), (side[:, :, None] == side[:, None]).all(dim=-1)


def swin_by_the_package(X, window, shift):
    windows = partition_windows(X.roll((-shift, -shift), dims=(1, 2)), window)
    mask = swin_mask(*X.shape[1:3], window, [shift, shift])
    if mask is None:
        mask = torch.ones(len(windows) // len(X), window**2, window**2, dtype=torch.bool)
    return windows, mask


def only_windows(X, window, shift):
    return pixel_by_pixel(X, window, shift)[0]


def minus_a_hundred(X, window, shift):
    windows, mask = by_unfold(X, window, shift)
    return windows, torch.where(mask, 0.0, -100.0)


def masks_for_all_maps(X, window, shift):
    windows, mask = by_unfold(X, window, shift)
    return windows, torch.cat([mask] * len(X))


def half_a_window(X, window, shift):
    return by_unfold(X, window, window // 2)


def sees_itself_and_neighbours(X, window, shift):
    windows, mask = by_unfold(X, window, shift)
    return windows, mask & torch.ones_like(mask).triu(-1)


def maps_side_by_side(X, window, shift):
    windows, mask = by_unfold(X, window, shift)
    return windows.unflatten(0, (len(X), -1)).transpose(0, 1).flatten(0, 1), mask


def square_maps_only(X, window, shift):
    size = X.shape[1]
    windows, mask = by_unfold(X[:, :, :size], window, shift)
    return windows, mask


def pixels_detached(X, window, shift):
    return by_unfold(X.detach(), window, shift)


# 9.7 --------------------------------------------------------------------------------------


def some(n=10, seed=1):
    return torch.randn(2, n, 8, generator=torch.Generator().manual_seed(seed))


def other_from(X, t, stop=None):
    """X with another future from place t on, up to ``stop``."""
    changed = X.clone()
    changed[:, t:stop] = some(X.shape[1], seed=2)[:, t:stop]
    return changed


def beginning_given_alone(layer):
    X = some(13)
    for t in range(1, 13):
        assert_close(layer(X[:, :t]), layer(X)[:, :t], rtol=0, atol=1e-4)


def small_gradients(layer):
    X = some(16).requires_grad_()
    for t in range(15):
        (gradient,) = torch.autograd.grad(layer(X)[:, t].sum(), X)
        assert (gradient[:, t + 1 :].abs() < 1e-4).all()


def differences_below(layer):
    X = some(16)
    for t in range(1, 16):
        moved = (layer(other_from(X, t)) - layer(X))[:, :t].abs().max().item()
        assert moved < 1e-4, f"place {t} moves the past by {moved}"


def shape_only(layer):
    assert layer(some()).shape == (2, 10, 8)


def same_object(layer):
    X = some()
    other = X
    other[:, 5:] = 0
    assert_close(layer(other)[:, :5], layer(X)[:, :5])


def pours_nan(layer):
    X = some()
    for t in range(1, 10):
        dyed = X.clone()
        dyed[:, t:] = torch.nan
        assert not layer(dyed)[:, :t].isnan().any()


def every_digit(layer):
    X = some()
    for t in range(1, 10):
        assert torch.equal(layer(other_from(X, t))[:, :t], layer(X)[:, :t])


def one_place(layer):
    X = some()
    assert_close(layer(other_from(X, 6))[:, :6], layer(X)[:, :6])


def end_never_changes(layer):
    X = some(16)
    for t in range(1, 8):
        assert_close(layer(other_from(X, t, t + 5))[:, :t], layer(X)[:, :t])


def its_own_place(layer):
    X = some()
    assert_close(layer(other_from(X, 5))[:, :6], layer(X)[:, :6])


def returns_the_answer(layer):
    X = some()
    return torch.allclose(layer(other_from(X, 5))[:, :5], layer(X)[:, :5])


RIGHT = {
    "9.1": [
        [torch.tensor(480), np.float32(120), 1920.0, Fraction(240)],
        torch.tensor([480.0, 120, 1920, 240]),
    ],
    "9.2": [
        [688, 394, 652, 1070, 6200],
        [torch.tensor(688), np.int64(394), 652.0, Fraction(1070), torch.ones(62, 100).sum()],
    ],
    "9.3": [link_by_link, mask_in_numpy, mask_by_the_package, stacked_rows],
    "9.4": [groups_by_einsum, groups_in_a_loop, groups_by_pytorch],
    "9.5": [step_by_einsum, step_by_the_package, head_by_head_in_double],
    "9.6": [pixel_by_pixel, by_unfold, swin_by_the_package],
    "9.7": [beginning_given_alone, small_gradients, differences_below],
}
WRONG = {
    "9.1": [
        ((240, 60, 960, 120), "A token leaves a key and a value"),
        ((480, 120, 1966.08, 240), "not 1,000"),
        ((480, 120, 1920, 480), "no future to keep"),
        ((480, 120, 1900, 240), "multiply: keys and values"),
        ("480 KiB", "Give 4 numbers"),
    ],
    "9.2": [
        ((700, 394, 652, 1070, 6200), "have fewer neighbours. How many are missing?"),
        ((688, 344, 652, 1070, 6200), "halves the diagonal"),
        ((688, 394, 652, 1088, 6200), "Count each link once"),
        ((688, 394, 652, 1070, 6201), "BigBird, 6201"),
        ((688, 394, 652, 1070, 62), "10 times 10 links"),
        (688, "Give 5 numbers"),
    ],
    "9.3": [
        (as_slices, "A start below 0"),
        (past_the_end, "cut it there"),
        (numpy_array, "it should return a tensor"),
        (ones_and_zeros, "Here masks are bool"),
        (up_to_fifty, "n = 60"),
        (whole_future, "it should be False"),
    ],
    "9.4": [
        (by_the_remainder, "read the values of groups 0, 1, 0, 1"),
        (halves, "With four heads in two groups"),
        (keys_of_the_remainder, "whose keys it reads"),
        (two_copies, "do not line up"),
        (groups_in_numpy, "no gradient comes through"),
        (groups_in_float32, "is float32; for these inputs it should be float64"),
        (keys_detached, "no gradient reaches `keys`"),
    ],
    "9.5": [
        (three_results, "Return two results"),
        (only_the_state, "a pair (S, z)"),
        (added_in_place, "changes its input: `state`"),
        (kept_in_half_precision, "For others it is not"),
        (heads_share_a_memory, "For others it is not"),
        (query_first, "asks before it is in the state"),
        (value_detached, "no gradient reaches `value`"),
        (a_small_number_below, "its output has to be its value"),
    ],
    "9.6": [
        (only_windows, "Return two results"),
        (minus_a_hundred, "0 and -100"),
        (masks_for_all_maps, "the same for each map"),
        (half_a_window, "With others it is not"),
        (sees_itself_and_neighbours, "your mask hides pixel"),
        (maps_side_by_side, "the first windows of all of them"),
        (square_maps_only, "For others it is not"),
        (pixels_detached, "no gradient comes through"),
    ],
    "9.7": [
        (shape_only, "drawn by lot"),
        (same_object, "change a `clone()`"),
        (pours_nan, "NaN or infinity"),
        (every_digit, "Do not ask for equal digits"),
        (one_place, "Try every place t"),
        (end_never_changes, "from the very beginning"),
        (its_own_place, "A token may see itself"),
        (returns_the_answer, "A test speaks by failing"),
    ],
}
