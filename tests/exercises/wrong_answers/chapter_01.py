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


def by_logarithms(scores, values):
    return torch.einsum("qk,kv->qv", (scores - scores.logsumexp(1, True)).exp(), values)


def in_double(scores, values):
    shares = (scores.double() - scores.amax(1, keepdim=True)).exp()
    return ((shares / shares.sum(1)[:, None]) @ values.double()).to(values.dtype)


def by_pytorch(scores, values):
    keys = torch.eye(len(values), dtype=values.dtype)
    return F.scaled_dot_product_attention(scores, keys, values, scale=1.0)


def squeezed(scores, values):
    return row_by_row(scores, values).squeeze()


def scores_detached(scores, values):
    return by_logarithms(scores.detach(), values)


def values_detached(scores, values):
    return by_logarithms(scores, values.detach())


def filled_in(scores, values):
    outputs = torch.zeros(len(scores), values.shape[1])
    for i, row in enumerate(F.softmax(scores, dim=1)):
        outputs[i] = sum(weight * value for weight, value in zip(row, values, strict=True))
    return outputs


def exponentials_as_they_are(scores, values):
    positive = torch.exp(scores)
    return positive / torch.sum(positive, dim=1, keepdim=True) @ values


def as_many_outputs_as_keys(scores, values):
    weights = F.softmax(scores, dim=1)
    return torch.stack([weights[i] @ values for i in range(len(values))])


def in_numpy(scores, values):
    positive = np.exp(scores.detach().numpy() - scores.detach().numpy().max())
    return torch.from_numpy(positive / positive.sum(axis=1, keepdims=True) @ values.numpy())


# 1.4 --------------------------------------------------------------------------------------


def halving_exponents(scores, share):
    gaps = scores.double().numpy().max() - scores.double().numpy()
    low, high = -25.0, 25.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if 1 / np.exp(-gaps / np.exp(middle)).sum() > share:
            low = middle
        else:
            high = middle
    return np.exp(low)


def by_newton(scores, share):
    gaps = scores.double() - scores.max()
    sharpness = torch.zeros((), dtype=torch.float64)
    for _ in range(100):
        weights = (gaps * sharpness).softmax(0)
        sharpness = sharpness - ((gaps * sharpness).logsumexp(0) + math.log(share)) / (
            weights @ gaps
        )
    return 1 / sharpness


def in_ever_smaller_steps(scores, share):
    scores, temperature, factor = scores.tolist(), 1.0, 2.0
    while factor > 1.00001:
        best = 1 / sum(math.exp((score - max(scores)) / temperature) for score in scores)
        further = temperature * factor if best > share else temperature / factor
        best_there = 1 / sum(math.exp((score - max(scores)) / further) for score in scores)
        if (best > share) != (best_there > share):
            factor **= 0.5
        temperature = further
    return torch.tensor([temperature])


def multiplied(scores, share):
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        if torch.softmax(scores * middle, 0).max() > share:
            low = middle
        else:
            high = middle
    return middle


def multiplied_and_turned(scores, share):
    sharpness = 0.1
    while torch.softmax(scores * sharpness, 0).max() < share:
        sharpness *= 1.002
    return sharpness


def steps_of_a_tenth(scores, share):
    temperature = 0.1
    while torch.softmax(scores / temperature, 0).max() > share and temperature < 100:
        temperature += 0.1
    return temperature


def between_fixed_ends(scores, share):
    ends = [1e-2, 50.0]
    for _ in range(40):
        middle = sum(ends) / 2
        too_cold = F.softmax(scores / middle, dim=0).amax() > share
        ends[0 if too_cold else 1] = middle
    return middle


def overflowing(scores, share):
    gaps, low, high = np.exp(scores.double().numpy()), 1e-9, 1e9
    for _ in range(100):
        middle = (low * high) ** 0.5
        powers = np.minimum(gaps, 1e300) ** (1 / middle)
        low, high = (middle, high) if powers.max() > share * powers.sum() else (low, middle)
    return middle


