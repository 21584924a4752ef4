"""Wrong answers to exercise 2.5."""

import math
from typing import Any

import torch
from torch import Tensor

from d2l_attention import attention_pooling, gaussian, gaussian_score, nadaraya_watson
from d2l_attention.exercises.chapter_02 import solutions


def pooled(x: Tensor, y: Tensor, width: Any, mask: Tensor | None = None) -> Tensor:
    """The prediction (K, 1) at every point, for the wrong answers below."""
    scores = gaussian_score(x[:, None], x[:, None], width)
    return attention_pooling(scores, y[:, None], mask=mask)[0]


def all_but_itself(x: Tensor) -> Tensor:
    return ~torch.eye(len(x), dtype=torch.bool)


def sees_itself(x, y, width):
    return (pooled(x, y, width)[:, 0] - y).square().mean()


def own_score_zero(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width).fill_diagonal_(0)
    return (scores.softmax(dim=-1) @ y - y).square().mean()


def sees_only_itself(x, y, width):
    return (pooled(x, y, width, ~all_but_itself(x))[:, 0] - y).square().mean()


def mask_after_softmax(x, y, width):
    weights = gaussian_score(x[:, None], x[:, None], width).softmax(dim=-1) * all_but_itself(x)
    return (weights @ y - y).square().mean()


def column_minus_row(x, y, width):
    return (pooled(x, y, width, all_but_itself(x)) - y).square().mean()


def sees_only_earlier(x, y, width):
    return (pooled(x, y, width, all_but_itself(x).tril())[:, 0] - y).square().mean()


def sum_of_squares(x, y, width):
    return len(x) * solutions.leave_one_out_error(x, y, width)


def over_k_minus_1(x, y, width):
    return solutions.leave_one_out_error(x, y, width) * len(x) / (len(x) - 1)


def half_the_mean(x, y, width):
    return solutions.leave_one_out_error(x, y, width) / 2


def square_of_the_mean(x, y, width):
    return (pooled(x, y, width, all_but_itself(x))[:, 0] - y).mean().square()


def mean_of_absolutes(x, y, width):
    return (pooled(x, y, width, all_but_itself(x))[:, 0] - y).abs().mean()


def root_mean_square(x, y, width):
    return solutions.leave_one_out_error(x, y, width).sqrt()


def one_error_a_point(x, y, width):
    return (pooled(x, y, width, all_but_itself(x))[:, 0] - y).square()


def kernel_and_division(x, y, width):
    similarity = gaussian((x[:, None] - x) / width) * all_but_itself(x)
    weights = similarity / similarity.sum(dim=1, keepdim=True)
    return (weights @ y - y).square().mean()


def loop_with_nadaraya_watson(x, y, width):
    errors = []
    for i in range(len(x)):
        keep = torch.arange(len(x)) != i
        kernel = lambda difference: gaussian(difference / width)  # noqa: E731
        prediction, _ = nadaraya_watson(x[keep], y[keep], x[i : i + 1], kernel)
        errors.append((prediction - y[i]).square())
    return torch.cat(errors).mean()


def hidden_with(number, x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width).masked_fill(~all_but_itself(x), number)
    return (scores.softmax(dim=-1) @ y - y).square().mean()


def hidden_with_minus_a_hundred(x, y, width):
    return hidden_with(-100, x, y, width)


def hidden_with_minus_a_billion(x, y, width):
    return hidden_with(-1e9, x, y, width)


def width_not_squared(x, y, width):
    return solutions.leave_one_out_error(x, y, width**0.5)


def times_infinity(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width) - torch.eye(len(x)) * math.inf
    return (scores.softmax(dim=-1) @ y - y).square().mean()


def without_softmax(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width).fill_diagonal_(-math.inf)
    return (scores @ y - y).square().mean()


def output_and_weights_as_one(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width)
    prediction = attention_pooling(scores, y[:, None], mask=all_but_itself(x))
    return (prediction[:, 0] - y).square().mean()


def without_the_two(x, y, width):
    return solutions.leave_one_out_error(x, y, width / 2**0.5)


def without_minus(x, y, width):
    scores = (x[:, None] - x).square() / (2 * width**2)
    return (scores.fill_diagonal_(-math.inf).softmax(dim=-1) @ y - y).square().mean()


def softmax_over_the_queries(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width).fill_diagonal_(-math.inf)
    return (scores.softmax(dim=0) @ y - y).square().mean()


def width_ignored(x, y, width):
    return solutions.leave_one_out_error(x, y, 1.0)


def width_as_logarithm(x, y, width):
    return solutions.leave_one_out_error(x, y, math.exp(width))


def logarithm_for_tensors(x, y, width):
    return solutions.leave_one_out_error(x, y, width.exp())


def plain_number(x, y, width):
    return solutions.leave_one_out_error(x, y, width).item()


def without_gradient(x, y, width):
    return torch.tensor(solutions.leave_one_out_error(x, y, width).item())


def overwritten_in_place(x, y, width):
    errors = pooled(x, y, width, all_but_itself(x))[:, 0] - y
    errors *= errors
    return errors.mean()


def all_at_the_same_place_hidden(x, y, width):
    return (pooled(x, y, width, x[:, None] != x)[:, 0] - y).square().mean()


def mask_of_floats(x, y, width):
    return (pooled(x, y, width, ~torch.eye(len(x)))[:, 0] - y).square().mean()


def residual_over_one_minus_own_weight(x, y, width):
    weights = gaussian_score(x[:, None], x[:, None], width).softmax(dim=-1)
    return ((weights @ y - y) / (1 - weights.diagonal())).square().mean()


def vectors_for_matrices(x, y, width):
    prediction, _ = attention_pooling(gaussian_score(x, x, width), y, mask=all_but_itself(x))
    return (prediction - y).square().mean()


def values_without_columns(x, y, width):
    scores = gaussian_score(x[:, None], x[:, None], width)
    return (attention_pooling(scores, y, mask=all_but_itself(x))[0] - y).square().mean()
