"""Answers to chapter 1 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong


@right("1.2")
def row_by_row(scores, values):
    outputs = []
    for row in scores:
        positive = [(score - max(row)).exp() for score in row]
        terms = [p * value for p, value in zip(positive, values, strict=True)]
        outputs.append(sum(terms) / sum(positive))
    return torch.stack(outputs)


@wrong("1.2", "Such an axis stays")
def squeezed(scores, values):
    return row_by_row(scores, values).squeeze()


@wrong("1.2", "each row needs a number of its own")
def in_numpy(scores, values):
    positive = np.exp(scores.detach().numpy() - scores.detach().numpy().max())
    return torch.from_numpy(positive / positive.sum(axis=1, keepdims=True) @ values.numpy())


@right("1.4")
def by_newton(scores, share):
    gaps = scores.double() - scores.max()
    sharpness = torch.zeros((), dtype=torch.float64)
    for _ in range(100):
        weights = (gaps * sharpness).softmax(0)
        sharpness = sharpness - ((gaps * sharpness).logsumexp(0) + math.log(share)) / (
            weights @ gaps
        )
    return 1 / sharpness


@wrong("1.4", "Do you divide by the temperature?")
def multiplied(scores, share):
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        if torch.softmax(scores * middle, 0).max() > share:
            low = middle
        else:
            high = middle
    return middle


@wrong("1.4", "its steps are too coarse")
def steps_of_a_tenth(scores, share):
    temperature = 0.1
    while torch.softmax(scores / temperature, 0).max() > share and temperature < 100:
        temperature += 0.1
    return temperature


@wrong("1.4", "a positive, finite number")
def below_zero(scores, share):
    return -by_newton(scores, share)


@right("1.5")
def paired_in_loops(queries, keys, values):
    outputs = []
    for query in queries:
        scores = torch.stack([query.dot(key) for key in keys])
        shares = scores.exp() / scores.exp().sum()
        outputs.append(sum(share * value for share, value in zip(shares, values, strict=True)))
    return torch.stack(outputs)


@wrong("1.5", "it should be")
def causal_where_square(queries, keys, values):
    causal = len(queries) == len(keys)
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal, scale=1.0)


@wrong("1.5", "What in it still counts on Q = K")
def first_two_keys(queries, keys, values):
    return paired_in_loops(queries, keys[:2], values[:2])


def weights_of(query, keys):
    return torch.softmax(-((query - keys) ** 2).sum(-1) / 2, 0)


@right("1.6")
def covariance(query, keys, values):
    a = weights_of(query.double(), keys.double())
    k, v = keys.double(), values.double()
    return ((a[:, None] * k).T @ v - (a @ k).outer(a @ v)).to(values.dtype)


@wrong("1.6", "autograd found them")
def gradient_by_jacobian(query, keys, values):
    jacobian = torch.autograd.functional.jacobian
    return jacobian(lambda q: weights_of(q, keys) @ values, query).T.contiguous()


@wrong("1.6", "Close, but not exact")
def gradient_by_steps(query, keys, values):
    rows = []
    for step in torch.eye(len(query)) * 1e-2:
        above, below = (weights_of(q, keys) @ values for q in (query + step, query - step))
        rows.append((above - below) / 2e-2 + 1e-3)
    return torch.stack(rows)


right("1.1")(Fraction(32, 4))
wrong("1.1", "*adds* the three")([torch.tensor(1.0), 2, np.float32(5)])
wrong("1.1", "keep the output between")(3.3)
right("1.3")(Fraction(1, 2))
wrong("1.3", "only the new weight of the first")(np.array([0.5, 0.25, 0.25]))
wrong("1.3", "more than 1")(1.5)
