"""Answers to chapter 2 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong

from d2l_attention import boxcar, epanechikov, gaussian


@right("2.2")
def entry_by_entry(x):
    result = torch.empty_like(x)
    for place in np.ndindex(*x.shape):
        result[place] = max(1 - float(x[place]) ** 2, 0)
    return result


@wrong("2.2", "has shape (1, 3)")
def one_entry_longer(x):
    return torch.stack([1 - x**2, torch.zeros_like(x)]).amax(0, keepdim=True)


@right("2.3")
def query_after_query(x_train, y_train, x_val, kernel):
    rows = []
    for query in x_val:
        row = torch.cat([kernel((query - key)[None]) for key in x_train])
        rows.append(row / row.sum() if row.any() else torch.zeros_like(row))
    return torch.stack([row.dot(y_train) for row in rows]), torch.stack(rows)


@wrong("2.3", "it should be [-0.3518")
def keys_sorted(x_train, y_train, x_val, kernel):
    return query_after_query(x_train.sort().values, y_train, x_val, kernel)


@wrong("2.3", "not the sum of `y_train` weighted by your weights")
def blind_query_takes_nearest(x_train, y_train, x_val, kernel):
    prediction, weights = query_after_query(x_train, y_train, x_val, kernel)
    nearest = (x_val[:, None] - x_train).abs().argmin(1)
    blind = weights.sum(1) == 0
    return torch.where(blind, y_train[nearest], prediction), weights


@right("2.5")
def point_after_point(x, y, width):
    errors = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        scores = -((x[others] - x[i]) ** 2) / (2 * width**2)
        errors.append((F.softmax(scores, dim=0) @ y[others] - y[i]) ** 2)
    return torch.stack(errors).mean()


@wrong("2.5", "Think of the castle")
def similarities_divided(x, y, width):
    similarity = gaussian((x[:, None] - x) / width) * (1 - torch.eye(len(x)))
    return ((similarity @ y) / similarity.sum(1) - y).square().mean()


@wrong("2.5", "these two points see themselves")
def hidden_by_a_hundred(x, y, width):
    scores = -((x[:, None] - x) ** 2) / (2 * width**2) - 100 * torch.eye(len(x))
    return (scores.softmax(1) @ y - y).square().mean()


@wrong("2.5", "overwritten in place")
def overwritten(x, y, width):
    scores = -((x[:, None] - x) ** 2) / (2 * width**2)
    weights = scores.masked_fill(torch.eye(len(x)).bool(), -math.inf).softmax(1)
    errors = weights @ y - y
    errors *= errors
    return errors.mean()


@right("2.6")
def with_numbers_in_lists(implementation):
    keys, values = torch.tensor([0.0, 0.5, 4.0]), torch.tensor([3.0, 5.0, 100.0])
    prediction, weights = implementation(
        x_train=keys, y_train=values, x_val=torch.tensor([0.2, -8.0]), kernel=boxcar
    )
    wanted = [[0.5, 0.5, 0], [0, 0, 0]]
    assert weights.ndim == 2 and len(weights) == 2
    for row, expected in zip(weights.tolist(), wanted, strict=True):
        for got, known in zip(row, expected, strict=True):
            assert abs(got - known) < 1e-4
    assert (weights[1] == 0).all() and prediction[1] == 0
    assert math.isclose(prediction[0].item(), 4, rel_tol=1e-4)


@wrong("2.6", "write `1.0` for `1`")
def whole_numbers(implementation):
    x = torch.tensor([0, 1, 2])
    prediction, _ = implementation(x, x, torch.tensor([1, 9]), epanechikov)
    assert prediction.tolist() == [1, 0]


@wrong("2.6", "as many queries as keys")
def square_and_symmetric(implementation):
    x = torch.tensor([0.0, 1.0, 5.0])
    _, weights = implementation(x, x, x, lambda difference: 2 * epanechikov(difference / 2))
    wanted = torch.tensor([[2 / 3, 1 / 3, 0], [1 / 3, 2 / 3, 0], [0, 0, 1]])
    torch.testing.assert_close(weights, wanted)


right("2.1")([Fraction(1, 3), Fraction(2, 3), 0, Fraction(10, 3)])
wrong("2.1", "similarities still, which nothing has divided?")([0.5, 1, 0, 5])
wrong("2.1", "softmax of the similarities")((0.307, 0.506, 0.186, 3.6))
wrong("2.1", "without quotes")("1/3, 2/3, 0, 10/3")
wrong("2.2", "handle one number")(math.sqrt)
right("2.4")([2, torch.tensor(8.9), np.float64(17.7)])
wrong("2.4", "it contradicts your prediction")([4, 8.86, 17.72])
wrong("2.4", "you summed the similarities")((2, 6.27, 12.53))
wrong("2.4", "one list of three plain numbers")("2")
right("2.7")([torch.tensor(-3.0), np.float32(1), 2, Fraction(11, 5)])
wrong("2.7", "left out |k|² = 1")([-2.5, 1, 2, 2.2])
wrong("2.7", "one flat list of four numbers")([1, 2, 2.2])