def below_zero(scores, share):
    return -by_newton(scores, share)


def as_text(scores, share):
    return f"{halving_exponents(scores, share):.4f}"


def the_first_is_best(scores, share):
    temperature = 0.01
    while torch.softmax(scores / temperature, 0)[0] > share:
        temperature *= 1.002
    return temperature


# 1.5 --------------------------------------------------------------------------------------


def paired_in_loops(queries, keys, values):
    outputs = []
    for query in queries:
        scores = torch.stack([query.dot(key) for key in keys])
        shares = scores.exp() / scores.exp().sum()
        outputs.append(sum(share * value for share, value in zip(shares, values, strict=True)))
    return torch.stack(outputs)


def paired_by_einsum(queries, keys, values):
    positive = torch.einsum("qd,kd->qk", queries, keys).double().exp()
    weights = positive / positive.sum(dim=1, keepdim=True)
    return torch.einsum("qk,kv->qv", weights, values.double()).to(values.dtype)


def paired_by_pytorch(queries, keys, values):
    return F.scaled_dot_product_attention(queries, keys, values, scale=1.0)


def paired_and_squeezed(queries, keys, values):
    return paired_by_pytorch(queries, keys, values).squeeze()


def paired_and_scaled(queries, keys, values):
    return F.scaled_dot_product_attention(queries, keys, values)


def keys_detached(queries, keys, values):
    return paired_by_einsum(queries, keys.detach(), values)


def causal_where_square(queries, keys, values):
    causal = len(queries) == len(keys)
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal, scale=1.0)


def first_two_keys(queries, keys, values):
    return paired_in_loops(queries, keys[:2], values[:2])


def single_precision(queries, keys, values):
    return paired_in_loops(queries, keys, values).float()


def one_key_a_query(queries, keys, values):
    rows = []
    for query, key, value in zip(queries, keys, values, strict=False):
        rows.append(torch.softmax((query * key).sum()[None], 0) * value)
    return torch.stack(rows)


# 1.6 --------------------------------------------------------------------------------------


def weights_of(query, keys):
    return torch.softmax(-((query - keys) ** 2).sum(-1) / 2, 0)


def gradient_in_loops(query, keys, values):
    a = weights_of(query, keys)
    output = sum(weight * value for weight, value in zip(a, values, strict=True))
    rows = []
    for d in range(len(query)):
        pulls = [a[j] * (keys[j, d] - query[d]) for j in range(len(keys))]
        rows.append(sum(p * (value - output) for p, value in zip(pulls, values, strict=True)))
    return torch.stack(rows)


def covariance(query, keys, values):
    a = weights_of(query.double(), keys.double())
    k, v = keys.double(), values.double()
    return ((a[:, None] * k).T @ v - (a @ k).outer(a @ v)).to(values.dtype)


def gradient_in_numpy(query, keys, values):
    q, k, v = query.numpy(), keys.numpy(), values.numpy()
    scores = -((k - q) ** 2).sum(1) / 2
    a = np.exp(scores - scores.max())
    a /= a.sum()
    return torch.from_numpy(np.einsum("k,kd,kv->dv", a, k - q, v - a @ v))


def gradient_by_jacrev(query, keys, values):
    return torch.func.jacrev(lambda q: weights_of(q, keys) @ values)(query).T


def gradient_by_jacobian(query, keys, values):
    jacobian = torch.autograd.functional.jacobian
    return jacobian(lambda q: weights_of(q, keys) @ values, query).T.contiguous()


def gradient_by_steps(query, keys, values):
    rows = []
    for step in torch.eye(len(query)) * 1e-2:
        above, below = (weights_of(q, keys) @ values for q in (query + step, query - step))
        rows.append((above - below) / 2e-2 + 1e-3)
    return torch.stack(rows)


