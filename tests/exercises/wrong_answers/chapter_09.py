"""Answers to chapter 9 in a student's own voice: wrong ones with their words, and right ones."""

from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong
from torch.testing import assert_close


@right("9.3")
def link_by_link(n, window, dilation, is_causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for step in range(-window, 1 if is_causal else window + 1):
            if 0 <= i + step * dilation < n:
                mask[i, i + step * dilation] = True
    return mask


@wrong("9.3", "it should return a tensor")
def numpy_array(n, window, dilation, is_causal):
    return link_by_link(n, window, dilation, is_causal).numpy()


@wrong("9.3", "Here masks are bool")
def ones_and_zeros(n, window, dilation, is_causal):
    return link_by_link(n, window, dilation, is_causal).int()


@right("9.4")
def groups_in_a_loop(queries, keys, values):
    H, G = queries.shape[1], keys.shape[1]
    heads = []
    for h in range(H):
        k, v = keys[:, h * G // H], values[:, h * G // H]
        scores = queries[:, h].double() @ k.double().transpose(1, 2) / k.shape[-1] ** 0.5
        heads.append(scores.softmax(-1) @ v.double())
    return torch.stack(heads, dim=1).to(queries.dtype)


@wrong("9.4", "With four heads in two groups")
def halves(queries, keys, values):
    H, G = queries.shape[1], keys.shape[1]
    group = (torch.arange(H) >= H // 2).long() * (G - 1)
    return F.scaled_dot_product_attention(queries, keys[:, group], values[:, group])


@wrong("9.4", "do not line up")
def two_copies(queries, keys, values):
    keys, values = (torch.stack((X, X), dim=2).flatten(1, 2) for X in (keys, values))
    return F.scaled_dot_product_attention(queries, keys, values)


@right("9.5")
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


@wrong("9.5", "Return two results")
def three_results(query, key, value, state, f):
    output, (S, z) = head_by_head_in_double(query, key, value, state, f)
    return output, S, z


@wrong("9.5", "For others it is not")
def heads_share_a_memory(query, key, value, state, f):
    output, (S, z) = head_by_head_in_double(query, key, value, state, f)
    S = S.mean(dim=1, keepdim=True).expand_as(S)
    return torch.einsum("bhd,bhdv->bhv", f(query), S) / (f(query) * z).sum(-1, keepdim=True), (S, z)


@right("9.6")
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


@wrong("9.6", "Return two results")
def only_windows(X, window, shift):
    return pixel_by_pixel(X, window, shift)[0]


@wrong("9.6", "0 and -100")
def minus_a_hundred(X, window, shift):
    windows, mask = pixel_by_pixel(X, window, shift)
    return windows, torch.where(mask, 0.0, -100.0)


@wrong("9.6", "With others it is not")
def half_a_window(X, window, shift):
    return pixel_by_pixel(X, window, window // 2)


@wrong("9.6", "your mask hides pixel")
def sees_itself_and_neighbours(X, window, shift):
    windows, mask = pixel_by_pixel(X, window, shift)
    return windows, mask & torch.ones_like(mask).triu(-1)


def some(n=10, seed=1):
    return torch.randn(2, n, 8, generator=torch.Generator().manual_seed(seed))


def other_from(X, t):
    """X with another future from place t on."""
    return torch.cat((X[:, :t], some(X.shape[1], seed=2)[:, t:]), dim=1)


@right("9.7")
def small_gradients(layer):
    X = some(16).requires_grad_()
    for t in range(15):
        (gradient,) = torch.autograd.grad(layer(X)[:, t].sum(), X)
        assert (gradient[:, t + 1 :].abs() < 1e-4).all()


@wrong("9.7", "drawn by lot")
def shape_only(layer):
    assert layer(some()).shape == (2, 10, 8)


@wrong("9.7", "NaN or infinity")
def pours_nan(layer):
    X = some()
    for t in range(1, 10):
        dyed = X.clone()
        dyed[:, t:] = torch.nan
        assert not layer(dyed)[:, :t].isnan().any()


@wrong("9.7", "Do not ask for equal digits")
def every_digit(layer):
    X = some()
    for t in range(1, 10):
        assert torch.equal(layer(other_from(X, t))[:, :t], layer(X)[:, :t])


@wrong("9.7", "A token may see itself")
def its_own_place(layer):
    X = some()
    assert_close(layer(other_from(X, 5))[:, :6], layer(X)[:, :6])


right("9.1")([torch.tensor(480), np.float32(120), 1920.0, Fraction(240)])
wrong("9.1", "not 1,000")((480, 120, 1966.08, 240))
wrong("9.1", "no future to keep")((480, 120, 1920, 480))
right("9.2")([torch.tensor(688), np.int64(394), 652.0, Fraction(1070), torch.ones(62, 100).sum()])
wrong("9.2", "Count each link once")((688, 394, 652, 1088, 6200))
wrong("9.2", "10 times 10 links")((688, 394, 652, 1070, 62))
