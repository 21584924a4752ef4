"""Answers to chapter 2 in a student's own voice: wrong ones with their words, and right ones."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from d2l_attention import (
    boxcar,
    constant,
    epanechikov,
    gaussian,
    masked_softmax,
    nadaraya_watson,
)

# 2.2 --------------------------------------------------------------------------------------


def chosen_by_where(x):
    return torch.where(x.abs() > 1, torch.zeros_like(x), 1 - x * x)


def factors_through_relu(x):
    return F.relu((1 - x) * (1 + x))


def numpy_in_double(x):
    array = x.double().numpy()
    return torch.as_tensor(np.maximum(1 - np.square(array), 0), dtype=x.dtype)


def entry_by_entry(x):
    result = torch.empty_like(x)
    for place in np.ndindex(*x.shape):
        result[place] = max(1 - float(x[place]) ** 2, 0)
    return result


def turned_around(x):
    return chosen_by_where(x).flip(-1)


def only_the_rows_turned(x):
    return chosen_by_where(x).flip(0) if x.ndim == 2 else chosen_by_where(x)


def in_single_precision(x):
    return torch.tensor(numpy_in_double(x).tolist())


def written_into_the_input(x):
    x[x.abs() > 1] = 1
    return (1 - x) * (1 + x)


def one_entry_longer(x):
    return torch.stack([1 - x**2, torch.zeros_like(x)]).amax(0, keepdim=True)


def nothing_returned(x):
    (1 - x.square()).relu()


def narrower(x):
    return F.relu(1 - (2 * x) ** 2)


# 2.3 --------------------------------------------------------------------------------------


def query_after_query(x_train, y_train, x_val, kernel):
    rows = []
    for query in x_val:
        row = torch.cat([kernel((query - key)[None]) for key in x_train])
        rows.append(row / row.sum() if row.any() else torch.zeros_like(row))
    return torch.stack([row.dot(y_train) for row in rows]), torch.stack(rows)


def by_normalize(x_train, y_train, x_val, kernel):
    table = kernel(torch.sub(x_val.unsqueeze(1), x_train.unsqueeze(0)))
    weights = F.normalize(table.double(), p=1, dim=1, eps=1e-300)
    return torch.einsum("qk,k->q", weights, y_train.double()).float(), weights.float()


def by_numpy(x_train, y_train, x_val, kernel):
    table = kernel(x_val[:, None] - x_train[None]).numpy().astype(np.float64)
    sums = table.sum(1, keepdims=True)
    weights = np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)
    prediction = weights @ y_train.numpy()
    return torch.tensor(prediction).float(), torch.tensor(weights).float()


def mended_by_nan_to_num(x_train, y_train, x_val, kernel):
    table = kernel(x_val.view(-1, 1) - x_train.view(1, -1))
    weights = torch.nan_to_num(table / table.sum(1, keepdim=True))
    return (weights * y_train).sum(1), weights


def columns_divided(x_train, y_train, x_val, kernel):
    table = kernel(x_val[:, None] - x_train)
    for key in range(len(x_train)):
        table[:, key] = table[:, key] / table[:, key].sum()
    return table @ y_train, table


def gaussian_of_its_own(x_train, y_train, x_val, kernel):
    scores = -((x_val[:, None] - x_train) ** 2) / 2
    return scores.softmax(1) @ y_train, scores.softmax(1)


def small_sums_lifted(x_train, y_train, x_val, kernel):
    table = kernel(x_val[:, None] - x_train)
    weights = F.normalize(table, p=1, dim=1)
    return weights @ y_train, weights


def kernel_turned(x_train, y_train, x_val, kernel):
    return query_after_query(-x_train, y_train, -x_val, kernel)


def keys_sorted(x_train, y_train, x_val, kernel):
    return mended_by_nan_to_num(x_train.sort().values, y_train, x_val, kernel)


def prediction_as_a_column(x_train, y_train, x_val, kernel):
    _, weights = query_after_query(x_train, y_train, x_val, kernel)
    return weights @ y_train[:, None], weights


def blind_query_takes_nearest(x_train, y_train, x_val, kernel):
    prediction, weights = query_after_query(x_train, y_train, x_val, kernel)
    nearest = (x_val[:, None] - x_train).abs().argmin(1)
    blind = weights.sum(1) == 0
    return torch.where(blind, y_train[nearest], prediction), weights


# 2.5 --------------------------------------------------------------------------------------


def point_after_point(x, y, width):
    errors = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        scores = -((x[others] - x[i]) ** 2) / (2 * width**2)
        errors.append((F.softmax(scores, dim=0) @ y[others] - y[i]) ** 2)
    return torch.stack(errors).mean()


def by_logsumexp_in_double(x, y, width):
    x, y = x.double(), y.double()
    scores = -0.5 * ((x.unsqueeze(0) - x.unsqueeze(1)) / width) ** 2
    scores = scores.masked_fill(torch.eye(len(x)).bool(), -math.inf)
    weights = torch.exp(scores - scores.logsumexp(1, keepdim=True))
    return F.mse_loss(torch.mv(weights, y), y).float()


def by_pytorch(x, y, width):
    queries = (x / width)[None, :, None]
    ones = torch.ones_like(queries)
    # -|q - k|² / 2 = q k - k² / 2 - q² / 2, and the last part is the same for all keys.
    left, right = torch.cat([queries, ones], 2), torch.cat([queries, -(queries**2) / 2], 2)
    seen = torch.ones(len(x), len(x)).tril(-1) + torch.ones(len(x), len(x)).triu(1)
    pooled = F.scaled_dot_product_attention(
        left.double(), right.double(), y[None, :, None].double(), attn_mask=seen > 0, scale=1.0
    )
    return (pooled.flatten() - y).pow(2).mean().float()


def diagonal_cut_out(x, y, width):
    K = len(x)
    off = ~torch.eye(K, dtype=torch.bool)
    distances = (x[:, None] - x)[off].view(K, K - 1)
    weights = masked_softmax(-(distances**2) / 2 / width**2, None)
    return ((weights * y.expand(K, K)[off].view(K, K - 1)).sum(1) - y).square().mean()


def similarities_divided(x, y, width):
    similarity = gaussian((x[:, None] - x) / width) * (1 - torch.eye(len(x)))
    return ((similarity @ y) / similarity.sum(1) - y).square().mean()


def hidden_by_a_hundred(x, y, width):
    scores = -((x[:, None] - x) ** 2) / (2 * width**2) - 100 * torch.eye(len(x))
    return (scores.softmax(1) @ y - y).square().mean()


def others_alike(x, y, width):
    return (((y.sum() - y) / (len(y) - 1) - y) ** 2).mean()


def error_as_a_column(x, y, width):
    return point_after_point(x, y, width)[None]


def gradient_cut(x, y, width):
    return point_after_point(x, y, torch.as_tensor(width).detach())


def overwritten(x, y, width):
    scores = -((x[:, None] - x) ** 2) / (2 * width**2)
    weights = scores.masked_fill(torch.eye(len(x)).bool(), -math.inf).softmax(1)
    errors = weights @ y - y
    errors *= errors
    return errors.mean()


def width_must_be_a_tensor(x, y, width):
    return point_after_point(x, y, width.clone())


def leaves_out_the_first(x, y, width):
    kernel = lambda difference: gaussian(difference / width)  # noqa: E731
    prediction, _ = nadaraya_watson(x[1:], y[1:], x, kernel)
    return (prediction - y).square().mean()


# 2.6 --------------------------------------------------------------------------------------


def compares_with_the_package(implementation):
    torch.manual_seed(1)
    inputs = torch.randn(6), torch.randn(6), torch.cat([torch.randn(3), torch.tensor([50.0])])
    prediction, weights = implementation(*inputs, epanechikov)
    expected, shares = nadaraya_watson(*inputs, epanechikov)
    assert torch.allclose(prediction, expected, atol=1e-6)
    assert weights.shape == shares.shape and torch.allclose(weights, shares, atol=1e-6)


def with_numbers_in_lists(implementation):
    keys, values = torch.tensor([0.0, 0.5, 4.0]), torch.tensor([3.0, 5.0, 100.0])
    prediction, weights = implementation(
        x_train=keys, y_train=values, x_val=torch.tensor([0.2, -8.0]), kernel=boxcar
    )
    wanted = [[0.5, 0.5, 0], [0, 0, 0]]
    assert weights.ndim == 2 and len(weights) == 2
    for row, expected in zip(weights.tolist(), wanted, strict=True):
        for got, right in zip(row, expected, strict=True):
            assert abs(got - right) < 1e-4
    assert (weights[1] == 0).all() and prediction[1] == 0
    assert math.isclose(prediction[0].item(), 4, rel_tol=1e-4)


def with_several_small_cases(implementation):
    x, y = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 6.0])
    prediction, weights = implementation(x, y, torch.zeros(3), constant)
    assert list(weights.shape) == [3, 2] and list(prediction.shape) == [3]
    assert (weights.sum(1) - 1).abs().max() < 1e-5
    assert (prediction - 4).abs().max() < 1e-5
    prediction, weights = implementation(x, y, torch.tensor([5.0]), boxcar)
    assert not weights.isnan().any() and not weights.any() and prediction.item() == 0


def sums_only(implementation):
    _, weights = implementation(torch.arange(3.0), torch.rand(3), torch.rand(2), gaussian)
    torch.testing.assert_close(weights.sum(1), torch.ones(2))


def blind_query_left_out(implementation):
    inputs = torch.arange(3.0), torch.tensor([2.0, 5.0, 1.0]), torch.tensor([0.3, 1.4]), gaussian
    for got, right in zip(implementation(*inputs), query_after_query(*inputs), strict=True):
        torch.testing.assert_close(got, right)


def blind_query_is_nan(implementation):
    x, far = torch.arange(3.0), torch.tensor([0.5, 30.0])
    prediction, _ = implementation(x, x, far, boxcar)
    assert prediction[1].isnan()


def every_row_sums_to_one(implementation):
    x, far = torch.arange(3.0), torch.tensor([0.5, 30.0])
    _, weights = implementation(x, x, far, boxcar)
    torch.testing.assert_close(weights.sum(1), torch.ones(2))


def square_and_symmetric(implementation):
    x = torch.tensor([0.0, 1.0, 5.0])
    _, weights = implementation(x, x, x, lambda difference: 2 * epanechikov(difference / 2))
    wanted = torch.tensor([[2 / 3, 1 / 3, 0], [1 / 3, 2 / 3, 0], [0, 0, 1]])
    torch.testing.assert_close(weights, wanted)


def prints_the_difference(implementation):
    inputs = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.3, 1.4]), gaussian
    print(implementation(*inputs)[0] - nadaraya_watson(*inputs)[0])


def digit_by_digit(implementation):
    inputs = torch.arange(3.0), torch.arange(3.0), torch.tensor([0.3, 9.0]), epanechikov
    assert torch.equal(implementation(*inputs)[1], nadaraya_watson(*inputs)[1])


def whole_numbers(implementation):
    x = torch.tensor([0, 1, 2])
    prediction, _ = implementation(x, x, torch.tensor([1, 9]), epanechikov)
    assert prediction.tolist() == [1, 0]


RIGHT = {
    "2.1": [
        (0.333, 0.667, 0, 3.333),
        [Fraction(1, 3), Fraction(2, 3), 0, Fraction(10, 3)],
        [torch.tensor(1 / 3), np.float32(2 / 3), 0, 3.33],
        np.array([[1, 2], [0, 10]]) / 3,
    ],
    "2.2": [chosen_by_where, factors_through_relu, numpy_in_double, entry_by_entry],
    "2.7": [
        (-3, 1, 2, 2.2),
        [torch.tensor(-3.0), np.float32(1), 2, Fraction(11, 5)],
        np.array([[-6, 2], [4, 4.4]]) / 2,
    ],
    "2.3": [query_after_query, by_normalize, by_numpy, mended_by_nan_to_num],
    "2.4": [
        (2, 8.86, 17.72),
        [2, torch.tensor(8.9), np.float64(17.7)],
        [Fraction(2), Fraction(89, 10), Fraction(177, 10)],
        torch.tensor([2, 8.8623, 17.7245]),
    ],
    "2.5": [point_after_point, by_logsumexp_in_double, by_pytorch, diagonal_cut_out],
    "2.6": [compares_with_the_package, with_numbers_in_lists, with_several_small_cases],
}
WRONG = {
    "2.7": [
        ([-2.5, 1, 2, 2.2], "left out |k|² = 1"),
        ((6, 1, 2, 2.2), "the sign and the factor 1/2 are missing"),
        (torch.tensor([-3, -2, -1, -0.8]), "these are the Gaussian scores"),
        ([-3, 1, 2, 1.4], "the last key has two components"),
        ([1, 2, 2.2], "one flat list of four numbers"),
    ],
    "2.1": [
        ([0.5, 1, 0, 5], "similarities still, which nothing has divided?"),
        ((0.307, 0.506, 0.186, 3.6), "softmax of the similarities"),
        ([1 / 3, 2 / 3, 0, 4], "your weights take no part in it"),
        ([33.3, 66.7, 0, 3.33], "looks like a percentage"),
        ([0.6, 0.4, 0, 4.4], "is too large"),
        ([1 / 3, 2 / 3, 10 / 3], "behind the three weights comes the prediction"),
        ("1/3, 2/3, 0, 10/3", "without quotes"),
    ],
    "2.2": [
        (turned_around, "it should be [0, 0.75, 0.99]"),
        (only_the_rows_turned, "`x = [[0, 0.5, -1], [2, -0.25, 0.75]]`"),
        (in_single_precision, "is float32"),
        (written_into_the_input, "changes its input: `x`"),
        (one_entry_longer, "has shape (1, 3)"),
        (nothing_returned, "Is the `return` missing?"),
        (narrower, "it should be [0, 0.75, 0.99]"),
        (math.sqrt, "handle one number"),
    ],
    "2.3": [
        (columns_divided, "you divide by the sum over the queries"),
        (gaussian_of_its_own, "Does your function call `kernel`?"),
        (small_sums_lifted, "Only a sum of exactly 0 needs care"),
        (kernel_turned, "query minus key"),
        (keys_sorted, "it should be [-0.3518"),
        (prediction_as_a_column, "Result 1 of 2"),
        (blind_query_takes_nearest, "not what your weights make of `y_train`"),
    ],
    "2.4": [
        ([4, 8.86, 17.72], "it contradicts your prediction"),
        ((2, 6.27, 12.53), "you summed the similarities"),
        ([8.9, 17.7, 2], "The factor comes first"),
        ([2, 9.5, 18.9], "too large"),
        ("2", "one list of three plain numbers"),
    ],
    "2.5": [
        (similarities_divided, "Think of the castle"),
        (hidden_by_a_hundred, "these two points see themselves"),
        (others_alike, "it should be"),
        (error_as_a_column, "has shape (1,)"),
        (gradient_cut, "no gradient"),
        (overwritten, "overwritten in place"),
        (width_must_be_a_tensor, "may be a plain number as well"),
        (leaves_out_the_first, "it should be"),
    ],
    "2.6": [
        (sums_only, "All your queries have a key in reach"),
        (blind_query_left_out, "All your queries have a key in reach"),
        (blind_query_is_nan, "the mistake is in what you expect"),
        (every_row_sums_to_one, "their weights sum to 0"),
        (square_and_symmetric, "as many queries as keys"),
        (prints_the_difference, "It passes whatever comes back"),
        (digit_by_digit, "wants every digit to agree"),
        (whole_numbers, "write `1.0` for `1`"),
    ],
}