def gradient_squeezed(query, keys, values):
    return covariance(query, keys, values).squeeze()


def always_double(query, keys, values):
    return covariance(query.double(), keys.double(), values.double())


def gradient_in_the_scores(query, keys, values):
    a = weights_of(query, keys)
    return torch.stack([w * (v - a @ values) for w, v in zip(a, values, strict=True)])


def gradient_of_the_weights(query, keys, values):
    a = weights_of(query, keys)
    return a[:, None] * (keys - a @ keys)


def one_gradient(query, keys, values):
    return gradient_in_loops(query, keys, values).sum(0)


def own_softmax(query, keys, values):
    e = torch.exp(-(keys - query).pow(2).sum(1) / 2)
    a = e / e.sum()
    return (keys - query).T @ (a[:, None] * (values - a @ values))


RIGHT = {
    "1.1": [8, [8.0], torch.tensor([8.0]), np.float32(8), Fraction(32, 4)],
    "1.2": [row_by_row, by_logarithms, in_double, by_pytorch],
    "1.3": [Fraction(1, 2), np.float64(0.5), torch.tensor(0.5), (0.5,), [torch.tensor(0.5)]],
    "1.4": [halving_exponents, by_newton, in_ever_smaller_steps],
    "1.5": [paired_in_loops, paired_by_einsum, paired_by_pytorch],
    "1.6": [gradient_in_loops, covariance, gradient_in_numpy],
}
WRONG = {
    "1.1": [
        (10, "A score of 0 is not a weight of 0"),
        (torch.tensor(7.3333), "the plain mean"),
        ([torch.tensor(1.0), 2, np.float32(5)], "*adds* the three"),
        (3.3, "keep the output between"),
        (7.9, "too small"),
        ("8", "Give a number"),
    ],
    "1.2": [
        (squeezed, "Such an axis stays"),
        (scores_detached, "no gradient reaches `scores`"),
        (values_detached, "no gradient reaches `values`"),
        (filled_in, "is float32; for these inputs it should be float64"),
        (exponentials_as_they_are, "e^1000 is inf"),
        (as_many_outputs_as_keys, "counts on Q = K"),
        (in_numpy, "each row needs a number of its own"),
    ],
    "1.3": [
        (Fraction(2, 3), "you doubled the weight"),
        (np.array([0.5, 0.25, 0.25]), "only the new weight of the first"),
        (1.5, "more than 1"),
        (0.45, "too small"),
        ("a half", "Give a number"),
    ],
    "1.4": [
        (multiplied, "Do you divide by the temperature?"),
        (multiplied_and_turned, "the number to *multiply*"),
        (steps_of_a_tenth, "its steps are too coarse"),
        (between_fixed_ends, "does your range of temperatures"),
        (overflowing, "an `exp` in your code that overflows"),
        (below_zero, "a positive, finite number"),
        (as_text, "it should return a number"),
        (the_first_is_best, "where the best key comes first"),
    ],
    "1.5": [
        (paired_and_squeezed, "Such an axis stays"),
        (paired_and_scaled, "Scaling comes in chapter 3"),
        (keys_detached, "no gradient reaches `keys`"),
        (causal_where_square, "it should be"),
        (first_two_keys, "What in it still counts on Q = K"),
        (single_precision, "it should be float64"),
        (one_key_a_query, "the values, untouched"),
    ],
    "1.6": [
        (gradient_by_jacrev, "autograd found them"),
        (gradient_by_jacobian, "autograd found them"),
        (gradient_by_steps, "Close, but not exact"),
        (gradient_squeezed, "it should be (3, 1)"),
        (always_double, "is float64; for these inputs it should be float32"),
        (gradient_in_the_scores, "One factor of the chain rule is missing"),
        (gradient_of_the_weights, "Your result has a row for each key"),
        (one_gradient, "Your result is one row"),
        (own_softmax, "All keys are far away here"),
    ],
}
