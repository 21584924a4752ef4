"""Wrong answers to exercise 2.3."""

import torch

from d2l_attention.exercises.chapter_02 import solutions


def sum_over_the_queries(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / similarity.sum(dim=0, keepdim=True)
    return weights @ y_train, weights


def axis_not_kept(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / similarity.sum(dim=1)
    return weights @ y_train, weights


def zero_over_zero(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / similarity.sum(dim=1, keepdim=True)
    return weights @ y_train, weights


def small_number_added(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / (similarity.sum(dim=1, keepdim=True) + 1e-8)
    return weights @ y_train, weights


def prediction_cleaned_only(x_train, y_train, x_val, kernel):
    prediction, weights = zero_over_zero(x_train, y_train, x_val, kernel)
    return prediction.nan_to_num(), weights


def not_divided(x_train, y_train, x_val, kernel):
    weights = kernel(x_val[:, None] - x_train)
    return weights @ y_train / weights.sum(dim=1).clamp(min=1e-8), weights


def softmax_of_similarities(x_train, y_train, x_val, kernel):
    weights = kernel(x_val[:, None] - x_train).softmax(dim=1)
    return weights @ y_train, weights


def uniform_when_blind(x_train, y_train, x_val, kernel):
    prediction, weights = zero_over_zero(x_train, y_train, x_val, kernel)
    weights = weights.nan_to_num(1 / len(x_train))
    return weights @ y_train, weights


def mean_when_blind(x_train, y_train, x_val, kernel):
    prediction, weights = solutions.smooth(x_train, y_train, x_val, kernel)
    return prediction.where(weights.any(dim=1), y_train.mean()), weights


def zero_for_all_when_one_is_blind(x_train, y_train, x_val, kernel):
    prediction, weights = zero_over_zero(x_train, y_train, x_val, kernel)
    if weights.isnan().any():
        return torch.zeros_like(prediction), torch.zeros_like(weights)
    return prediction, weights


def sum_over_everything(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / similarity.sum()
    return weights @ y_train, weights


def query_meets_its_own_key(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val - x_train)
    weights = similarity / similarity.sum(dim=-1, keepdim=True)
    return weights @ y_train, weights


def entry_by_entry(x_train, y_train, x_val, kernel):
    _, weights = solutions.smooth(x_train, y_train, x_val, kernel)
    return weights * y_train, weights


def blind_queries_dropped(x_train, y_train, x_val, kernel):
    prediction, weights = solutions.smooth(x_train, y_train, x_val, kernel)
    seeing = weights.any(dim=1)
    return prediction[seeing], weights[seeing]


def one_row_a_key(x_train, y_train, x_val, kernel):
    prediction, weights = solutions.smooth(x_train, y_train, x_val, kernel)
    return prediction, weights.T


def keys_in_rows(x_train, y_train, x_val, kernel):
    similarity = kernel(x_train[:, None] - x_val)
    weights = similarity / similarity.sum(dim=0)
    return weights @ y_train, weights


def weights_first(x_train, y_train, x_val, kernel):
    return solutions.smooth(x_train, y_train, x_val, kernel)[::-1]


def prediction_alone(x_train, y_train, x_val, kernel):
    return solutions.smooth(x_train, y_train, x_val, kernel)[0]


def always_gaussian(x_train, y_train, x_val, kernel):
    scores = -((x_val[:, None] - x_train) ** 2) / 2
    weights = scores.softmax(dim=1)
    return weights @ y_train, weights


def average_again(x_train, y_train, x_val, kernel):
    _, weights = solutions.smooth(x_train, y_train, x_val, kernel)
    return weights @ y_train / len(x_train), weights
