"""Answers to chapter 1 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

# 1.2 --------------------------------------------------------------------------------------


def row_by_row(scores, values):
    outputs = []
    for row in scores:
        positive = [(score - max(row)).exp() for score in row]
        terms = [p * value for p, value in zip(positive, values, strict=True)]
        outputs.append(sum(terms) / sum(positive))
    return torch.stack(outputs)


def squeezed(scores, values):
    return row_by_row(scores, values).squeeze()


def in_numpy(scores, values):
    positive = np.exp(scores.detach().numpy() - scores.detach().numpy().max())
    return torch.from_numpy(positive / positive.sum(axis=1, keepdims=True) @ values.numpy())


# 1.4 --------------------------------------------------------------------------------------


def by_newton(scores, share):
    gaps = scores.double() - scores.max()
    sharpness = torch.zeros((), dtype=torch.float64)
    for _ in range(100):
        weights = (gaps * sharpness).softmax(0)
        sharpness = sharpness - ((gaps * sharpness).logsumexp(0) + math.log(share)) / (
            weights @ gaps
        )
    return 1 / sharpness


def multiplied(scores, share):
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        if torch.softmax(scores * middle, 0).max() > share:
            low = middle
        else:
            high = middle
    return middle


def steps_of_a_tenth(scores, share):
    temperature = 0.1
    while torch.softmax(scores / temperature, 0).max() > share and temperature < 100:
        temperature += 0.1
    return temperature


def below_zero(scores, share):
    return -by_newton(scores, share)


# 1.5 --------------------------------------------------------------------------------------


def paired_in_loops(queries, keys, values):
    outputs = []
    for query in queries:
        scores = torch.stack([query.dot(key) for key in keys])
        shares = scores.exp() / scores.exp().sum()
        outputs.append(sum(share * value for share, value in zip(shares, values, strict=True)))
    return torch.stack(outputs)


def causal_where_square(queries, keys, values):
    causal = len(queries) == len(keys)
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal, scale=1.0)


def first_two_keys(queries, keys, values):
    return paired_in_loops(queries, keys[:2], values[:2])


# 1.6 --------------------------------------------------------------------------------------


def weights_of(query, keys):
    return torch.softmax(-((query - keys) ** 2).sum(-1) / 2, 0)


def covariance(query, keys, values):
    a = weights_of(query.double(), keys.double())
    k, v = keys.double(), values.double()
    return ((a[:, None] * k).T @ v - (a @ k).outer(a @ v)).to(values.dtype)


def gradient_by_jacobian(query, keys, values):
    jacobian = torch.autograd.functional.jacobian
    return jacobian(lambda q: weights_of(q, keys) @ values, query).T.contiguous()


def gradient_by_steps(query, keys, values):
    rows = []
    for step in torch.eye(len(query)) * 1e-2:
        above, below = (weights_of(q, keys) @ values for q in (query + step, query - step))
        rows.append((above - below) / 2e-2 + 1e-3)
    return torch.stack(rows)


RIGHT = {
    "1.1": [Fraction(32, 4)],
    "1.2": [row_by_row],
    "1.3": [Fraction(1, 2)],
    "1.4": [by_newton],
    "1.5": [paired_in_loops],
    "1.6": [covariance],
}
WRONG = {
    "1.1": [
        ([torch.tensor(1.0), 2, np.float32(5)], "*adds* the three"),
        (3.3, "keep the output between"),
    ],
    "1.2": [
        (squeezed, "Such an axis stays"),
        (in_numpy, "each row needs a number of its own"),
    ],
    "1.3": [
        (np.array([0.5, 0.25, 0.25]), "only the new weight of the first"),
        (1.5, "more than 1"),
    ],
    "1.4": [
        (multiplied, "Do you divide by the temperature?"),
        (steps_of_a_tenth, "its steps are too coarse"),
        (below_zero, "a positive, finite number"),
    ],
    "1.5": [
        (causal_where_square, "it should be"),
        (first_two_keys, "What in it still counts on Q = K"),
    ],
    "1.6": [
        (gradient_by_jacobian, "autograd found them"),
        (gradient_by_steps, "Close, but not exact"),
    ],
}
